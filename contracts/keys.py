"""Keys that are no documents in any source: marks that tools leave, and unfinished files."""

from typing import Final

# Left by tools beside the data; never documents (spiceai/spiceai#14121).
MARKERS: Final = frozenset({"_SUCCESS", ".DS_Store", "Thumbs.db", "desktop.ini"})
MARKER_PREFIXES: Final = ("_committed_", "_started_", "~$", "._")
# A state folder of Sluice has this file in it: its own objects are nobody's documents.
STATE_MARK: Final = ".sluice-state"
UNFINISHED: Final = (".part", ".tmp", ".swp", ".crdownload", "~")


def is_marker(key: str) -> bool:
    """Whether the last name of the key is one that tools leave behind."""
    name = key.rstrip("/").rpartition("/")[2]
    return name in MARKERS or name.startswith(MARKER_PREFIXES)


def is_folder_object(key: str, size: int | None) -> bool:
    """Whether an object stands for a folder: it ends in a slash and has no content. A zero-byte
    key without a slash is a real object (opensearch-project/data-prepper#3727)."""
    return key.endswith("/") and not size


def is_hidden(key: str) -> bool:
    """Whether a file, or a folder on the way to it, has a name that begins with a dot."""
    return any(name.startswith(".") for name in key.split("/"))


def is_unfinished(key: str) -> bool:
    """Whether a file's name says that its content is still being written."""
    return key.endswith(UNFINISHED)
