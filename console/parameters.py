"""What the operations take: parameters that several share, and the desk that they ask."""

from typing import Annotated, Final

from fastapi import Depends, Path, Query, Request

from console.desk import Desk
from console.pages import LARGEST_PAGE
from contracts.ids import OPEN_SEQ, SOURCE_ID_PATTERN

AFTER: Final = "Where the page before has ended: follow its `Link` header."


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


TheDesk = Annotated[Desk, Depends(_desk)]

# The pattern is declared and not enforced: what is no name names no source, and that is a 404.
SourceName = Annotated[
    str,
    Path(
        description="Name of a source.",
        examples=["handbook"],
        json_schema_extra={"pattern": SOURCE_ID_PATTERN},
    ),
]
RunNumber = Annotated[
    int, Path(ge=1, le=OPEN_SEQ, description="Sequence number of a run.", examples=[1])
]
DocumentKey = Annotated[
    str,
    Query(
        min_length=1,
        max_length=4_096,
        description="Key of a document. It holds slashes, and paths are normalised on their way, "
        "so it is no part of the path.",
        examples=["guide/start.md"],
    ),
]
Actor = Annotated[
    str,
    Query(min_length=1, max_length=100, description="Who, for the audit trail.", examples=["ann"]),
]
Reason = Annotated[
    str, Query(max_length=1_000, description="Why, for the audit trail.", examples=["moved"])
]
Limit = Annotated[
    int, Query(ge=1, le=LARGEST_PAGE, description="How many at most.", examples=[100])
]
After = Annotated[str, Query(max_length=4_096, description=AFTER, examples=["handbook"])]
AfterRun = Annotated[int | None, Query(ge=1, le=OPEN_SEQ, description=AFTER, examples=[7])]
WaitingRun = Annotated[
    int | None,
    Query(ge=1, le=OPEN_SEQ, description="Its number; the one that waits if left out."),
]
