"""The program `sluice`: the nouns put together, and every error turned into a sentence."""

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import typer
from typer.exceptions import TyperException

from sluice.cli import (
    doctor,
    document,
    event,
    openapi,
    parse,
    rollback,
    run,
    search,
    source,
    stack,
)

DONE: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
INTERRUPTED: Final = 128 + signal.SIGINT
BROKEN_PIPE: Final = 128 + signal.SIGPIPE

app = typer.Typer(
    name="sluice",
    help="Keeps search indexes true to their sources: event-driven, staged, gated, reversible.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for noun in (source, run, document, event):
    app.add_typer(noun.app)
for verb in (stack, search, rollback, parse, doctor, openapi):
    verb.register(app)


def main() -> NoReturn:
    """Run the command line and end the process.

    Temporal's client may abort while the interpreter goes down (temporalio/sdk-python#300), which
    would turn a success into a crash: once it was loaded we end without that.
    """
    status = run_command(sys.argv[1:])
    if "temporalio" in sys.modules:
        os._exit(status)
    sys.exit(status)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; answers the exit status. Streams are flushed."""
    status = _guarded(arguments)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return _reader_left()
    return status


def _guarded(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments
    try:
        result = app(args=list(arguments), prog_name="sluice", standalone_mode=False)
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as error:  # typer's own answer to a reader that went away
        return _reader_left() if error.code else DONE
    except TyperException as error:
        _complain("WrongUse", _usage(error), as_json=as_json)
        return WRONG_USE
    except Exception as error:  # noqa: BLE001 - the last place where an error can become a sentence
        return _explain(error, as_json=as_json)
    return result if isinstance(result, int) else DONE


def _explain(error: Exception, *, as_json: bool) -> int:
    from contracts.errors import SluiceError  # noqa: PLC0415 - `--help` doesn't need it

    if os.environ.get("SLUICE_DEBUG") == "1":
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, SluiceError):
        _complain(error.name, str(error), as_json=as_json)
        return error.exit_status
    name = type(error).__name__
    sentence = f"unexpected {name}: {error} (set SLUICE_DEBUG=1 for the whole story)"
    _complain(name, sentence, as_json=as_json)
    return FAILED


def _usage(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "sluice"
    return f"{error.format_message().rstrip('.')}: `{path} --help` shows what is allowed"


def _complain(name: str, sentence: str, *, as_json: bool) -> None:
    text = json.dumps({"error": name, "message": sentence}, ensure_ascii=False)
    line = text if as_json else f"sluice: {' '.join(sentence.split())}"
    sys.stderr.write(line.encode("utf-8", "backslashreplace").decode() + "\n")


def _reader_left() -> int:
    # The interpreter flushes stdout once more at its end; there is nobody to write to.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
