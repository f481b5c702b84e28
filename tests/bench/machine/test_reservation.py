"""One run at a time: on the machine, or on each accelerator."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE, MachineBusyError, machine_lock
from regress_gate.errors import ExitCode

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from regress_gate.bench.machine.reservation import machine_lock
numbers = [int(number) for number in sys.argv[2].split(",")] if sys.argv[2] else None
with machine_lock(numbers, directory=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(directory: Path, accelerators: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory), accelerators],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("theirs", "ours", "free"),
    [
        ("", None, False),
        ("", [0], False),
        ("0", None, False),
        ("0,1", [1, 2], False),
        ("0,1", [2, 3], True),
        ("0", [], False),
    ],
)
def test_runs_overlap_only_on_different_accelerators(
    tmp_path: Path, theirs: str, ours: list[int] | None, free: bool
) -> None:
    with held(tmp_path, theirs) as process:
        if free:
            with machine_lock(ours, directory=tmp_path):
                return
        with pytest.raises(MachineBusyError, match="another run") as refused, machine_lock(ours, directory=tmp_path):
            pass
        assert refused.value.exit_code is ExitCode.COULD_NOT_MEASURE
        assert f"process {process.pid}" in str(refused.value)


def test_a_job_with_its_own_tmpdir_uses_the_same_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv(DIRECTORY_VARIABLE, raising=False)
    with suppress(MachineBusyError), machine_lock([99_999]):  # another run may use the whole machine just now
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_locks_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    with held(tmp_path, ""), pytest.raises(MachineBusyError), machine_lock():
        pass


def test_a_killed_run_releases_its_locks(tmp_path: Path) -> None:
    with held(tmp_path, "0") as process:
        process.kill()
        process.wait()
        with machine_lock(directory=tmp_path):
            pass


def test_a_run_can_wait_for_another(tmp_path: Path) -> None:
    with held(tmp_path, "") as process:
        begin = time.monotonic()
        assert process.stdin is not None
        with pytest.raises(MachineBusyError), machine_lock(directory=tmp_path, wait=0.3):
            pass
        assert time.monotonic() - begin >= 0.3
        process.stdin.close()
        with machine_lock(directory=tmp_path, wait=60.0):
            pass


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "regress-gate-machine.lock").symlink_to(victim)
    with pytest.raises(MachineBusyError, match="cannot be opened"), machine_lock(directory=tmp_path):
        pass
    assert victim.read_text() == "precious"
