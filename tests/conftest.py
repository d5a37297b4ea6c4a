"""What a test needs beside Python packages: where that is absent, the last lines name what was
left out, and why."""

from collections.abc import Callable

import pytest

from documents.parsers import recognition


def _tesseract() -> str | None:
    wanted = recognition.find(recognition.ENGLISH)
    if wanted.data is not None:
        return None
    return f"Tesseract's data isn't installed (`apt-get install {' '.join(wanted.packages)}`)"


# Why it is absent, or None where it is there.
NEEDS: dict[str, Callable[[], str | None]] = {"tesseract": _tesseract}

_LEFT_OUT = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"needs(what): runs where it is: {', '.join(NEEDS)}")
    config.stash[_LEFT_OUT] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of what is absent."""
    absent = {name: why for name, look in NEEDS.items() if (why := look()) is not None}
    kept, left = [], []
    for item in items:
        whys = [absent[m.args[0]] for m in item.iter_markers("needs") if m.args[0] in absent]
        if not whys:
            kept.append(item)
            continue
        left.append(item)
        for why in whys:
            config.stash[_LEFT_OUT].setdefault(why, []).append(item.nodeid)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    for why, tests in terminalreporter.config.stash[_LEFT_OUT].items():
        terminalreporter.write_line(f"left out: {len(tests)} tests, as {why}:")
        for test in tests:
            terminalreporter.write_line(f"  {test}")
