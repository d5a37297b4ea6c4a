"""The command line: nouns, then verbs; one module a noun.

`main` puts the nouns together and turns errors into sentences and exit statuses. A new noun
is a module with a typer application and a line in `main`. Modules import only what `--help`
needs; what a command works with is imported inside it.
"""
