"""Installed kinds, and what each accepts as a configuration."""

from pathlib import Path

import pytest

import sources
from contracts.errors import ConfigurationError, UnknownKind
from contracts.ports import SourceKind
from contracts.sources import SourceConfig
from sources.folder import FolderKind
from sources.s3 import S3Kind
from sources.selection import selects

SERVER = "http://127.0.0.1:9000"


def config(kind: str, container: str = "bucket", **options: str) -> SourceConfig:
    return SourceConfig(source_id="a", kind=kind, container=container, options=options)


def test_kinds_are_found_through_entry_points() -> None:
    """The shipped kinds are installed under their names."""
    assert isinstance(sources.kind("folder"), FolderKind)
    assert isinstance(sources.kind("s3"), S3Kind)
    assert "memory" not in sources.kinds()


def test_unknown_kind_names_the_installed_ones() -> None:
    """Who asks for a kind that isn't there is told which are."""
    with pytest.raises(UnknownKind, match=r"'ftp': use one of .*folder.*s3"):
        sources.kind("ftp")


@pytest.mark.parametrize("kind", [FolderKind(), S3Kind()])
def test_place_is_needed(kind: SourceKind) -> None:
    """A source without its place is refused."""
    with pytest.raises(ConfigurationError, match="needs --"):
        kind.validate(config("any", container=""))


@pytest.mark.parametrize("kind", [FolderKind(), S3Kind()])
def test_unknown_option_names_the_known_ones(kind: SourceKind, tmp_path: Path) -> None:
    """A misspelt option is refused with those that the kind knows."""
    with pytest.raises(ConfigurationError, match="no option 'regoin': it knows"):
        kind.validate(config("any", str(tmp_path), regoin="eu-west-1"))


@pytest.mark.parametrize("name", ["endpoint_url", "queue_url"])
@pytest.mark.parametrize("address", ["ftp://server", "127.0.0.1:9000", "http://", ""])
def test_addresses_are_http(name: str, address: str) -> None:
    """An address that isn't http or https is refused before anything connects."""
    with pytest.raises(ConfigurationError, match=f"{name} is .* http or https"):
        S3Kind().validate(config("s3", **{name: address}))


def test_addressing_style_is_one_of_three() -> None:
    """An addressing style that nobody knows is refused."""
    with pytest.raises(ConfigurationError, match="auto, path or virtual"):
        S3Kind().validate(config("s3", addressing_style="sideways"))


def test_right_s3_configuration_is_kept() -> None:
    """What is right passes unchanged, the bridge's queue included."""
    right = config("s3", endpoint_url=SERVER, queue_url=f"{SERVER}/0/q", region="eu-west-1")
    assert S3Kind().validate(right) == right


def test_root_is_made_canonical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Home and links are resolved, so that one folder has one name."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("HOME", str(tmp_path))
    valid = FolderKind().validate(config("folder", "~/link"))
    assert valid.container == str((tmp_path / "real").resolve())


@pytest.mark.parametrize("name", ["missing", "file.txt"])
def test_root_must_be_a_folder(tmp_path: Path, name: str) -> None:
    """A root that isn't there, or is a file, is refused with its path."""
    (tmp_path / "file.txt").touch()
    with pytest.raises(ConfigurationError, match=f"{name} is no folder: correct --root"):
        FolderKind().validate(config("folder", str(tmp_path / name)))


@pytest.mark.parametrize(
    ("include", "exclude", "chosen"),
    [
        ((), (), {"a.md", "b/c.md", "b/d.txt"}),
        (("*.md",), (), {"a.md", "b/c.md"}),
        (("*.txt", "a*"), (), {"a.md", "b/d.txt"}),
        ((), ("b/*",), {"a.md"}),
        (("*.md",), ("b/*",), {"a.md"}),
        (("*.MD",), (), set()),
    ],
)
def test_patterns(include: tuple[str, ...], exclude: tuple[str, ...], chosen: set[str]) -> None:
    """No include means all, exclude wins, and case counts."""
    wanted = config("folder").model_copy(update={"include": include, "exclude": exclude})
    assert {key for key in ("a.md", "b/c.md", "b/d.txt") if selects(wanted, key)} == chosen
