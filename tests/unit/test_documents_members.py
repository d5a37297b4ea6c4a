"""Archives and mails: each member once, under its name, in the same order every time."""

import io
import subprocess
import sys
import zipfile
from email.message import EmailMessage
from pathlib import Path

from documents import pipeline
from documents.parsers.parsed import Content


def archive(members: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as opened:
        for name, text in members.items():
            opened.writestr(name, text)
    return data.getvalue()


def mail(attachments: dict[str, bytes]) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Papers"
    message["From"] = "a@example.org"
    message["To"] = "b@example.org"
    message.set_content("The body.\n")
    for name, data in attachments.items():
        message.add_attachment(data, maintype="application", subtype="zip", filename=name)
    return message.as_bytes()


def bodies(folder: Path, name: str, data: bytes) -> list[str]:
    path = folder / name
    path.write_bytes(data)
    return [chunk.body for chunk in pipeline.chunk(Content(path, name)).chunks]


def test_a_member_is_there_once_under_its_own_heading(tmp_path: Path) -> None:
    """The list that the parser makes is left out, and no member is below another's heading."""
    data = archive({"b/two.txt": "beta", "a/one.md": "# One\n\nalpha"})
    path = tmp_path / "m.zip"
    path.write_bytes(data)
    found = pipeline.chunk(Content(path, "m.zip")).chunks
    assert [chunk.body for chunk in found] == [
        "# a/one.md\n\n# One\n\nalpha",
        "# b/two.txt\n\nbeta",
    ]
    assert found[1].embedded_text == "# b/two.txt\n\nbeta"


def test_what_is_attached_is_there_once(tmp_path: Path) -> None:
    """An archive in a mail: the mail's text, then the members with the way to them."""
    found = bodies(tmp_path, "m.eml", mail({"in.zip": archive({"x.md": "inner words"})}))
    assert sum(body.count("inner words") for body in found) == 1
    assert found[-1] == "# in.zip/x.md\n\ninner words"
    assert "The body." in found[0]


def test_every_process_makes_the_same_of_it(tmp_path: Path) -> None:
    """The parser's own order of members differs from call to call; ours doesn't."""
    path = tmp_path / "many.zip"
    path.write_bytes(archive({f"n{n}.md": f"text {n}" for n in range(8)}))
    program = (
        "import sys, pathlib; from documents import pipeline; "
        "from documents.parsers.parsed import Content; "
        "found = pipeline.chunk(Content(pathlib.Path(sys.argv[1]), 'many.zip')); "
        "print([chunk.body for chunk in found.chunks])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program, str(path)], check=True, capture_output=True
        ).stdout
        for _ in range(3)
    }
    assert len(seen) == 1
    assert bodies(tmp_path, "many.zip", path.read_bytes())[0].startswith("# n0.md")
