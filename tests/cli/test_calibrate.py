"""`calibrate`: a version against itself, with servers that behave as told, and what is said of its noise."""

import numpy as np
import pytest

from regress_gate.app.calibrate import RUNS_SHOWN, _effects
from regress_gate.model.run import BlockPosition
from regress_gate.report import render
from regress_gate.report.views.planning_view import CalibrationView
from tests.cli.measuring.lab import Lab
from tests.factories.runs import make_run, make_trial


@pytest.fixture
def lab(gate, monkeypatch):
    lab = Lab(gate, monkeypatch)
    yield lab
    lab.close()


def test_a_steady_version_is_measured_stored_and_reported(lab):
    lab.simulate_load()  # a run that a busy machine makes an outlier says nothing of the noise
    outcome = lab("calibrate", "0.19.1", "--runs", 2, "--format", "json")
    found = outcome.json
    assert (found["version"], found["suite"], found["testbed"], found["runs"]) == ("0.19.1", "small@1", "lab", 4)
    assert (found["failed_runs"], found["void_runs"]) == (0, [])
    assert outcome.code == (1 if found["decision"] == "fail" else 0)
    series = {each["metric"]: each for each in found["series"]}
    assert set(series) == {"tpot_median", "failed_requests"}
    assert series["tpot_median"]["noise_runs"] == 4
    assert set(series["tpot_median"]["detectable_change"]) == {str(n) for n in RUNS_SHOWN}
    assert found["minutes_a_block"] > 0
    assert [run.place.side for run in lab.runs()] == ["baseline", "candidate", "candidate", "baseline"]


def test_a_version_that_does_not_serve_says_nothing_about_its_noise(lab):
    lab.behave({"0.19.1": ["--die-at-start"]})
    outcome = lab("calibrate", "0.19.1", "--runs", 1)
    assert outcome.code == 4


EFFECT = {"effect": 0.04, "interval": [0.01, 0.07], "p_adjusted": 0.01}
SHOWN = {
    "version": "0.19.1",
    "suite": "small@1",
    "testbed": "lab",
    "decision": "inconclusive",
    "reasons": ["2 of 40 gated series are undecided"],
    "runs": 6,
    "void_runs": ["a neighbour \x1b[31mwas busy"],
    "failed_runs": 0,
    "minutes_a_block": 5.25,
    "series": [
        {
            "scenario": "prefix",
            "metric": "output_throughput",
            "margin": 0.3,
            "run_cv": 0.13,
            "detectable_change": {"3": None, "5": 0.913, "10": 12.0},
            "second_in_block": EFFECT,
            "drift_per_block": {**EFFECT, "effect": -0.104, "p_adjusted": 0.06},
        },
        {
            "scenario": "c4",
            "metric": "failed_requests",
            "margin": 0.01,
            "run_cv": 0.0,
            "detectable_change": {"3": 0.3, "5": 0.066, "10": 0.019},
            "second_in_block": None,
            "drift_per_block": None,
        },
    ],
}


def test_the_table_fits_a_terminal_and_obeys_nothing():
    lines = render(CalibrationView(SHOWN)).splitlines()
    assert lines[0] == "0.19.1 against itself stays undecided: 2 of 40 gated series are undecided"
    assert "6 runs count, 1 void (a neighbour was busy), 5.2 minutes a block" in lines[1]
    assert lines[3].split() == ["SERIES", "SPREAD", "MARGIN", "n=3", "n=5", "n=10", "SECOND", "A", "BLOCK"]
    assert lines[4].split() == [
        "prefix/output_throughput",
        "13.0%",
        "30.0%",
        "none",
        "91%",
        "none",
        "+4.0%",
        "*",
        "-10.4%",
    ]
    assert lines[5].split()[-2:] == ["-", "-"]
    assert max(map(len, lines[3:])) <= 80


def test_without_two_runs_no_spread_is_made_up():
    text = render(CalibrationView({**SHOWN, "series": [], "runs": 1}))
    assert "No series has two runs that count" in text


def experiment(rng, *, names, second=1.0):
    """Runs of one version in five blocks, with series that share no luck."""
    runs = []
    for block in range(1, 6):
        for position in (1, 2):
            trials = [
                make_trial(name, ttft_median=0.1 * np.exp(rng.normal(0, 0.05)) * (second if position == 2 else 1.0))
                for name in names
            ]
            place = BlockPosition("e1", block, position, "baseline")
            runs.append(make_run(f"{block}-{position}", "0.19.1", *trials, place=place))
    return runs


def starred(runs, names):
    found = _effects(runs, [(name, "ttft_median") for name in names])
    return sum(each["p_adjusted"] <= 0.05 for effects in found.values() for each in effects.values())


def test_forty_series_without_an_effect_have_no_star_nineteen_times_in_twenty():
    names = [f"s{n}" for n in range(40)]
    rng = np.random.default_rng(11)
    experiments = [starred(experiment(rng, names=names), names) for _ in range(60)]
    assert sum(stars > 0 for stars in experiments) <= 8


def test_an_effect_that_is_there_is_starred_among_forty():
    names = [f"s{n}" for n in range(40)]
    assert starred(experiment(np.random.default_rng(12), names=names, second=1.8), names) >= 35
