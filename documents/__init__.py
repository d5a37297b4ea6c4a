"""Content in, chunks and vectors out; knows no Temporal.

May import `contracts` only. One more parser is a module in `parsers/` and a line in
`parsers.chains`; one more embedder a module in `embedders/` and a line in its registry. Whoever
changes what a component makes raises its version, which the golden tests ask for.
"""
