"""`sluice rollback`: the flip, backwards."""

from typing import Annotated

import typer

from sluice.cli import output
from sluice.cli.actor import actor
from sluice.cli.desk import ask
from sluice.cli.options import Json, Reason, Source

To = Annotated[
    int | None,
    typer.Option(
        "--to", min=1, help="A retained sequence; by default the one before the live one."
    ),
]


def rollback(source: Source, to: To = None, reason: Reason = "", json_: Json = False) -> None:
    """Let readers see an earlier sequence again. The source is pinned until `source resume`."""
    from contracts.activities import Command  # noqa: PLC0415

    command = Command(verb="rollback", actor=actor(), reason=reason, to_seq=to)
    result = ask(lambda desk: desk.command(source, command))
    if json_:
        output.document(result)
        return
    output.say(f"{source}: {result.message}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(rollback)
