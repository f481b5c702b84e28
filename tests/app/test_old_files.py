"""What measurements leave on a machine beside the store goes by its age, and nothing else does."""

import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regress_gate.app.old_files import find_old_files, old_files_text
from regress_gate.paths import fleet_directory, logs_directory

DAY = 86400


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directories of its own for states and for temporary files; the latter is returned."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def make(path: Path, *, days: float, name: str = "file", size: int = 1000) -> Path:
    path.mkdir(parents=True)
    (path / name).write_bytes(b"x" * size)
    when = time.time() - days * DAY
    for each in (path / name, path):
        os.utime(each, (when, when))
    return path


def before(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def test_logs_go_by_their_age_but_not_those_of_an_experiment_that_is_kept() -> None:
    old, kept, young = (
        make(logs_directory() / name, days=days) for name, days in (("e1", 100), ("e2", 100), ("e3", 1))
    )
    found = find_old_files(before(30), {"e2"})
    assert (found.logs, found.leftovers) == ({old: 1000}, {})
    assert old_files_text(found.counts(), "this machine") == "logs of 1 experiment on this machine, 0.0 MiB"
    assert found.delete({"e2"}).counts() == {"logs": 1, "leftovers": 0, "bytes": 1000}
    assert [path.exists() for path in (old, kept, young)] == [False, True, True]


def test_an_experiment_that_is_kept_by_now_keeps_its_logs() -> None:
    path = make(logs_directory() / "e1", days=100)
    assert not find_old_files(before(30), ()).delete({"e1"})
    assert path.exists()


def test_what_killed_tasks_have_left_goes_and_what_only_looks_like_it_stays(machine: Path) -> None:
    left = [
        make(machine / "regress-gate-block-ab12_xyz", days=9, name="task.json"),
        make(machine / "regress-gate-ab12_xyz", days=9, name="block.db"),
        make(fleet_directory() / "e1-2-1-node7-4711-99", days=9, name="task.json"),
    ]
    others = [
        make(machine / "regress-gate-checkout", days=9, name="pyproject.toml"),
        make(machine / "regress-gate-checkouts", days=9, name="task.json"),
        make(machine / "somebody-else", days=9, name="task.json"),
        make(machine / "regress-gate-block-inuse_00", days=0.5, name="task.json"),
    ]
    (machine / "regress-gate-block-linked_0").symlink_to(others[0])
    (machine / "regress-gate-machine.lock").touch()
    found = find_old_files(before(1 / DAY), ())
    assert set(found.leftovers) == set(left)
    assert old_files_text(found.counts(), "h1") == (
        "logs of 0 experiments and directories of 3 killed tasks on h1, 0.0 MiB"
    )
    found.delete(())
    assert [path.exists() for path in (*left, *others)] == [False] * 3 + [True] * 4
    assert len(list(machine.iterdir())) == 6


def test_what_another_host_has_deleted_meanwhile_is_no_error() -> None:
    path = make(logs_directory() / "e1", days=100)
    found, again = find_old_files(before(30), ()), find_old_files(before(30), ())
    found.delete(())
    again.delete(())
    assert not path.exists()


def test_a_machine_that_measured_nothing_has_nothing() -> None:
    assert not find_old_files(before(0), ())
