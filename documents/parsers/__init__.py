"""Parsers: content of one kind of file to text with pages.

A parser is a function from `Content` to `Parsed` in a module of its own, registered in `chains`.
Parsers run in child processes (`sandbox`, `child`) and raise `ParseError` and its classes.
"""
