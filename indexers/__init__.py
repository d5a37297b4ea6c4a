"""Search stores behind one protocol, and the hybrid search that asks them.

Lives here: an adapter a module (`memory`, `qdrant_edge`, `sqlite_fts`), what they share (`lanes`,
`visibility`, `words`), and the reader's side (`fusion`, `search`). May import `contracts` and
third-party packages only.

One more store: implement `contracts.ports.SearchStore` in a module of its own, translate its
errors into `StoreUnavailable`, and add a builder to `tests/contract/test_search_store.py`.
"""
