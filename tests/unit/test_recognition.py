"""Text in pictures: pages that were scanned, and the data that they need."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.errors import MissingText
from documents import pipeline
from documents.parsers import recognition, rich
from documents.parsers.parsed import Content, Parsed
from documents.parsers.sandbox import SandboxedParser, SandboxLimits
from sluice.diagnosis import examine
from sluice.settings import Settings

SCAN = Path(__file__).parents[1] / "cases" / "scans" / "notice.png"


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def scanned_pdf(*layers: str) -> bytes:
    """A page a text layer; an empty one is a scan, whose pixels are those of the case."""
    parts = list(png_chunks(SCAN.read_bytes()))
    width, height, bits = struct.unpack(">IIB", dict(parts)[b"IHDR"][:9])
    pixels = b"".join(data for kind, data in parts if kind == b"IDAT")
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(layers)))
    # Predictor 15 is the filter of PNG (ISO 32000-1, 7.4.4.4): the pixels go over as they are.
    picture = (
        f"/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray"
        f"/BitsPerComponent {bits}/Filter/FlateDecode"
        f"/DecodeParms<</Predictor 15/Colors 1/BitsPerComponent {bits}/Columns {width}>>"
    )
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(layers)}/Kids[{kids}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        stream(pixels, f"/Type/XObject{picture}"),
    ]
    resources = "/Resources<</Font<</F 3 0 R>>/XObject<</P 4 0 R>>>>"
    for n, layer in enumerate(layers):
        drawn = f"q 468 0 0 {468 * height // width} 72 500 cm /P Do Q"
        shown = f"BT /F 24 Tf 72 700 Td ({layer}) Tj ET" if layer else drawn
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{resources}"
        objects += [f"{page}/Contents {6 + 2 * n} 0 R>>".encode(), stream(shown.encode())]
    return document(objects)


def stream(data: bytes, entries: str = "") -> bytes:
    head = f"<<{entries}/Length {len(data)}>>\nstream\n"
    return head.encode() + data + b"\nendstream"


def document(objects: list[bytes]) -> bytes:
    data, table = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, content in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    size = len(objects) + 1
    trailer = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + b"xref\n0 %d\n" % size + table + trailer


def parsed(folder: Path, name: str, data: bytes) -> Parsed:
    path = folder / "content"
    path.write_bytes(data)
    return rich.parse(Content(path, name, None))


def words(text: str) -> str:
    return " ".join(text.split())


def data_of(folder: Path, *languages: str) -> Path:
    folder.mkdir()
    for name in languages:
        (folder / f"{name}.traineddata").touch()
    return folder


@pytest.mark.needs("tesseract")
@pytest.mark.parametrize(
    ("name", "data", "pages"),
    [
        ("notice.png", SCAN.read_bytes(), ["Notice to all keepers"]),
        ("scan.pdf", scanned_pdf("", ""), ["The lamp at Rathlin", "The lamp at Rathlin"]),
        ("mixed.pdf", scanned_pdf("Typed words", ""), ["Typed words", "and the log signed"]),
    ],
    ids=["a picture", "every page", "one page of two"],
)
def test_scanned_pages_are_read(tmp_path: Path, name: str, data: bytes, pages: list[str]) -> None:
    """Page by page, each with its number, and none of them as a warning."""
    found = parsed(tmp_path, name, data)
    assert len(found.pages) == len(pages)
    for page, wanted in zip(found.pages, pages, strict=True):
        assert wanted in words(page)
    assert found.warnings == ()


@pytest.mark.needs("tesseract")
async def test_the_sandbox_reads_scanned_pages(tmp_path: Path) -> None:
    """Within its limits of memory and time, with nothing left in anybody's home."""
    (tmp_path / "scan.pdf").write_bytes(scanned_pdf("", "", ""))
    found = recognition.find(recognition.ENGLISH)
    parser = SandboxedParser(SandboxLimits(children=1), tmp_path, found)
    try:
        chunked = await parser.chunk(tmp_path / "scan.pdf", "scan.pdf", None)
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
    finally:
        await parser.close()
    assert chunked.pages == 3
    assert "Foghorn every ninety seconds." in words(chunked.chunks[-1].body)
    assert left == [tmp_path / "scan.pdf"]


async def test_the_sandbox_is_told_the_languages(tmp_path: Path) -> None:
    """What the settings name holds in the child: without its data, pages are missing text."""
    (tmp_path / "scan.pdf").write_bytes(scanned_pdf(""))
    parser = SandboxedParser(SandboxLimits(children=1), tmp_path, recognition.find("tlh"))
    try:
        with pytest.raises(MissingText, match="sluice doctor"):
            await parser.chunk(tmp_path / "scan.pdf", "scan.pdf", None)
    finally:
        await parser.close()


def test_every_language_needs_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page half in a language that nobody can read isn't read half."""
    monkeypatch.setenv(recognition.DATA_VARIABLE, str(data_of(tmp_path / "data", "eng", "deu")))
    assert recognition.find("eng+deu").data == tmp_path / "data"
    assert recognition.find("eng+fra").data is None


def test_chunks_depend_on_the_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other languages, or with none, a picture is another text."""
    monkeypatch.setenv(recognition.DATA_VARIABLE, str(data_of(tmp_path / "data", "eng", "deu")))
    told = [recognition.find(names) for names in ("eng", "deu", "eng+deu", "fra")]
    assert len({pipeline.fingerprint(each) for each in told}) == len(told)


@pytest.mark.parametrize(
    ("languages", "package"), [("deu", "tesseract-ocr-deu"), ("chi_sim", "tesseract-ocr-chi-sim")]
)
def test_the_doctor_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, languages: str, package: str
) -> None:
    """The package of each language, and that nothing else depends on it."""
    monkeypatch.setenv(recognition.DATA_VARIABLE, str(data_of(tmp_path / "data")))
    findings = examine(Settings(state=tmp_path / "state", recognition_languages=languages))
    [found] = [each for each in findings if each.component == "text recognition"]
    assert not found.ok
    assert not found.required
    assert package in found.remedy
