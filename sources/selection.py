"""Which keys belong to a source: prefix, patterns, and names that nobody means as documents."""

from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from contracts.errors import ConfigurationError
from contracts.sources import SourceConfig

# Left by tools beside the data; never documents (spiceai/spiceai#14121).
MARKERS = ("_SUCCESS", ".DS_Store", "Thumbs.db", "desktop.ini")
MARKER_PREFIXES = ("_committed_", "_started_", "~$", "._")
UNFINISHED = (".part", ".tmp", ".swp", ".crdownload", "~")


def is_marker(key: str) -> bool:
    """Whether the last name of the key is one that tools leave behind."""
    name = PurePosixPath(key).name
    return name in MARKERS or name.startswith(MARKER_PREFIXES)


def is_unfinished(key: str) -> bool:
    """Whether the name says that its content is still being written."""
    return key.endswith(UNFINISHED)


def selects(config: SourceConfig, key: str) -> bool:
    """Whether the key is a document of the source."""
    if not key.startswith(config.prefix) or is_marker(key):
        return False
    if config.include and not any(fnmatchcase(key, pattern) for pattern in config.include):
        return False
    return not any(fnmatchcase(key, pattern) for pattern in config.exclude)


def check_options(config: SourceConfig, known: frozenset[str]) -> None:
    """Refuse options that the kind doesn't know."""
    unknown = sorted(set(config.options) - known)
    if unknown:
        allowed = ", ".join(sorted(known)) or "none"
        raise ConfigurationError(
            f"a source of kind {config.kind} has no option {unknown[0]!r}: it knows {allowed}"
        )
