"""Recognition of text in pictures: where Tesseract's data is, and for what languages."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LANGUAGES_VARIABLE: Final = "SLUICE_RECOGNITION_LANGUAGES"
DATA_VARIABLE: Final = "TESSDATA_PREFIX"  # Tesseract's own
ENGLISH: Final = "eng"

# Where packages put it: Debian 12 and 11, Fedora, Arch, what is built by hand, Homebrew.
PLACES: Final = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tesseract/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)


@dataclass(frozen=True)
class Recognition:
    """What pictures of text are read with.

    `languages` have Tesseract's names (`eng`, `chi_sim`). `data` is the folder that has all of
    them; None: one is missing, so nothing is recognized rather than half of it wrongly.
    """

    languages: tuple[str, ...]
    data: Path | None

    @property
    def fingerprint(self) -> str:
        """What chunks depend on: with other languages a picture is another text."""
        return f"ocr {'+'.join(self.languages)}" if self.data else "no ocr"

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian's names of what has to be installed."""
        return tuple(f"tesseract-ocr-{name.lower().replace('_', '-')}" for name in self.languages)

    def environment(self) -> dict[str, str]:
        """What tells a parser process to find the same."""
        told = {LANGUAGES_VARIABLE: "+".join(self.languages)}
        return told | ({DATA_VARIABLE: str(self.data)} if self.data else {})


def find(languages: str | None = None) -> Recognition:
    """Look for the data of these languages (`eng+deu`); None: what the environment says."""
    told = languages or os.environ.get(LANGUAGES_VARIABLE) or ENGLISH
    names = tuple(dict.fromkeys(told.split("+")))
    given = os.environ.get(DATA_VARIABLE)
    places = [Path(place) for place in ([given] if given else PLACES)]
    wanted = [f"{name}.traineddata" for name in names]
    data = next((p for p in places if all((p / file).is_file() for file in wanted)), None)
    return Recognition(names, data)
