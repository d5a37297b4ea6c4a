"""Which keys belong to a source: prefix, patterns, and names that nobody means as documents."""

from fnmatch import fnmatchcase

from contracts.errors import ConfigurationError
from contracts.keys import is_marker
from contracts.sources import SourceConfig


def selects(config: SourceConfig, key: str) -> bool:
    """Whether the key is a document of the source."""
    if not key.startswith(config.prefix) or is_marker(key):
        return False
    if config.include and not any(fnmatchcase(key, pattern) for pattern in config.include):
        return False
    return not any(fnmatchcase(key, pattern) for pattern in config.exclude)


def may_hold(config: SourceConfig, folder: str) -> bool:
    """Whether documents of the source can be below the folder, named with its slash. A pattern
    that ends in `*` excludes all that is below a folder that it matches."""
    if not (folder.startswith(config.prefix) or config.prefix.startswith(folder)):
        return False
    return not any(
        pattern.endswith("*") and fnmatchcase(folder, pattern) for pattern in config.exclude
    )


def check_options(config: SourceConfig, known: frozenset[str]) -> None:
    """Refuse options that the kind doesn't know."""
    unknown = sorted(set(config.options) - known)
    if unknown:
        allowed = ", ".join(sorted(known)) or "none"
        raise ConfigurationError(
            f"a source of kind {config.kind} has no option {unknown[0]!r}: it knows {allowed}"
        )
