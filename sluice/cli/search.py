"""`sluice search`: a question to one or more sources."""

import shlex
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from sluice.cli import output
from sluice.cli.desk import ask
from sluice.cli.options import Json

if TYPE_CHECKING:
    from contracts.search import SearchAnswer, SearchHit

SHOWN: Final = 300  # characters of a hit that a person is shown

Query = Annotated[str, typer.Argument(help="The question.", show_default=False)]
Sources = Annotated[
    list[str], typer.Option("--source", "-s", help="Where to search; may be given again.")
]
At = Annotated[
    int | None, typer.Option("--at", min=0, help="A sequence instead of the live one (one source).")
]
Limit = Annotated[int, typer.Option("-k", min=1, max=1_000, help="Hits at most.")]
Fusion = Annotated[
    Literal["weighted", "rrf"], typer.Option(help="How vectors and keywords become one list.")
]


def search(
    query: Query,
    source: Sources,
    at: At = None,
    k: Limit = 5,
    fusion: Fusion = "weighted",
    json_: Json = False,
) -> None:
    """Search by meaning and by words; the answer names the sequences that it was read at."""
    from contracts import search as contract  # noqa: PLC0415
    from contracts.errors import ConfigurationError  # noqa: PLC0415

    if at is not None and len(source) != 1:
        raise ConfigurationError("--at pins a sequence of one source: give exactly one --source")
    question = contract.SearchQuestion(
        text=query,
        sources=tuple(dict.fromkeys(source)),
        limit=k,
        at=at,
        fusion=contract.Fusion(fusion),
    )
    answer = ask(lambda desk: desk.search(question))
    if json_:
        output.document(answer)
        return
    _show(answer)


def _show(answer: "SearchAnswer") -> None:
    for place, hit in enumerate(answer.hits, start=1):
        output.say(f"{place}. {hit.chunk.title or hit.chunk.doc_key}  ({hit.score:.3f})")
        output.say(f"   {hit.chunk.source_id}: {hit.chunk.doc_key}{_where(hit)}")
        output.say(f"   {_shortened(hit.text)}")
        output.say(f"   {_provenance(hit)}")
    if not answer.hits:
        output.say("nothing found")
    pinned = ", ".join(f"{source} at {seq}" for source, seq in sorted(answer.pinned.items()))
    output.say(f"read: {pinned or 'nothing'}")
    if answer.incomplete:
        output.say("the list is shorter than it should be: a store is behind the catalog")


def _where(hit: "SearchHit") -> str:
    first, last = hit.chunk.page_start, hit.chunk.page_end
    if first is None:
        return ""
    return f", page {first}" if last in {None, first} else f", pages {first} to {last}"


def _provenance(hit: "SearchHit") -> str:
    """Which runs made the chunk and the document version, and how to ask for more."""
    chunk = hit.chunk
    made = f"chunk {chunk.chunk_id} of run {chunk.from_seq}"
    if chunk.version_seq not in {0, chunk.from_seq}:
        made += f", kept by run {chunk.version_seq}"
    how = shlex.join(("sluice", "document", "history", chunk.source_id, chunk.doc_key))
    return f"{made}: `{output.cell(how)}`"


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else f"{flat[: SHOWN - 1]}…"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(search)
