"""The composition root: settings, wiring, the local stack, workers and the command line.

It may import every room, and nothing imports it. `cli/` has one module a noun; a new
setting is a new field in `settings`, which is its only home; a new component is chosen in
`wiring`.
"""
