"""What goes by its age, and all that stays: never half an experiment, and nothing that a pin or a verdict needs."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, text

from regress_gate.model.run import BlockPosition, Run
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository
from regress_gate.store.store_interface import KeptBecause, StoredComparison, StoredExperiment
from tests.factories.stored_runs import SUITE, make_run, make_source, make_trial

YEAR_END = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    return YEAR_END + timedelta(days=number)


def measured(experiment: str, begun: float, *versions: str, days: float = 0) -> list[Run]:
    """Two blocks of an experiment, the second some days after the first."""
    return [
        make_run(
            f"{experiment}/{block}-{side}",
            make_trial(f"{experiment} {block} {side}", started=day(begun + days * block)),
            version=version,
            started=day(begun + days * block),
            place=BlockPosition(experiment, block + 1, side + 1, ("baseline", "candidate")[side]),
        )
        for block in (0, 1)
        for side, version in enumerate(versions)
    ]


def add(store: Repository, experiment: str, begun: float, *versions: str, days: float = 0, ended: bool = True) -> None:
    store.begin_experiment(StoredExperiment(experiment, day(begun), {}))
    store.add_runs(measured(experiment, begun, *versions, days=days), log_as=None)
    if ended:
        store.end_experiment(experiment, day(begun + days))


def compared(store: Repository, when: float, baseline: str, candidate: str) -> None:
    sides = Version.parse(baseline), Version.parse(candidate)
    store.add_comparison(StoredComparison(day(when), "lab", SUITE, *sides, "pass"), {"when": when})


def left(store: Repository) -> set[str]:
    return {run.label.partition("/")[0] for run in store.runs()}


def test_what_is_old_goes_with_its_comparisons_and_the_log_says_so(store: Repository) -> None:
    add(store, "old", -100, "0.19.0", "0.20.0")
    add(store, "young", 10, "0.21.0", "0.22.0")
    compared(store, -99, "0.19.0", "0.20.0")
    compared(store, 11, "0.21.0", "0.22.0")
    planned = store.prune_expired(YEAR_END, dry_run=True)
    assert left(store) == {"old", "young"}
    gone = store.prune_expired(YEAR_END)
    assert gone == planned
    assert (len(gone.run_ids), gone.experiments, len(gone.comparisons)) == (4, ("old",), 1)
    assert gone.kept == {KeptBecause.YOUNG: 4}
    assert left(store) == {"young"}
    assert [str(one.baseline) for one in store.comparisons()] == ["0.21.0"]
    assert [one.id for one in store.experiments()] == ["young"]
    assert [(str(one.version), one.runs) for one in store.inventory()] == [("0.21.0", 2), ("0.22.0", 2)]
    [entry] = store.log(limit=1)
    assert (entry.kind, entry.details["runs"], entry.details["comparisons"]) == ("prune", 4, 1)
    assert entry.details["before"] == "2026-01-01T00:00:00Z"
    assert [place["version"] for place in entry.details["places"]] == ["0.19.0", "0.20.0"]


def test_half_an_experiment_never_goes(store: Repository) -> None:
    add(store, "long", -5, "0.19.0", "0.20.0", days=10)
    gone = store.prune_expired(YEAR_END)
    assert (gone.run_ids, gone.kept) == ((), {KeptBecause.YOUNG: 4})
    assert len(store.prune_expired(day(6)).run_ids) == 4
    assert store.runs() == []


def test_what_was_measured_beside_a_pinned_version_stays_until_the_pin_moves(store: Repository) -> None:
    add(store, "adopted", -100, "0.19.0", "0.20.0")
    add(store, "nightly", -50, "0.20.0", "0.21.0")
    add(store, "other", -50, "0.21.0", "0.22.0")
    store.pin(Version.parse("0.20.0"))
    assert store.prune_expired(YEAR_END).kept == {KeptBecause.PINNED: 8}
    assert left(store) == {"adopted", "nightly"}
    store.unpin(Version.parse("0.20.0"))
    store.prune_expired(YEAR_END)
    assert left(store) == set()


def test_what_a_comparison_with_a_pinned_version_rests_on_stays(store: Repository) -> None:
    for number, version in enumerate(("0.19.0", "0.20.0", "0.21.0")):
        add(store, version, -100 + number, version)
    compared(store, -90, "0.19.0", "0.20.0")
    compared(store, -90, "0.20.0", "0.21.0")
    store.pin(Version.parse("0.19.0"))
    gone = store.prune_expired(YEAR_END)
    assert gone.kept == {KeptBecause.PINNED: 2, KeptBecause.COMPARED: 2}
    assert left(store) == {"0.19.0", "0.20.0"}
    assert [(str(one.baseline), str(one.candidate)) for one in store.comparisons()] == [("0.19.0", "0.20.0")]


def test_what_a_young_comparison_rests_on_stays(store: Repository) -> None:
    for version in ("0.19.0", "0.20.0", "0.21.0"):
        add(store, version, -100, version)
    compared(store, 5, "0.19.0", "0.20.0")
    assert store.prune_expired(YEAR_END).kept == {KeptBecause.COMPARED: 4}
    assert (left(store), len(store.comparisons())) == ({"0.19.0", "0.20.0"}, 1)


def test_an_experiment_that_has_not_ended_stays(store: Repository) -> None:
    add(store, "interrupted", -100, "0.19.0", "0.20.0", ended=False)
    assert store.prune_expired(YEAR_END).kept == {KeptBecause.UNFINISHED: 4}


def test_the_newest_versions_of_each_testbed_stay(store: Repository) -> None:
    for number, version in enumerate(("0.19.0", "0.20.0", "0.21.0")):
        add(store, version, -100 + number, version)
    attic = Testbed("attic")
    store.add_runs([make_run("only", make_trial("only", started=day(-300)), version="0.18.0", testbed=attic)])
    assert store.prune_expired(YEAR_END, keep=1).kept == {KeptBecause.NEWEST: 3}
    assert left(store) == {"0.21.0", "only"}


def test_imported_runs_of_a_version_go_together_by_their_trials_or_their_import(store: Repository) -> None:
    store.add_runs(
        [
            make_run("a1", make_trial("a1", started=day(-30)), version="0.19.0"),
            make_run("a2", make_trial("a2", started=day(3)), version="0.19.0"),
            make_run("b", make_trial("b", source=make_source("b", imported_at=day(-2))), version="0.20.0"),
            make_run("of unknown age", version="0.21.0"),
        ]
    )
    gone = store.prune_expired(YEAR_END)
    assert {str(place.version): runs for place, runs in gone.places.items()} == {"0.20.0": 1}
    assert left(store) == {"a1", "a2", "of unknown age"}


def test_nothing_is_left_behind_of_what_went(store: Repository, url: str) -> None:
    add(store, "old", -100, "0.19.0", "0.20.0")
    store.prune_expired(YEAR_END)
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = "run", "trial", "source", "samples", "outputs", "holding", "build", "testbed", "suite", "experiment"
        counts = {table: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() for table in tables}
    engine.dispose()
    assert set(counts.values()) == {0}


@pytest.mark.parametrize("chunk", [1, 3])
def test_how_many_rows_a_statement_names_changes_nothing(
    store: Repository, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regress_gate.store.retention._PARAMETERS", chunk)
    add(store, "old", -100, "0.19.0", "0.20.0")
    add(store, "young", 100, "0.19.0", "0.20.0")
    store.prune_expired(YEAR_END)
    assert left(store) == {"young"}
    assert {one.runs for one in store.inventory()} == {2}
