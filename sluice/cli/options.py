"""Arguments and options that several commands share."""

from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="JSON for programs: one document, or one line a record.")
]
Source = Annotated[str, typer.Argument(help="Name of the source.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit trail.")]
