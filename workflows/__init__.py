"""Deterministic decisions: when a source runs, what a run does, in which order a batch goes.

Workflows only decide; they import `contracts` and call activities by name. State is one model
or one object per workflow, every wait has a bound, and predicates have names. A new workflow is
a module and a line in `WORKFLOWS` of the worker; every change passes the replay of
`tests/histories/`.
"""
