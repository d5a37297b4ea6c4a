"""Object stores: the data bus of contents, packs, plans and dead letters."""
