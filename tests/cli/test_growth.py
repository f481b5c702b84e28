"""A comparison in a store with a long history reads only the newest part of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from regress_gate.model.run import BlockPosition, SuiteRef
from regress_gate.store import reader
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import RECENT_RUNS
from tests.factories.runs import make_run, make_trial

NIGHTS, BLOCKS = 60, 2


def night(number, rng):
    """An experiment of two blocks: the version of the night beside that of the night before."""
    for block in range(1, BLOCKS + 1):
        for position, side in enumerate(("baseline", "candidate"), 1):
            version = f"0.19.{number if side == 'candidate' else number - 1}"
            label = f"{number}-{block}-{side}"
            trial = make_trial(ttft_median=0.1 * float(np.exp(rng.normal(0, 0.01))))
            trial = replace(trial, source=replace(trial.source, sha256=f"{label:0>64}"))
            yield make_run(
                label,
                version,
                trial,
                suite=SuiteRef("chat", "1"),
                started=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number, minutes=block),
                place=BlockPosition(f"e{number}", block, position, side),
            )


def test_compare_reads_the_newest_sessions_and_nothing_else_however_many_there_are(gate, monkeypatch):
    rng = np.random.default_rng(3)
    with open_store(f"sqlite:///{gate.store}", create=True) as store:
        store.add_runs(run for number in range(1, NIGHTS + 1) for run in night(number, rng))
    read = []
    for name in ("_trials", "_numbers"):
        original = getattr(reader, name)

        def counted(*arguments, original=original):
            for row in original(*arguments):
                read.append(row)
                yield row

        monkeypatch.setattr(reader, name, counted)
    found = gate("compare", f"0.19.{NIGHTS - 1}", f"0.19.{NIGHTS}", "--format", "json").json
    sides = 2 * 2 * BLOCKS  # each version was measured on two nights
    assert found["plan"]["earlier_sessions"] == 24
    assert 24 * 2 * BLOCKS <= len(read) <= sides + RECENT_RUNS
    assert len(read) < NIGHTS * 2 * BLOCKS
