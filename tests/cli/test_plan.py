"""`compare --plan`: what blocks would cost and can show, from what is stored, and without doing anything."""

import hashlib
import math
import socket
from dataclasses import replace

import numpy as np
import pytest

from regress_gate.model.run import BlockPosition, RunFailure, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.store.repository import open_store
from regress_gate.text import duration_text
from tests.factories.runs import make_run, make_trial

SUITE = """\
name: small
version: 1
description: Two scenarios, each with a server of its own.
accelerator: cpu
gate: {metrics: [tpot_median, output_throughput, failed_requests], margins: {"*": 0.2, failed_requests: 0.02}}
scenarios:
  - name: c4
    server: {model: m/tiny}
    workload: {input_len: 16, output_len: 8, concurrency: 4, num_requests: 200}
  - name: long
    server: {model: m/tiny, engine_args: {max_model_len: 4096}}
    workload: {input_len: 2048, output_len: 8, concurrency: 2, num_requests: 200}
"""
PLACES = (("c4", "server-c4", 60.0), ("long", "server-long", 120.0))


def a_run(version, block, scenario, group, seconds, *, sd, rng, side):
    speed = math.exp(rng.normal(0, sd))
    trial = make_trial(scenario, tpot_median=0.01 * speed, output_throughput=1000 / speed, ttft_median=None)
    label = f"e1/{block:02d}-{side}/{group}"
    # Two trials of one source are one trial.
    source = replace(trial.source, sha256=hashlib.sha256(f"{version} {label}".encode()).hexdigest())
    return make_run(
        label,
        version,
        replace(trial, source=source),
        suite=SuiteRef("small", "1"),
        testbed=Testbed("lab", accelerator="cpu"),
        place=BlockPosition("e1", block, 1, side, group=group, seconds=seconds),
    )


@pytest.fixture
def plan(gate):
    """Asks for a plan of two versions; `plan.store(…)` keeps runs of both before."""
    file = gate.directory / "small.yaml"
    file.write_text(SUITE)

    def ask(*more, base="0.19.0", cand="0.19.1"):
        return gate("compare", base, cand, "--plan", "--suite", file, "--testbed", "lab", *more)

    def store(*, blocks=3, sd=0.03, versions=("0.19.0", "0.19.1"), places=PLACES, change=None):
        rng = np.random.default_rng(5)
        runs = [
            a_run(version, block, *place, sd=sd, rng=rng, side=side)
            for block in range(1, blocks + 1)
            for version, side in zip(versions, ("baseline", "candidate"), strict=False)
            for place in places
        ]
        with open_store(f"sqlite:///{gate.store}", create=True) as opened:
            opened.add_runs(map(change, runs) if change else runs)

    ask.store, ask.gate = store, gate
    return ask


class TestWithoutAnyRun:
    def test_the_plan_says_what_it_assumes_and_that_the_time_is_unknown(self, plan):
        outcome = plan()
        assert (outcome.code, outcome.err) == (0, "")
        first, _, runs, time, *_ = map(str.strip, outcome.out.splitlines())
        assert first == "at most 6 blocks of 0.19.0 and 0.19.1 with small@1 on lab"
        assert runs == "runs  0 a side are stored, at most 6 after that"
        assert time == "time  not known: no run of this suite was made on this testbed yet"
        assert outcome.out.count("assumed") == 6

    def test_the_plan_says_what_recorded_traffic_asks_for_and_refuses_what_cannot_be_read(self, plan):
        file = plan.gate.directory / "traffic.csv"
        file.write_text(
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,16,8\n2023-11-16 18:17:13.9,17,9\n"
        )
        length = "input_len: 2048, output_len: 8, concurrency: 2, num_requests: 200"
        suite = SUITE.replace(length, f"num_requests: 2, trace: {{file: {file}}}")
        (plan.gate.directory / "small.yaml").write_text(suite)
        assert "long  azure trace: 2 requests in 10 s (0.1/s, at most 1 within a second)" in plan().out
        found = plan("--format", "json").json["plan"]["traces"]
        assert found["long"]["input_tokens"] == [16.5, 16.95, 17.0]
        file.write_text(file.read_text().replace("17,9", "17"))
        refused = plan()
        assert (refused.code, refused.out) == (2, "")
        assert "traffic.csv:3: has 2 columns, fewer than the header" in refused.err

    def test_nothing_is_made_and_the_network_is_not_asked(self, plan, monkeypatch):
        def refuse(*_):
            raise AssertionError("the network was asked")

        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        before = set(plan.gate.directory.rglob("*"))
        assert plan("--offline").code == 0
        assert set(plan.gate.directory.rglob("*")) == before

    def test_json_has_the_same(self, plan):
        found = plan("--format", "json", "--runs", 2).json["plan"]
        assert (found["blocks"], found["runs_a_side"], found["minutes"]) == (2, 2, None)
        assert {series["noise_runs"] for series in found["series"]} == {0}

    def test_one_run_shows_nothing_and_is_said_to(self, plan):
        out = plan("--runs", 1).out
        assert out.startswith("1 block of")
        assert "6 of 6 gated series will probably stay undecided even if nothing changed" in out


class TestWithRuns:
    def test_only_what_is_missing_is_planned(self, plan):
        plan.store(blocks=3)
        found = plan("--runs", 5, "--format", "json").json["plan"]
        assert (found["blocks"], found["runs_a_side"]) == (2, 5)

    def test_the_time_is_that_of_both_sides_and_all_servers(self, plan):
        plan.store(blocks=3)
        assert "time  about 12 min at most, 6 min a block" in plan("--runs", 5).out
        assert "time  about 12 min, 6 min a block" in plan("--runs", 5, "--all-blocks").out

    def test_spread_is_measured(self, plan):
        plan.store(blocks=4, sd=0.03)
        series = {(s["scenario"], s["metric"]): s for s in plan("--format", "json").json["plan"]["series"]}
        assert series["c4", "tpot_median"]["noise_runs"] == 8
        assert series["c4", "tpot_median"]["run_cv"] == pytest.approx(0.03, rel=0.7)

    def test_a_side_has_as_many_runs_as_its_scarcest_scenario(self, plan):
        """Two servers a block: four runs are two blocks, and one of only one server is none."""
        plan.store(blocks=2)
        plan.store(blocks=3, places=PLACES[:1])
        assert plan("--runs", 5, "--format", "json").json["plan"]["runs_a_side"] == 5
        assert plan("--runs", 5, "--format", "json").json["plan"]["blocks"] == 3

    def test_a_server_of_which_no_block_is_whole_decides(self, plan):
        plan.store(blocks=3, places=PLACES[:1])
        assert plan("--runs", 5, "--format", "json").json["plan"]["blocks"] == 5

    def test_runs_that_no_block_holds_together_are_not_counted(self, plan):
        """A version has its runs from other days: two sides that were made months apart differ by more than that."""
        plan.store(change=lambda run: replace(run, place=replace(run.place, experiment=f"e-{run.version}")))
        assert plan("--runs", 5, "--format", "json").json["plan"]["blocks"] == 5

    def test_failed_runs_are_no_runs(self, plan):
        failure = RunFailure("died_at_start", "the server died")
        plan.store(change=lambda run: replace(run, failure=failure, trials=()))
        found = plan("--format", "json").json["plan"]
        assert (found["blocks"], found["minutes"]) == (6, None)

    def test_runs_of_other_versions_tell_the_spread_too(self, plan):
        plan.store(versions=("0.18.0",))
        found = plan("--format", "json").json["plan"]
        assert found["blocks"] == 6
        assert {series["noise_runs"] for series in found["series"]} == {3}

    def test_where_nothing_is_missing_there_is_no_time(self, plan):
        plan.store(blocks=6)
        out = plan().out
        assert out.startswith("0 blocks of")
        assert "runs  6 a side are stored: nothing is missing" in out
        assert "time" not in out.partition("SERIES")[0]

    def test_it_fits_a_terminal(self, plan):
        plan.store(blocks=3, sd=0.2)
        assert max(map(len, plan("--budget", "1h").out.splitlines())) <= 80

    def test_what_cannot_be_shown_stands_first_and_is_marked(self, plan):
        plan.store(blocks=3, sd=0.2)
        rows = plan().out.partition("SERIES")[2].splitlines()[1:7]
        marked = [row.endswith("~") for row in rows]
        assert marked == sorted(marked, reverse=True)
        assert marked[0]


class TestDecided:
    """What is stored may decide already; then `--measure` would measure nothing."""

    @staticmethod
    def looked_at_often(run):
        return replace(run, place=replace(run.place, most_blocks=6))

    def test_blocks_that_a_plan_like_this_one_decided_on_need_no_more(self, plan):
        plan.store(blocks=3, sd=0.001, change=self.looked_at_often)
        out = plan().out
        assert out.startswith("0 blocks of")
        assert "runs  3 a side are stored: nothing is missing" in out
        assert plan("--all-blocks").out.startswith("3 blocks of")

    def test_blocks_that_a_plan_like_this_one_gave_up_on_need_no_more(self, plan):
        plan.store(blocks=4, sd=1.0, change=self.looked_at_often)
        assert plan().out.startswith("0 blocks of")

    def test_blocks_that_were_to_be_looked_at_once_have_had_that_look(self, plan):
        plan.store(blocks=3, sd=0.001)
        assert plan().out.startswith("at most 3 blocks of")


class TestEnd:
    def test_a_plan_that_may_stop_says_after_which_block_it_probably_will(self, plan):
        plan.store(blocks=3, sd=0.01)
        likely = plan("--runs", 8, "--format", "json").json["plan"]["likely_end"]
        assert 4 <= likely["unchanged"] <= 8
        assert 4 <= likely["lost"] <= 8
        line = f"ends  after about block {likely['unchanged']} if unchanged, block {likely['lost']} if twice a margin"
        assert line in plan("--runs", 8).out

    def test_one_that_will_not_show_anything_ends_with_its_last_block(self, plan):
        plan.store(blocks=3, sd=1.0)
        assert plan("--format", "json").json["plan"]["likely_end"] == {"unchanged": None, "lost": None}
        assert "ends  after the last block if unchanged, the last if twice a margin is lost" in plan().out

    def test_one_that_makes_all_its_blocks_ends_with_them(self, plan):
        found = plan("--all-blocks", "--format", "json").json["plan"]
        assert (found["blocks"], found["likely_end"]) == (6, None)
        out = plan("--all-blocks").out
        assert out.startswith("6 blocks of")
        assert "ends" not in out.partition("SERIES")[0]

    def test_two_blocks_leave_nothing_to_stop(self, plan):
        assert "ends" not in plan("--runs", 2).out.partition("SERIES")[0]


class TestBudget:
    def test_only_blocks_that_fit_are_planned(self, plan):
        plan.store(blocks=1)
        outcome = plan("--runs", 9, "--budget", "20m")
        assert outcome.out.startswith("at most 3 blocks of")
        assert "time  about 18 min at most, 6 min a block, within the budget of 20 min" in outcome.out

    def test_a_budget_in_which_no_block_ends_is_said_to_be_one(self, plan):
        plan.store(blocks=1)
        assert f"not one block fits the budget of {duration_text(60)}" in plan("--budget", "1m").out

    def test_a_budget_cannot_be_held_against_an_unknown_time(self, plan):
        assert "time  not known" in plan("--budget", "1m").out


class TestRefused:
    def test_one_version_is_no_comparison(self, plan):
        outcome = plan(cand="v0.19.0")
        assert outcome.code == 2
        assert "both sides are one version; use `regress-gate calibrate`" in outcome.error

    def test_a_budget_that_is_none(self, plan):
        assert plan("--budget", "soon").code == 2
