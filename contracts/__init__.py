"""The vocabulary that every room shares: models, ids, ports, errors and names of work.

May import nothing of ours and does no I/O. A new shared word is a new model in
the module of its noun; a new capability is a `Protocol` in `ports`.
"""
