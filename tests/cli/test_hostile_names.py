"""Wherever a path is printed, a name with escape sequences does nothing to the terminal."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Gate

EVIL = "d\x1b]0;owned\x07\x1b[2J\r"


@pytest.fixture
def folder(gate: Gate) -> Path:
    folder = gate.directory / EVIL
    folder.mkdir()
    gate.import_starts("0.19.1")
    shutil.copy(gate.store, folder / "store.db")
    (folder / "bad.yaml").write_text("a: [")
    (folder / "bad.csv").write_text("metric,value\nttft_mean,1,2\n")
    (folder / "bad.toml").write_text("[gate]\nnonsense = 1\n")
    (folder / "empty.toml").write_text("")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("report", "v0.19.1", "--format", "long", "--to", "{folder}"),
        ("report", "v0.19.1", "--to", "{folder}/bad.csv"),
        ("baseline", "export", "v0.19.1", "--to", "{folder}"),
        ("baseline", "import", "{folder}"),
        ("db", "info", "--store", "sqlite:///{folder}/store.db"),
        ("db", "info", "--store", "sqlite:///{folder}/none.db"),
        ("db", "backup", "{folder}/copy.db"),
        ("db", "migrate", "--store", "sqlite:///{folder}/bad.csv"),
        ("config", "show", "--config", "{folder}/empty.toml"),
        ("config", "show", "--config", "{folder}/bad.toml"),
        ("import", "{folder}", "--version", "v0.19.1", "--testbed", "lab"),
        ("import", "{folder}/bad.yaml", "{folder}/bad.csv", "--version", "v0.19.1", "--testbed", "lab", "--dry-run"),
        ("import", "{folder}", "--version", "v0.19.1", "--testbed", "lab", "--format", "json"),
        ("suite", "lint", "{folder}/bad.yaml"),
        ("suite", "import", "{folder}/bad.yaml"),
        ("issues", "lint", "{folder}"),
        ("waive", "list", "--config", "{folder}/bad.toml"),
        ("detect", "{folder}/bad.csv"),
        ("compare", "v0.19.0", "v0.19.1", "--output", "json:{folder}/none/x.json"),
        ("check", "v0.19.1", "--config", "{folder}/none.toml"),
        ("check", "v0.19.1", "--server-log", "{folder}/bad.csv"),
    ],
    ids=" ".join,
)
def test_nothing_that_a_terminal_obeys_is_printed(gate: Gate, folder: Path, command: tuple[str, ...]) -> None:
    done = gate(*(word.format(folder=folder) for word in command))
    for text in (done.out, done.err):
        assert not set(text) & set("\x1b\x07\r\x9b")
    assert "internal error" not in done.err
