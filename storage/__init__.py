"""Where Sluice keeps what it knows: the object store (`objects/`) and the catalog (`catalog/`).

May import `contracts` only. One more object store is one module in `objects/` that passes the
contract suite; a new table is a migration in `catalog/versions/` and a line in `schema`.
"""
