"""Task queues, one for each kind of work."""

from typing import Final

WORKFLOWS: Final = "sluice-workflows"
PARSING: Final = "sluice-parsing"
INGESTION: Final = "sluice-ingestion"
INDEXING: Final = "sluice-indexing"
STATUS: Final = "sluice-status"

ALL: Final = (WORKFLOWS, PARSING, INGESTION, INDEXING, STATUS)
