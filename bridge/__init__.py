"""Change events in, signals out.

May import `contracts` only. One more event format is a module in `decoders/` and a line in its
registry; one more way that messages come is a module in `consumers/` and a line in `pipeline`.
A message is acknowledged only after every signal that it stands for was accepted.
"""
