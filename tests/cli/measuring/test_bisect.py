"""`regress-gate bisect`: found, not there, interrupted, and builds that cannot be measured."""

import itertools
import json
import os
import platform
import random
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from regress_gate.app import bisect as searching
from regress_gate.app import bisect_rows
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import ExitCode
from regress_gate.model.run import BlockPosition, Run, RunFailure, SuiteRef
from regress_gate.stats.search_length import expect_runs
from regress_gate.store.repository import Repository, open_store
from tests.cli.measuring.test_interrupted import check_whole, read_until
from tests.factories.runs import make_trial
from tests.fake_github.server import REPO, GitHub, serving, sha

VERSIONS = [f"0.20.{patch}" for patch in range(8)]
BETWEEN = [part for version in VERSIONS[1:-1] for part in ("--candidate", version)]
SEARCH = ("bisect", VERSIONS[0], VERSIONS[-1], *BETWEEN)
SLOWER = ["--tpot=0.003"]
"""Half slower than usual."""


class Machine:
    """Measures in no time: what each version gives, with the noise of a quiet machine between server starts."""

    def __init__(self, lab, monkeypatch):
        self.lab = lab
        self.times = dict.fromkeys(VERSIONS, 0.002)
        self.failing, self.missing = set(), set()
        self.started = []
        self._rng = np.random.default_rng(4711)
        self._now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
        monkeypatch.setattr(searching, "measure_task", self.measure)
        monkeypatch.setattr(bisect_rows, "published_versions", lambda *_: VERSIONS)
        monkeypatch.setattr(searching, "datetime", SimpleNamespace(now=lambda _: self._now))

    def slow(self, *positions, by=1.5):
        self.times |= {VERSIONS[at]: 0.002 * by for at in positions}

    def measure(self, settings, task, *_, **__):
        (version,) = task.versions.values()
        self.started.append(str(version))
        if str(version) in self.missing:
            raise ProvisionError(f"{version} has no wheel that fits")
        self._now += timedelta(minutes=2)
        number = len(self.started)
        trial = make_trial("c4", tpot_median=self.times[str(version)] * self._rng.lognormal(0, 0.01))
        trial = replace(trial, source=replace(trial.source, sha256=f"{number:064d}"))
        failure = RunFailure("died_at_start", "the server died at its start") if str(version) in self.failing else None
        run = Run(
            version=version,
            testbed=task.testbed,
            suite=SuiteRef(task.suite.name, task.suite.version),
            label=f"simulated {number}",
            trials=() if failure else (trial,),
            started=self._now,
            place=BlockPosition(f"e{number}", 1, 1, "single", seconds=90.0),
            failure=failure,
            libraries={"torch": "2.9.0" if str(version) < "0.20.5" else "2.10.0"},
        )
        with open_store(str(settings.store_url.value), create=True) as store:
            store.add_runs([run])
        return SimpleNamespace(outcome=SimpleNamespace(stored=[SimpleNamespace(void=None)], missing=0))

    def search(self, *more):
        """Exit code and JSON; the error for a failure."""
        metric = () if "--metric" in more else ("--metric", "tpot_median")
        done = self.lab(*SEARCH, *metric, *more, "--format", "json")
        return done.code, json.loads(done.out) if done.out else done.err.splitlines()[-1]


@pytest.fixture
def machine(lab, monkeypatch):
    return Machine(lab, monkeypatch)


def test_the_build_that_brought_a_change_is_found_and_named(machine):
    machine.slow(5, 6, 7)
    code, found = machine.search()
    assert code == ExitCode.PASS
    assert (found["last_good"]["version"], found["first_bad"]["version"]) == ("0.20.4", "0.20.5")
    assert found["probability"] >= 0.95
    assert found["change"] == pytest.approx(0.5, abs=0.05)
    assert found["libraries"] == ["torch 2.9.0 → 2.10.0"]
    assert found["left_out"] == []
    assert len(machine.started) == found["stages"][0]["runs_made"] <= 12


def test_of_chosen_builds_the_step_is_between_two_and_releases_that_were_none_of_them_are_named(machine, monkeypatch):
    monkeypatch.setattr(bisect_rows, "published_versions", lambda *_: [*VERSIONS, "0.20.4.post1"])
    machine.slow(5, 6, 7)
    row = [part for version in ("0.20.1", "0.20.3", "0.20.5", "0.20.6") for part in ("--candidate", version)]
    search = ("bisect", VERSIONS[0], VERSIONS[-1], *row, "--metric", "tpot_median")
    page = " ".join(machine.lab(*search).out.split())
    assert "came between 0.20.3 and 0.20.5" in page
    assert "Not searched, since they were no candidates: 0.20.4, 0.20.4.post1." in page
    assert json.loads(machine.lab(*search, "--format", "json").out)["left_out"] == ["0.20.4", "0.20.4.post1"]


def test_where_a_library_differs_the_command_that_holds_it_is_printed(machine):
    machine.slow(5, 6, 7)
    page = machine.lab(*SEARCH, "--metric", "tpot_median", "--variant", "cpu").out
    command = f"regress-gate compare 0.20.4 0.20.5 --measure --attribute --suite {machine.lab.suite} --testbed lab"
    # Without blanks: a terminal folds a path that is longer than its lines.
    assert "".join(f"{command} --variant cpu".split()) in "".join(page.split())
    better = machine.lab(
        "bisect", VERSIONS[-1], VERSIONS[0], *reversed_row(), "--metric", "tpot_median", "--improvement"
    )
    assert "--attribute" not in better.out


def reversed_row():
    return [part for version in VERSIONS[-2:0:-1] for part in ("--candidate", version)]


def test_what_is_stored_answers_at_once(machine):
    machine.slow(5, 6, 7)
    _, found = machine.search()
    made = len(machine.started)
    code, again = machine.search()
    assert (code, again["first_bad"], again["stages"][0]["runs_made"]) == (ExitCode.PASS, found["first_bad"], 0)
    assert len(machine.started) == made
    plan = machine.lab(*SEARCH, "--metric", "tpot_median", "--plan")
    assert "nothing is missing (found)" in plan.out


def test_a_plan_says_how_many_runs_and_measures_nothing(machine, monkeypatch):
    monkeypatch.setattr(searching, "expect_runs", partial(expect_runs, searches=6))
    plan = machine.lab(*SEARCH, "--metric", "tpot_median", "--plan", "--format", "json")
    document = json.loads(plan.out)
    assert (plan.code, machine.started, document["builds"]) == (ExitCode.PASS, [], VERSIONS)
    runs = {each["step"]: each["runs"] for each in document["expected"]}
    assert runs[5.0] < runs[3.0] < runs[2.0] < 60


def test_a_plan_is_refused_for_failures_which_do_not_scatter(machine):
    refused = machine.lab(*SEARCH, "--metric", "failure", "--plan")
    assert (refused.code, machine.started) == (ExitCode.USAGE, [])
    assert "--plan simulates a number that scatters" in refused.err


def test_a_budget_that_ends_before_the_ends_are_measured_claims_no_probability(machine, monkeypatch):
    clock = itertools.count(0, 400)
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    code, found = machine.search("--budget", "5m")
    assert (code, found["end"], found["stages"][0]["probability"]) == (ExitCode.INCONCLUSIVE, "budget", None)
    table = machine.lab(*SEARCH, "--metric", "tpot_median", "--budget", "5m").out
    assert table.startswith("NOT FOUND YET: the ends, 0.20.0 and 0.20.7, are not both measured")


def test_ends_that_do_not_differ_are_said_to_be_alike(machine):
    code, found = machine.search()
    assert (code, found["end"], found["first_bad"]) == (ExitCode.INCONCLUSIVE, "no_step", None)
    assert {run["version"] for run in found["stages"][0]["runs"]} > {VERSIONS[0], VERSIONS[-1]}  # the thirds, too


def test_a_change_that_came_and_went_is_two_steps_and_each_has_its_command(machine):
    machine.slow(2, 3, 4, 5)
    done = machine.lab(*SEARCH, "--metric", "tpot_median")
    assert done.code == ExitCode.INCONCLUSIVE
    assert done.out.startswith("TWO STEPS: ")
    words = " ".join(done.out.split())
    assert "regress-gate bisect 0.20.0 0.20." in words
    options = f"--suite {machine.lab.suite} --testbed lab --improvement"
    assert f" 0.20.7 --scenario c4 --metric tpot_median {options}".replace(" ", "") in "".join(words.split())


def test_the_build_that_made_it_better_is_found_too(machine):
    machine.slow(0, 1, 2)
    code, found = machine.search("--improvement")
    assert (code, found["first_bad"]["version"]) == (ExitCode.PASS, "0.20.3")
    assert found["change"] == pytest.approx(-1 / 3, abs=0.05)
    code, found = machine.search()
    assert found["end"] == "no_step"
    assert "search with --improvement" in machine.lab(*SEARCH, "--metric", "tpot_median").out.replace("\n", " ")


def test_builds_that_do_not_serve_are_not_told_apart_from_their_neighbour(machine):
    machine.slow(3, 4, 5, 6, 7)
    machine.failing, machine.missing = {"0.20.3"}, {"0.20.4"}
    code, found = machine.search()
    assert (code, found["last_good"]["version"], found["first_bad"]["version"]) == (0, "0.20.2", "0.20.5")
    assert found["not_told_apart"] == ["0.20.3", "0.20.4"]
    assert set(found["stages"][0]["untestable"]) == {"0.20.3", "0.20.4"}


def test_three_builds_in_a_row_that_cannot_be_installed_are_a_fault_of_the_machine(machine):
    machine.slow(7)
    machine.missing = set(VERSIONS[1:-1])
    code, error = machine.search()
    assert code == ExitCode.COULD_NOT_MEASURE
    assert "has no wheel that fits" in error


def test_an_end_that_cannot_be_installed_is_an_error(machine):
    machine.missing = {VERSIONS[0]}
    assert machine.search()[0] == ExitCode.COULD_NOT_MEASURE
    assert machine.started == [VERSIONS[0]]


def test_the_build_since_which_servers_crash_is_found(machine):
    machine.failing = set(VERSIONS[6:])
    code, found = machine.search("--metric", "failure")
    assert (code, found["last_good"]["version"], found["first_bad"]["version"]) == (0, "0.20.5", "0.20.6")
    table = machine.lab(*SEARCH, "--metric", "failure").out
    assert table.startswith("FOUND: the failure came between 0.20.5 and 0.20.6")


def test_a_number_cannot_be_searched_where_an_end_crashes(machine):
    machine.failing = {VERSIONS[7]}
    code, error = machine.search()
    assert code == ExitCode.USAGE
    assert "0.20.7 has no c4/tpot_median to search for: the server died at its start" in error
    assert error.endswith("give --metric failure")


def test_a_metric_that_the_suite_does_not_give_is_refused_after_two_runs(machine):
    code, error = machine.search("--metric", "goodput")
    assert (code, machine.started) == (ExitCode.USAGE, [VERSIONS[0]] * 2)
    assert "gives no c4/goodput for 0.20.0" in error


def test_a_search_that_will_not_end_within_the_budget_is_refused_when_the_ends_are_known(machine, monkeypatch):
    machine.slow(5, 6, 7)
    monkeypatch.setattr(searching, "_seconds_a_run", lambda _: 3600.0)
    code, error = machine.search("--budget", "2h")
    assert code == ExitCode.USAGE
    assert "the search will take about" in error
    assert error.endswith("give a longer --budget, or name nearer versions")
    assert len(machine.started) == 4  # of the ends, and they stay


def test_a_search_ends_with_its_budget_and_goes_on_later(machine, monkeypatch):
    machine.slow(5, 6, 7)
    clock = itertools.count(0, 50)
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    code, found = machine.search("--budget", "5m")
    assert (code, found["end"], found["first_bad"]) == (ExitCode.INCONCLUSIVE, "budget", None)
    assert 0 < len(machine.started) < 6


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("0.20.0", "0.20.0", "--metric", "tpot_median"), "both ends are one version"),
        (("0.20.1", "0.20.0", "--metric", "tpot_median"), "0.20.1 does not come before 0.20.0"),
        (("0.20.0", "0.20.1", "--metric", "tpot"), "unknown metric 'tpot'"),
        (("0.20.0", "0.20.1", "--metric", "tpot_median", "--scenario", "c5"), "has no scenario 'c5' (known: c4)"),
        (("0.20.0", "0.20.1", "--metric", "tpot_median", "--candidate", "0.20.1"), "0.20.1 is named twice"),
        (("0.20.0", "nonsense", "--metric", "tpot_median"), "'nonsense' is not a vLLM version"),
    ],
    ids=["one version", "order", "metric", "scenario", "twice", "no version"],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_measured(lab, given, error):
    done = lab("bisect", *given, "--offline")
    assert done.code == ExitCode.USAGE
    assert error in done.err
    assert lab.runs() == []


@pytest.mark.slow
def test_a_search_with_real_servers_uses_what_a_comparison_has_measured(lab):
    lab.behave({"0.19.1": SLOWER})
    lab.simulate_load()
    assert lab("compare", "0.19.0", "0.19.1", "--measure", "--runs", 3, "--all-blocks").code == ExitCode.FAIL
    done = lab(
        "bisect", "0.19.0", "0.19.1", "--metric", "tpot_median", "--releases-only", "--offline", "--format", "json"
    )
    assert json.loads(done.out)["stages"][0]["runs_made"] == 0
    assert (done.code, json.loads(done.out)["first_bad"]["version"]) == (ExitCode.PASS, "0.19.1")


@pytest.mark.slow
def test_a_search_that_is_killed_again_and_again_goes_on_and_makes_no_run_twice(lab):
    lab.behave({version: SLOWER if at >= 5 else [] for at, version in enumerate(VERSIONS)})
    lab.simulate_load()
    rng, moments = random.Random(4711), ("provisioning", "starting", "measuring", "asking")
    for kill in range(6):
        with lab.start(*SEARCH, "--metric", "tpot_median") as process:
            read_until(process, f"{'narrowing' if kill > 2 else 'run '}")
            read_until(process, moments[kill % len(moments)])
            time.sleep(rng.random() * 0.3)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=60)
        before = len(lab.runs())
    done = lab(*SEARCH, "--metric", "tpot_median", "--format", "json")
    assert done.out, done.err
    code, found = done.code, json.loads(done.out)
    assert (code, found["first_bad"]["version"]) == (ExitCode.PASS, "0.20.5")
    assert len(lab.runs()) == before + found["stages"][0]["runs_made"] <= 20
    for run in lab.runs():
        check_whole([run])
    assert lab.servers() == []


@pytest.mark.slow
def test_a_search_that_was_killed_between_a_run_and_the_end_of_its_experiment_goes_on(lab, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    lab.behave({version: SLOWER if at >= 5 else [] for at, version in enumerate(VERSIONS)})
    lab.simulate_load()
    with monkeypatch.context() as patched:
        patched.setattr(Repository, "end_experiment", die)
        assert lab(*SEARCH, "--metric", "tpot_median").code == ExitCode.INTERRUPTED
    assert len(lab.runs()) == 1
    done = lab(*SEARCH, "--metric", "tpot_median", "--format", "json")
    assert done.out, done.err
    assert json.loads(done.out)["first_bad"]["version"] == "0.20.5"
    assert len(lab.runs()) == 1 + json.loads(done.out)["stages"][0]["runs_made"]


# Among commits

COMMITS = "abcdefgh"


@pytest.fixture
def commits(machine, monkeypatch, tmp_path):
    """0.20.0 was cut at a, 0.20.1 at h; c, f and h have wheels, and the step is between c and f."""
    with serving(GitHub()) as github:
        github.history(
            *((name, f"Change {name} (#{number})") for number, name in enumerate(COMMITS, 1)),
            **{"v0.20.0": ("a", []), "v0.20.1": ("h", [])},
        )
        github.resources[f"/repos/{REPO}/commits/{sha('f')}"] = {
            "sha": sha("f"),
            "files": [{"filename": f"vllm/kernels/{number}.py"} for number in range(23)],
        }
        monkeypatch.setenv("REGRESS_GATE_GITHUB_API", github.url)
        monkeypatch.setattr(bisect_rows, "published_versions", lambda *_: ["0.20.0", "0.20.1"])
        for name in "acfh":
            listing = tmp_path / "wheels" / sha(name) / "cpu/vllm/metadata.json"
            listing.parent.mkdir(parents=True)
            wheel = f"vllm-0.20.1.dev1%2Bg{sha(name)[:9]}-cp38-abi3-manylinux_2_31_{platform.machine()}.whl"
            tag = f"manylinux_2_31_{platform.machine()}"
            listing.write_text(json.dumps([{"package_name": "vllm", "platform_tag": tag, "path": f"../../{wheel}"}]))
        config = tmp_path / "regress-gate.toml"
        config.write_text(f'[provision]\nwheel_index = "file://{tmp_path}/wheels/"\nvariant = "cpu"\n')
        machine.times |= {f"commit:{sha(name)}+cpu": 0.002 if name < "d" else 0.003 for name in COMMITS}
        machine.slow(1)
        search = partial(
            machine.lab.gate,
            "bisect", "v0.20.0", "v0.20.1", "--metric", "tpot_median", "--suite", machine.lab.suite, "--testbed", "lab",
            "--config", config,
        )  # fmt: skip
        search.github = github
        yield search


def test_between_two_releases_the_search_goes_on_among_the_commits_that_have_wheels(commits):
    done = commits("--format", "json")
    assert done.out, done.err
    found = json.loads(done.out)
    assert (done.code, [stage["kind"] for stage in found["stages"]]) == (ExitCode.PASS, ["releases", "commits"])
    assert found["last_good"]["version"] == f"commit:{sha('c')}+cpu"
    assert found["first_bad"]["pull"] == "https://github.com/vllm-project/vllm/pull/6"
    assert found["not_told_apart"] == [f"commit:{sha(name)}+cpu" for name in "de"]
    assert found["files"] == [f"vllm/kernels/{number}.py" for number in range(20)]
    assert found["files_changed"] == 23
    page = commits().out
    assert page.startswith("FOUND: tpot_median +")
    assert "Change f (#6)" in page
    assert "first among releases" in page
    assert "Files of the commit: 23 files" in page
    assert "vllm/kernels/19.py" in page
    assert "and 3 more" in page


def test_where_the_files_of_the_commit_are_not_known_it_is_said_and_the_commit_is_the_answer(commits):
    commits.github.resources.clear()
    commits.github.resources[f"/repos/{REPO}"] = {"default_branch": "main", "full_name": REPO}
    found = json.loads(commits("--format", "json").out)
    assert (found["first_bad"]["version"], found["files"]) == (f"commit:{sha('f')}+cpu", None)
    assert found["notes"][0].startswith(f"the files of commit:{sha('f')}+cpu are not known")


def test_where_github_does_not_say_the_releases_are_the_answer(commits, monkeypatch):
    monkeypatch.setenv("REGRESS_GATE_GITHUB_API", "http://127.0.0.1:9")
    done = commits("--format", "json")
    found = json.loads(done.out)
    assert (done.code, found["first_bad"]["version"]) == (ExitCode.PASS, "0.20.1")
    assert "the commits between are not searched: " in found["notes"][0]
