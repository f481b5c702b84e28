"""Who compares while others write sees one state of the store, and never half an experiment's blocks.

Real processes, on SQLite and on PostgreSQL.
"""

import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from regress_gate.app.compare import ComparisonScope, compare_stored
from regress_gate.app.settings import Settings
from regress_gate.model.run import BlockPosition
from regress_gate.model.version import Ref, Version
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredExperiment
from tests.factories.stored_runs import make_run, make_trial

BASE, CAND = "0.19.0+cpu", "0.19.1+cpu"
SCOPE = ComparisonScope(Ref.parse(BASE), Ref.parse(CAND), testbeds=("lab",))

WRITER = textwrap.dedent(
    f"""
    import sys, time
    from pathlib import Path
    from regress_gate.store.repository import open_store
    from tests.store.test_readers import measured
    with open_store(sys.argv[1], create=True) as store:
        for number in range(3, 5000):
            if Path(sys.argv[2]).exists():
                break
            store.add_runs([measured(number, {BASE!r}), measured(number, {CAND!r})])
            if number == 3:
                print("writing", flush=True)
            time.sleep(0.01)
    """
)


def measured(number, version, **given):
    speed = 1 + 0.003 * (number * 7 % 5) + 1e-7 * number + (1e-9 if version == CAND else 0)
    metrics = {"ttft_median": 0.1 * speed, "output_throughput": 1000 / speed, "failed_requests": 0.0}
    return make_run(f"run{number}", make_trial(f"{version}{number}", metrics=metrics), version=version, **given)


@contextmanager
def writing(url, tmp_path):
    """While another process adds a run of each version at a time, however long the reader takes."""
    enough = tmp_path / "enough"
    with subprocess.Popen([sys.executable, "-c", WRITER, url, enough], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        try:
            yield process
        finally:
            enough.touch()
    assert process.returncode == 0


def test_reads_of_one_state_see_whole_imports_only(url, tmp_path):
    with open_store(url, create=True) as store:
        store.add_runs([measured(0, BASE), measured(0, CAND)])
    with open_store(url, create=False) as store, writing(url, tmp_path) as process:
        seen, mixed = set(), 0
        while len(seen) < 12 and process.poll() is None:
            with store.one_state():
                left = len(store.runs(version=Version.parse(BASE)))
                time.sleep(0.02)
                right = len(store.runs(version=Version.parse(CAND)))
            mixed += left != right
            seen.add(left)
    assert mixed == 0
    assert len(seen) == 12, "the reader has to see the store while it grows"


def test_a_comparison_while_an_import_runs_has_as_many_runs_on_both_sides(url, tmp_path):
    with open_store(url, create=True) as store:
        for number in range(3):
            store.add_runs([measured(number, BASE), measured(number, CAND)])
    sides = set()
    with writing(url, tmp_path) as process:
        while len(sides) < 5 and process.poll() is None:
            result = compare_stored(Settings(store_flag=url, environment={}), SCOPE)
            sides.add((result.baseline.runs, result.candidate.runs))
    assert all(left == right for left, right in sides)
    assert len(sides) == 5


def in_block(number, version, side, experiment="e1"):
    place = BlockPosition(experiment, number, 1 if side == "baseline" else 2, side)
    return measured(number, version, place=place)


def unfinished(experiment="e1", **more):
    plan = {"versions": [["baseline", BASE], ["candidate", CAND]], **more}
    return StoredExperiment(experiment, datetime(2026, 11, 22, tzinfo=UTC), plan)


def test_a_block_that_is_being_measured_takes_no_part(url):
    with open_store(url, create=True) as store:
        store.add_runs([measured(number, version) for number in range(10, 14) for version in (BASE, CAND)])
        store.begin_experiment(unfinished())
        store.add_runs([in_block(1, BASE, "baseline")])
    settings = Settings(store_flag=url, environment={})
    result = compare_stored(settings, SCOPE)
    assert (result.baseline.runs, result.candidate.runs) == (4, 4)
    assert any("1 run is left out: the other side of the block is not measured yet" in w for w in result.warnings)
    with open_store(url, create=False) as store:
        store.add_runs([in_block(1, CAND, "candidate"), in_block(2, CAND, "candidate")])
    result = compare_stored(settings, SCOPE)
    assert (result.baseline.runs, result.candidate.runs) == (1, 1), "whole blocks go before runs that are not paired"
    assert any("1 run is left out" in w for w in result.warnings)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"blocks": 3, "most_blocks": None}, True),
        ({"blocks": 2, "most_blocks": None}, False),  # nothing is missing but the end
        ({"blocks": 3, "most_blocks": 9}, False),  # made to be looked at after every block
    ],
)
def test_a_look_into_a_fixed_plan_is_called_one(url, plan, said):
    with open_store(url, create=True) as store:
        store.begin_experiment(unfinished(**plan))
        sides = ((BASE, "baseline"), (CAND, "candidate"))
        store.add_runs([in_block(block, *side) for block in (1, 2) for side in sides])
    settings = Settings(store_flag=url, environment={})
    warnings = compare_stored(settings, SCOPE).warnings
    assert any(w.startswith("2 of 3 planned blocks are measured") for w in warnings) is said
    with open_store(url, create=False) as store:
        store.end_experiment("e1", datetime(2026, 11, 23, tzinfo=UTC))
    assert not any("planned blocks" in warning for warning in compare_stored(settings, SCOPE).warnings)


def test_a_block_whose_other_side_failed_is_whole(url):
    from regress_gate.model.run import RunFailure

    with open_store(url, create=True) as store:
        store.begin_experiment(unfinished())
        crash = make_run(
            "crash",
            version=CAND,
            place=BlockPosition("e1", 1, 2, "candidate"),
            failure=RunFailure("died_under_load", "it died"),
        )
        store.add_runs([in_block(1, BASE, "baseline"), crash])
    result = compare_stored(Settings(store_flag=url, environment={}), SCOPE)
    assert result.decision == "fail"
    assert not any("left out" in warning for warning in result.warnings)
