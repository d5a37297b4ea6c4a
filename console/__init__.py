"""The stack seen from outside: the desk with every operation, the HTTP API on it, its client.

Imports `contracts` and third-party packages only. A new operation is a method of `desk.Desk`,
its doing in `local_desk`, its route in the routes of its noun and its call in `client`.
"""
