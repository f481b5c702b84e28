"""The program as a test calls it: in this process, or as a process where exit, pipes and signals are the matter."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regress_gate.cli.main import run
from tests.factories.git_checkout import Checkout
from tests.factories.server_starts import write_starts

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr, without the program's name."""
        (line,) = self.err.splitlines()
        assert line.startswith("regress-gate: error: ")
        return line.removeprefix("regress-gate: error: ")


class Gate:
    """`regress-gate` in a directory and a home of its own. `store` is where REGRESS_GATE_STORE points."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.store = directory / "store.db"
        self.minute = 0

    def __call__(self, *arguments: object, stdin: str = "") -> Outcome:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2)]
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        try:
            with redirect_stdout(streams[0]), redirect_stderr(streams[1]), pytest.raises(SystemExit) as ended:
                run([str(argument) for argument in arguments])
        finally:
            sys.stdin = before
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue().decode() for stream in streams)
        assert "Traceback" not in err or "-vv" in arguments
        return Outcome(int(ended.value.code or 0), out, err)

    def process(self, *arguments: object, program: Sequence[str] = ("-m", "regress_gate"), **options: Any) -> Outcome:
        done = subprocess.run(
            [sys.executable, *program, *map(str, arguments)],
            **{"capture_output": True, "text": True, "encoding": "utf-8", "timeout": 60, **options},
        )
        return Outcome(done.returncode, done.stdout or "", done.stderr or "")

    def shell(self, script: str) -> Outcome:
        """A bash script in which `regress-gate` is the program."""
        program = f'regress-gate() {{ "{sys.executable}" -m regress_gate "$@"; }}\n'
        done = subprocess.run(["bash", "-c", program + script], capture_output=True, text=True, timeout=60)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def import_starts(self, version: str, *options: object, testbed: str = "lab", **how: Any) -> Outcome:
        """Import a folder of server starts of a version, made after those of all former imports."""
        self.minute += 20
        folder = write_starts(self.directory / f"results-{version}-{testbed}", minute=self.minute, **how)
        flags = ["--version", version, "--testbed", testbed, "--run-per-file", "--scenario", "chat"]
        return self("import", folder, *flags, *options)

    def bytes_of_store(self) -> bytes | None:
        return self.store.read_bytes() if self.store.exists() else None


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / ".git").mkdir()  # where the search for a configuration ends
    for name in list(os.environ):
        if name.startswith(("REGRESS_GATE_", "XDG_", "HF_")) or name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    gate = Gate(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("REGRESS_GATE_STORE", str(gate.store))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(work)
    return gate


@pytest.fixture
def repo(gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:  # noqa: ARG001 - its home and store
    """A new git repository, which is the current directory, outside CI and pre-commit."""
    for name in list(os.environ):
        if name.startswith(("GITHUB_", "PRE_COMMIT", "CI_")) or name in ("CI", "TF_BUILD", "JENKINS_URL"):
            monkeypatch.delenv(name)
    checkout = Checkout.new(tmp_path / "repo")
    monkeypatch.chdir(checkout.root)
    return checkout
