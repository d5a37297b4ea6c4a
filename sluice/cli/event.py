"""`sluice event`: what the bridge understands of messages, and those that it doesn't."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli import output
from sluice.cli.desk import ask
from sluice.cli.options import Json

app = typer.Typer(name="event", help="Change events and dead letters.", rich_markup_mode=None)

SHOWN = 80  # characters of a message that a person is shown

File = Annotated[
    str, typer.Argument(help="A message's body, or the `input` of a case; - is standard input.")
]
ByReason = Annotated[str | None, typer.Option("--reason", help="Only those parked for it.")]


@app.command()
def decode(file: File = "-", *, json_: Json = False) -> None:  # noqa: ARG001 - it is JSON in any case
    """Print the events of a message as JSON; `drop` and `park` are answers too."""
    from bridge.decoders.inputs import decode_input  # noqa: PLC0415

    output.document(decode_input(_content(file)))


@app.command()
def parked(reason: ByReason = None, json_: Json = False) -> None:
    """The messages that no decoder understood."""
    messages = [
        message
        for message in ask(lambda desk: desk.parked())
        if reason is None or reason.lower() in message.reason.lower()
    ]
    if json_:
        output.lines(messages)
        return
    output.table(
        ("id", "parked at", "reason", "message"),
        (
            (message.id, message.parked_at, message.reason, message.original[:SHOWN])
            for message in messages
        ),
        empty="no message is parked",
    )


def _content(file: str) -> bytes:
    from contracts.errors import ConfigurationError  # noqa: PLC0415

    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read: {error.strerror}") from error
