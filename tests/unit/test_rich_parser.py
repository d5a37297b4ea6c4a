"""The parser of office files, PDF, HTML and mail: what it gives, and how bad input fails."""

import io
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from contracts.errors import (
    CorruptDocument,
    DangerousDocument,
    EmptyDocument,
    EncryptedDocument,
    MissingText,
    OversizedDocument,
    ParseError,
    UnsupportedDocument,
)
from documents.parsers import rich
from documents.parsers.parsed import Content, Parsed

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OPEN_XML = "application/vnd.openxmlformats-officedocument"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def parsed(folder: Path, name: str, data: bytes) -> Parsed:
    path = folder / "content"
    path.write_bytes(data)
    return rich.parse(Content(path, name))


def package(
    types: dict[str, str], links: dict[str, dict[str, str]], parts: dict[str, str]
) -> bytes:
    """An Open XML file. `types` are by part; `links` by part of links, type by target."""
    overrides = "".join(
        f'<Override PartName="/{part}" ContentType="{OPEN_XML}.{kind}+xml"/>'
        for part, kind in types.items()
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>',
        )
        for part, targets in links.items():
            archive.writestr(
                part,
                f'<Relationships xmlns="{PACKAGE}/relationships">'
                + "".join(
                    f'<Relationship Id="r{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
                    for n, (target, kind) in enumerate(targets.items(), 1)
                )
                + "</Relationships>",
            )
        for part, xml in parts.items():
            archive.writestr(part, f'<?xml version="1.0"?>{xml}')
    return data.getvalue()


def docx(body: str) -> bytes:
    return package(
        {"word/document.xml": "wordprocessingml.document.main"},
        {"_rels/.rels": {"word/document.xml": "officeDocument"}},
        {"word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'},
    )


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(slide: str, notes: str) -> bytes:
    """One slide with its notes."""

    def part(root: str, kind: str, text: str) -> str:
        return (
            f'<p:{root} xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}"><p:cSld>'
            '<p:spTree><p:nvGrpSpPr/><p:grpSpPr/><p:sp><p:nvSpPr><p:cNvPr id="2" name="t"/>'
            f'<p:cNvSpPr/><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:spPr/><p:txBody>'
            f"<a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp></p:spTree>"
            f"</p:cSld></p:{root}>"
        )

    return package(
        {
            "ppt/presentation.xml": "presentationml.presentation.main",
            "ppt/slides/slide1.xml": "presentationml.slide",
            "ppt/notesSlides/notesSlide1.xml": "presentationml.notesSlide",
        },
        {
            "_rels/.rels": {"ppt/presentation.xml": "officeDocument"},
            "ppt/_rels/presentation.xml.rels": {"slides/slide1.xml": "slide"},
            "ppt/slides/_rels/slide1.xml.rels": {"../notesSlides/notesSlide1.xml": "notesSlide"},
        },
        {
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{OFFICE}">'
            '<p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/slides/slide1.xml": part("sld", "title", slide),
            "ppt/notesSlides/notesSlide1.xml": part("notes", "body", notes),
        },
    )


def pdf(*pages: str, encrypted: bool = False) -> bytes:
    """A page a text; an empty text leaves the page without any."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    looks = "/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>"
    for n, text in enumerate(pages):
        shown = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<</Type/Page/Parent 2 0 R{looks}/Contents {5 + 2 * n} 0 R>>",
            f"<</Length {len(shown)}>>\nstream\n{shown}\nendstream",
        ]
    trailer = f"/Size {len(objects) + 1}/Root 1 0 R"
    if encrypted:
        # Keys that no password fits.
        keys = f"/O<{'11' * 32}>/U<{'22' * 32}>"
        objects.append(f"<</Filter/Standard/V 1/R 2/Length 40/P -4{keys}>>")
        trailer = f"/Size {len(objects) + 1}/Root 1 0 R/Encrypt {len(objects)} 0 R/ID[<00><00>]"
    data, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return (data + f"trailer\n<<{trailer}>>\nstartxref\n{start}\n%%EOF\n").encode()


@pytest.fixture
def unrecognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tesseract's data is nowhere."""
    empty = tmp_path / "no-data"
    empty.mkdir()
    monkeypatch.setenv("TESSDATA_PREFIX", str(empty))


def test_pages_of_a_pdf_are_pages(tmp_path: Path) -> None:
    """In their order, with numbers."""
    found = parsed(tmp_path, "a.pdf", pdf("First words", "Second words"))
    assert [page.strip() for page in found.pages] == ["First words", "Second words"]
    assert found.numbered
    assert found.media_type == "application/pdf"


@pytest.mark.usefixtures("unrecognized")
def test_pages_without_text_are_missing_text(tmp_path: Path) -> None:
    """A picture of text doesn't come out empty where nothing can recognize it."""
    with pytest.raises(MissingText, match="sluice doctor"):
        parsed(tmp_path, "a.pdf", pdf("", ""))


@pytest.mark.usefixtures("unrecognized")
def test_a_page_without_text_is_a_warning(tmp_path: Path) -> None:
    """The others are read; the number of the lost one is said."""
    found = parsed(tmp_path, "a.pdf", pdf("Words", ""))
    assert found.warnings == ("page 2 has no text",)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("cut.docx", docx(paragraph("words"))[:400], CorruptDocument),
        ("no.docx", b"not an office file", CorruptDocument),
        ("no.pdf", b"not a PDF", CorruptDocument),
        ("no.xlsx", b"PK\x03\x04" + bytes(60), CorruptDocument),
        ("empty.docx", b"", EmptyDocument),
        ("blank.docx", docx(paragraph("")), EmptyDocument),
        ("none.zip", b"PK\x05\x06" + bytes(18), EmptyDocument),
        ("sealed.pdf", pdf("words", encrypted=True), EncryptedDocument),
        ("bomb.docx", docx(paragraph("A" * 150_000_000)), OversizedDocument),
        ("deep.docx", docx("<w:p>" * 5_000 + "</w:p>" * 5_000), DangerousDocument),
        ("what.xyz", bytes(range(256)), UnsupportedDocument),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_fails_with_its_class(
    tmp_path: Path, name: str, data: bytes, error: type[ParseError]
) -> None:
    """Each way to be bad has a class, and the sentence names the document."""
    with pytest.raises(error, match=name) as raised:
        parsed(tmp_path, name, data)
    assert raised.type is error


def test_html_keeps_its_title_and_loses_what_is_not_shown(tmp_path: Path) -> None:
    """Metadata and scripts are no text."""
    page = (
        "<html><head><title>The title</title><meta name='description' content='secret words'>"
        "<meta name='author' content='me'></head><body><h1>Head</h1><p>Body words.</p>"
        "<script>alert(1)</script></body></html>"
    )
    found = parsed(tmp_path, "a.html", page.encode())
    assert found.title == "The title"
    assert found.pages == ("# Head\n\nBody words.\n",)


@pytest.mark.parametrize(
    ("front", "kept"),
    [
        ("---\n\ntitle: A\n\nauthor: B\n\n---\n\n", ""),
        ("---\n\n# title: A\n\n", ""),
        ("---\n\nNo metadata here.\n\n", "---\n\nNo metadata here.\n\n"),
    ],
)
def test_front_matter_goes_and_a_rule_stays(front: str, kept: str) -> None:
    """A page that starts with a rule keeps its text."""
    assert rich._FRONT_MATTER.sub("", f"{front}Body.") == f"{kept}Body."


def test_a_mail_has_its_attachment(tmp_path: Path) -> None:
    """Text of the mail first, then the attachment's under its name, once."""
    mail = EmailMessage()
    mail["Subject"] = "Papers"
    mail.set_content("The body.\n")
    mail.add_attachment(
        docx(paragraph("attached words")),
        maintype="application",
        subtype=f"{OPEN_XML.removeprefix('application/')}.wordprocessingml.document",
        filename="in.docx",
    )
    [page] = parsed(tmp_path, "a.eml", mail.as_bytes()).pages
    assert "The body." in page
    assert page.endswith("# in.docx\n\nattached words")
    assert page.count("attached words") == 1


def test_notes_of_a_slide_are_text_of_its_page(tmp_path: Path) -> None:
    """What the speaker says is not on the slide, and is searched all the same."""
    [page] = parsed(tmp_path, "a.pptx", pptx("Shown words", "Spoken words")).pages
    assert "Shown words" in page
    assert "Notes: Spoken words" in page


@pytest.mark.parametrize(
    ("declaration", "entity"),
    [
        ('<!ENTITY a SYSTEM "file:///etc/hostname">', "&a;"),
        (
            '<!ENTITY a "lol"><!ENTITY b "' + "&a;" * 99 + '"><!ENTITY c "' + "&b;" * 99 + '">',
            "&c;" * 99,
        ),
    ],
    ids=["file", "billion"],
)
def test_entities_are_not_followed(tmp_path: Path, declaration: str, entity: str) -> None:
    """Neither into files nor into one another."""
    xml = f'<?xml version="1.0"?><!DOCTYPE l [{declaration}]><l>words {entity}</l>'
    [page] = parsed(tmp_path, "a.xml", xml.encode()).pages
    assert page.strip() == "# l\n\nwords"


def test_nesting_without_end_is_text_or_an_error_of_the_tree(tmp_path: Path) -> None:
    """A hundred thousand levels don't overflow a stack."""
    deep = b"<a>" * 100_000 + b"core" + b"</a>" * 100_000
    try:
        [page] = parsed(tmp_path, "a.xml", deep).pages
    except DangerousDocument:
        return
    assert page.strip() == "core"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("PDF is encrypted and requires a password", EncryptedDocument),
        ("Security violation: zip bomb", DangerousDocument),
        ("Security limit exceeded: size 3 exceeds limit", OversizedDocument),
        ("Security limit exceeded: Nesting too deep", DangerousDocument),
        ("Unsupported format", UnsupportedDocument),
        ("anything else", CorruptDocument),
    ],
)
def test_messages_of_the_parser_are_classified(message: str, error: type[ParseError]) -> None:
    """Its exceptions differ in their text only."""
    found = rich._classified("a.pdf", RuntimeError(message))
    assert type(found) is error
    assert str(found) == f"a.pdf: {message}"
