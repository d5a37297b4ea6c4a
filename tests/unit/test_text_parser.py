"""The text parser: which bytes are which text, and which are none."""

import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import CorruptDocument, EmptyDocument, ParseError
from documents.parsers.parsed import Content, Parsed
from documents.parsers.text import decode, parse

GERMAN = "Größe und Höhe der Fähre, naïve façade. "
CHINESE = "中文的文本文件应当被正确地解码。这是一个很长的句子。"
FRENCH = "Le bateau arrive à l'île après le déjeuner ; où êtes-vous passé ? "
SPANISH = "El niño pequeño comió en la mañana; ¿cuándo llegará el autobús? "
PORTUGUESE = "A população não está satisfeita com as condições de navegação. "
SWEDISH = "Färjan går från ön på kvällen, och det är svårt att få plats. "
ICELANDIC = "Ferjan fer frá eyjunni á kvöldin og það er erfitt að fá pláss. "
POLISH = "Zażółć gęślą jaźń; prom odpływa wieczorem i trudno dostać miejsce. "
HUNGARIAN = "Az őszi hajó később érkezik, mert erős szél fúj; sűrű köd is várható. "
ROMANIAN = "Vaporul pleacă seara şi este greu să găseşti loc când mulţi călătoresc. "
TURKISH = (
    "Gemi akşam kalk\u0131yor ve çok kişi yolculuk ettiğinde yer bulmak güç; İstanbul'da şimdi. "
)
RUSSIAN = "Русский текст должен быть прочитан правильно, и это важно. "
PLAIN = "Plain words of a report. "


def parsed(folder: Path, data: bytes, name: str = "t.txt") -> Parsed:
    path = folder / "content"
    path.write_bytes(data)
    return parse(Content(path, name))


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("text", [GERMAN, CHINESE, "x"])
def test_a_mark_says_the_encoding(mark: bytes, encoding: str, text: str) -> None:
    """The mark decides, however short the text, and isn't part of it."""
    assert decode(mark + text.encode(encoding), "t.txt") == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [PLAIN, "id;name\r\n1;Fähre\r\n"])
def test_utf16_without_a_mark_is_seen_by_its_zeros(encoding: str, text: str) -> None:
    """What Windows programs export is no binary."""
    assert decode(text.encode(encoding), "t.txt") == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("latin-1", GERMAN),
        ("latin-1", GERMAN * 50),
        ("cp1252", "Die „Größe“ der Fähre \u2013 5 € \u2013 überrascht. " * 3),
        ("latin-1", PORTUGUESE),
        ("cp1250", POLISH * 20),
        ("cp1250", HUNGARIAN * 20),
        ("cp1250", ROMANIAN * 20),
        ("cp1254", TURKISH * 20),
        ("koi8-r", RUSSIAN * 20),
        ("gb18030", CHINESE * 4),
        ("big5", "這是一個用來測試編碼的句子應當被正確地讀出來。" * 4),
        ("euc_kr", "이 문서는 올바르게 읽혀야 합니다. 한국어 문장입니다." * 4),
    ],
)
def test_legacy_encodings_come_out_as_they_went_in(encoding: str, text: str) -> None:
    """Single letters in Latin words are Western; longer runs are told by statistics."""
    assert decode(text.encode(encoding), "t.txt") == text


@pytest.mark.parametrize("times", [1, 5, 100])
@pytest.mark.parametrize(
    "text", [GERMAN, FRENCH, SPANISH, PORTUGUESE, SWEDISH, ICELANDIC], ids=lambda text: text[:9]
)
def test_western_text_stays_western_however_long(text: str, times: int) -> None:
    """Statistics see little between the Latin encodings: what is as likely Western is Western."""
    assert decode((text * times).encode("cp1252"), "t.txt") == text * times


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n ", codecs.BOM_UTF8, "\u3000\n".encode()])
def test_nothing_but_blanks_is_empty(tmp_path: Path, data: bytes) -> None:
    """A mark alone is nothing too."""
    with pytest.raises(EmptyDocument):
        parsed(tmp_path, data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20,
        b"MZ\x90\x00\x03" + bytes(500),
        bytes(1_000),
        codecs.BOM_UTF16_LE + b"a\x00b",
        codecs.BOM_UTF8 + b"\xff\xfe\xfd words",
        b"\x01\x02\x03\x04words",
    ],
    ids=["png", "exe", "zeros", "half a character", "wrong mark", "controls"],
)
def test_a_binary_is_corrupt_whatever_its_name_says(tmp_path: Path, data: bytes) -> None:
    """The name of a text doesn't make one."""
    with pytest.raises(CorruptDocument):
        parsed(tmp_path, data)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_become_text_or_an_error_of_the_tree(data: bytes) -> None:
    """Nothing else comes out, and no text has a NUL in it."""
    try:
        text = decode(data, "t.txt")
    except ParseError:
        return
    assert "\0" not in text


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff")))
def test_utf8_is_never_guessed(text: str) -> None:
    """What is valid as UTF-8 is taken as it is."""
    assert decode(text.encode(), "t.txt") == text


def test_markdown_has_the_title_of_its_first_heading(tmp_path: Path) -> None:
    """Other text has none: a hash there is a comment."""
    data = b"intro\n\n## Two\n\n# The title\n"
    assert parsed(tmp_path, data, "a.md").title == "The title"
    assert parsed(tmp_path, data, "a.py").title is None


@pytest.mark.parametrize(
    ("name", "marked"),
    [("a.md", True), ("a.txt", True), ("README", True), ("a.py", False), ("a.log", False)],
)
def test_prose_may_have_marks_and_code_has_none(tmp_path: Path, name: str, marked: bool) -> None:
    """The chunker is told where headings and tables are meant."""
    assert parsed(tmp_path, b"# text\n", name).marked is marked
