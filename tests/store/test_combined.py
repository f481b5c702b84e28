"""What commands are given to compare: the user's store over the shipped baselines."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import baseline_file
from regress_gate.store.combined import CombinedStore, ShippedBaselines, open_combined_store
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import HoldingOrigin
from tests.factories.stored_runs import SUITE, make_run, make_samples, make_trial


def export(directory: Path, *runs: Run) -> Path:
    path = directory / baseline_file.baseline_file_name(runs[0].version, runs[0].testbed.name, runs[0].suite)
    path.write_text(baseline_file.dump_baseline(runs))
    return path


@pytest.fixture
def shipped(tmp_path: Path) -> ShippedBaselines:
    """Two versions on one testbed, and one of them on another."""
    directory = tmp_path / "baselines"
    directory.mkdir()
    day = datetime(2026, 7, 1, tzinfo=UTC)
    export(
        directory,
        make_run("run1", make_trial("a", started=day, samples=make_samples())),
        make_run("run2", make_trial("b", "c4", started=day), make_trial("c")),
    )
    export(directory, make_run("run1", make_trial("d"), version="0.20.0+cpu"))
    export(directory, make_run("run1", make_trial("e"), testbed=Testbed("attic")))
    return ShippedBaselines(directory)


@pytest.fixture
def library(shipped: ShippedBaselines, sqlite_url: str) -> Iterator[CombinedStore]:
    """The store has run2 of the shipped ones, measured anew, and a version of its own."""
    with open_store(sqlite_url, create=True) as store:
        store.add_runs([make_run("run2", make_trial("mine")), make_run("run1", make_trial("f"), version="0.21.0+cpu")])
    with open_combined_store(sqlite_url, shipped=shipped) as opened:
        yield opened


def labels(runs: list[Run]) -> list[str]:
    return [f"{run.version} {run.testbed.name} {run.label}" for run in runs]


def test_shipped_runs_are_asked_for_like_stored_ones(shipped: ShippedBaselines) -> None:
    assert labels(shipped.runs(version=Version.parse("0.19.0"), testbed="lab")) == [
        "0.19.0+cpu lab run1",
        "0.19.0+cpu lab run2",
    ]
    assert labels(shipped.runs(testbed="attic", suite=SUITE)) == ["0.19.0+cpu attic run1"]
    assert shipped.runs(suite=SuiteRef("other", "1")) == []
    assert all(run.id is None for run in shipped.runs())


def test_shipped_samples_come_only_when_asked_for(shipped: ShippedBaselines) -> None:
    assert all(trial.samples is None for run in shipped.runs() for trial in run.trials)
    [run] = [run for run in shipped.runs(testbed="lab", with_samples=True) if str(run.version) == "0.19.0+cpu"][:1]
    assert run.trials[0].samples is not None


def test_only_files_that_may_hold_the_answer_are_read(shipped: ShippedBaselines, tmp_path: Path) -> None:
    (tmp_path / "baselines" / "0.1.0__lab__imported@1.json").write_text("broken")
    assert len(shipped.runs(version=Version.parse("0.20.0"))) == 1
    with pytest.raises(InputError, match="not valid JSON"):
        shipped.runs()


def test_a_renamed_file_is_still_found_by_what_it_holds(shipped: ShippedBaselines, tmp_path: Path) -> None:
    path = export(tmp_path / "baselines", make_run("run1", version="0.18.0"))
    path.rename(path.with_name("kept.json"))
    assert labels(shipped.runs(version=Version.parse("0.18.0"))) == ["0.18.0 lab run1"]


def test_shipped_holdings_are_marked_as_shipped(shipped: ShippedBaselines) -> None:
    first = shipped.inventory()[1]
    assert (str(first.version), first.testbed, first.runs, first.trials, first.scenarios) == (
        "0.19.0+cpu",
        "lab",
        2,
        3,
        2,
    )
    assert (first.first, first.origin, first.pinned) == (datetime(2026, 7, 1, tzinfo=UTC), HoldingOrigin.SHIPPED, False)


def test_the_store_stands_before_what_is_shipped(library: CombinedStore) -> None:
    runs = library.runs(testbed="lab")
    assert labels(runs) == [
        "0.19.0+cpu lab run1",
        "0.19.0+cpu lab run2",
        "0.20.0+cpu lab run1",
        "0.21.0+cpu lab run1",
    ]
    assert [run.id is not None for run in runs] == [False, True, False, True]
    assert [trial.source.path for trial in runs[1].trials] == ["mine.json"]


def test_the_inventory_names_the_origin_and_counts_no_run_twice(library: CombinedStore) -> None:
    found = [(str(held.version), held.testbed, held.origin.value, held.runs) for held in library.inventory()]
    assert found == [
        ("0.19.0+cpu", "attic", "shipped", 1),
        ("0.19.0+cpu", "lab", "shipped", 1),
        ("0.19.0+cpu", "lab", "store", 1),
        ("0.20.0+cpu", "lab", "shipped", 1),
        ("0.21.0+cpu", "lab", "store", 1),
    ]


def test_a_shipped_version_can_be_pinned(library: CombinedStore) -> None:
    assert library.store is not None
    library.store.pin(Version.parse("0.20.0"))
    assert [str(pin.version) for pin in library.pinned()] == ["0.20.0"]
    assert [str(held.version) for held in library.inventory() if held.pinned] == ["0.20.0+cpu"]


def test_stored_runs_are_found_by_number(library: CombinedStore) -> None:
    [wanted] = library.runs(version=Version.parse("0.21.0"))
    assert wanted.id is not None
    assert library.run(wanted.id) == wanted
    assert library.run(999) is None


def test_without_a_store_there_are_the_shipped_baselines(shipped: ShippedBaselines, tmp_path: Path) -> None:
    with open_combined_store(f"sqlite:///{tmp_path}/none.db", shipped=shipped) as library:
        assert library.store is None
        assert len(library.runs()) == 4
        assert library.run(1) is None
        assert library.pinned() == []
        assert {held.origin for held in library.inventory()} == {HoldingOrigin.SHIPPED}
    assert not (tmp_path / "none.db").exists()


def test_shipped_baselines_need_no_database_code(tmp_path: Path) -> None:
    code = (
        "import sys; from regress_gate.store.combined import open_combined_store; "
        f"open_combined_store('sqlite:///{tmp_path}/none.db').runs(); "
        "print([name for name in ('sqlalchemy', 'alembic', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_shipped_file_is_canonical_and_named_after_what_it_holds() -> None:
    directory = Path(__file__).parents[2] / "baselines"
    for path in sorted(directory.glob("*.json")):
        runs = baseline_file.load_baseline(path.read_bytes(), path)
        assert baseline_file.dump_baseline(runs) == path.read_text(encoding="utf-8")
        assert baseline_file.baseline_file_name(runs[0].version, runs[0].testbed.name, runs[0].suite) == path.name
