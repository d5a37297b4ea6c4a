"""Benchmarks of the product itself: through bridge, coordinator, run and batches.

May import everything. `python -m benchmarks NAME [options] --json` prints its figures as the
last line; a new benchmark is a module with `arguments(parser)` and `run(options)`, and a line in
`BENCHMARKS` of `__main__`.
"""
