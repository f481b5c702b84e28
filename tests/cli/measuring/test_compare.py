"""`compare --measure` from end to end: what the versions are made to do, and what is said of it."""

import pytest

from regress_gate.bench.load import client_guards

TIMES = ("--ttft=0.02", "--tpot=0.012", "--whole-at-once", "--jitter=0.02", "--run-spread=0.01")


@pytest.fixture(autouse=True)
def nothing_is_left_running(lab):
    yield
    assert lab.servers() == []


def measured(lab, *options, runs=5):
    outcome = lab("compare", "v0.19.0", "v0.19.1", "--measure", "--runs", runs, "--format", "json", *options)
    assert outcome.out, outcome
    return outcome, outcome.json


def series(result, metric):
    (found,) = [each for each in result["series"] if each["metric"] == metric]
    return found


@pytest.mark.parametrize("way", ["--one-at-a-time", "--resident"])
class TestSpeed:
    @pytest.fixture(autouse=True)
    def suite(self, lab):
        lab.write_suite(requests=12, warmup=0, tokens=24, margin=0.05)
        lab.simulate_load()

    def test_eight_percent_more_time_per_token_is_found(self, lab, way):
        lab.behave({"0.19.1": ["--tpot=0.01296"]}, usual=TIMES)
        outcome, result = measured(lab, way)
        assert (outcome.code, result["decision"]) == (1, "fail"), outcome
        slower = series(result, "tpot_median")
        assert slower["verdict"] == "regression"
        assert slower["change"] == pytest.approx(0.08, abs=0.03)
        assert 2 <= slower["baseline"]["runs"] == slower["candidate"]["runs"] <= 5
        reasons = [reason for reason in result["reasons"] if reason["code"] == "regression"]
        assert [reason["series"] for reason in reasons] == ["c4/tpot_median"]

    def test_two_versions_alike_are_not_said_to_differ(self, lab, way):
        lab.behave({}, usual=TIMES)
        outcome, result = measured(lab, way)
        assert outcome.code in (0, 3), outcome
        assert series(result, "tpot_median")["verdict"] in ("within_margin", "improvement", "undecided")


FAILURES = {
    "at start": (["--die-at-start"], (), "torch.OutOfMemoryError: CUDA out of memory"),
    "removed flag": (["--reject-arg=enforce_eager"], (), "unrecognized arguments: --enforce-eager"),
    "never ready": (["--never-ready"], ("--ready-within", "5s"), "not healthy within 5 s"),
    "under load": (["--die-after=4"], (), "CUDA error: an illegal memory access was encountered"),
    "resident, under load": (["--die-after=4"], ("--resident",), "CUDA error: an illegal memory access"),
    "hang": (["--hang-after=0"], (), "no request of c4 was answered in time"),
}


class TestServing:
    @pytest.fixture(autouse=True)
    def suite(self, lab):
        lab.write_suite(warmup=0, timeout=2)

    @pytest.mark.parametrize("name", FAILURES)
    def test_a_candidate_that_does_not_serve_where_the_baseline_does_fails_and_why_is_said(self, lab, name):
        flags, options, line = FAILURES[name]
        lab.behave({"0.19.1": flags})
        outcome, result = measured(lab, *options, runs=1)
        assert (outcome.code, result["decision"]) == (1, "fail"), outcome
        (reason,) = [reason for reason in result["reasons"] if reason["code"] == "server_failed"]
        assert "1 of 1 server starts of 0.19.1 failed, where the only one of 0.19.0 served" in reason["text"]
        assert line in reason["text"]

    def test_one_start_that_fails_is_enough_where_all_of_the_baseline_served(self, lab):
        lab.behave({"0.19.1": ["--die-after=4", "--faulty-start=3"]})
        outcome, result = measured(lab, runs=2)
        assert (outcome.code, result["decision"]) == (1, "fail"), outcome
        assert "1 of 2 server starts of 0.19.1 failed, where all 2 of 0.19.0 served" in str(result["reasons"])

    @pytest.mark.parametrize("flags", [["--die-at-start"], ["--die-after=4"]])
    def test_where_neither_serves_nothing_is_said_against_the_candidate(self, lab, flags):
        lab.behave({"0.19.0": flags, "0.19.1": flags})
        outcome = lab("compare", "0.19.0", "0.19.1", "--measure", "--runs", 2)
        assert outcome.code in (3, 4), outcome
        assert "FAIL " not in outcome.out

    def test_a_baseline_that_does_not_serve_is_no_reason_to_pass_or_to_fail(self, lab):
        lab.behave({"0.19.0": ["--die-at-start"]})
        outcome = lab("compare", "0.19.0", "0.19.1", "--measure", "--runs", 2)
        assert outcome.code in (3, 4), outcome
        assert "torch.OutOfMemoryError" in outcome.err

    def test_a_server_that_states_another_version_is_an_error_and_no_failure_of_the_candidate(self, lab):
        lab.behave({"0.19.1": ["--vllm-version=0.20.0"]})
        outcome = lab("compare", "0.19.0", "0.19.1", "--measure", "--runs", 1)
        assert outcome.code == 4
        assert "is vLLM 0.20.0; nothing was measured" in outcome.err
        assert [str(run.version) for run in lab.runs()] == ["0.19.0"]


class TestBlocks:
    def test_sides_alternate_in_who_is_first(self, lab):
        measured(lab, runs=2)
        assert [(run.place.block, run.place.side) for run in lab.runs()] == [
            (1, "baseline"),
            (1, "candidate"),
            (2, "candidate"),
            (2, "baseline"),
        ]

    def test_resident_sides_alternate_in_whose_trials_begin(self, lab):
        measured(lab, "--resident", runs=2)
        begin = {(run.place.block, run.place.side): run.trials[0].source.imported_at for run in lab.runs()}
        assert begin[1, "baseline"] < begin[1, "candidate"]
        assert begin[2, "candidate"] < begin[2, "baseline"]

    def test_what_is_stored_is_not_measured_again(self, lab):
        measured(lab, runs=1)
        measured(lab, runs=2)
        assert len(lab.runs()) == 4
        outcome, result = measured(lab, runs=2)
        assert "both sides have 2 runs that count; nothing was measured" in outcome.err
        assert len(lab.runs()) == 4
        assert result["baseline"]["runs"] == result["candidate"]["runs"] == 2

    def test_runs_that_were_not_made_side_by_side_are_no_blocks(self, lab):
        for version in ("0.19.0", "0.19.1"):
            assert lab("run", version, "--runs", 1).code == 0
        measured(lab, runs=1)
        assert [run.place.side for run in lab.runs()] == ["single", "single", "baseline", "candidate"]

    def test_no_budget_leaves_a_side_without_runs(self, lab):
        _, result = measured(lab, "--budget", "0.01s", runs=3)
        assert [(run.place.block, run.place.side) for run in lab.runs()] == [(1, "baseline"), (1, "candidate")]
        assert result["baseline"]["runs"] == result["candidate"]["runs"] == 1

    def test_a_side_of_which_no_run_counts_could_not_be_measured(self, lab, monkeypatch):
        monkeypatch.setattr(client_guards, "MAX_CPU_SHARE", 0.0)
        outcome = lab("compare", "0.19.0", "0.19.1", "--measure", "--runs", 1)
        assert (outcome.code, outcome.out) == (4, "")
        assert "0.19.0 could not be measured: 0 of 1 trials of c4 could be used; quieten the machine" in outcome.err

    def test_the_pinned_version_is_measured_against_another(self, lab):
        lab("run", "0.19.0", "--runs", 1)
        assert lab.gate("baseline", "pin", "0.19.0").code == 0
        outcome = lab("compare", "pinned", "0.19.1", "--measure", "--runs", 1, "--format", "json")
        assert (outcome.json["baseline"]["version"], outcome.json["candidate"]["version"]) == ("0.19.0", "0.19.1")
        assert [run.place.side for run in lab.runs()] == ["single", "baseline", "candidate"]

    def test_runs_keep_what_they_were_made_by(self, lab):
        measured(lab, runs=1)
        assert {run.place.way for run in lab.runs()} == {"command"}
        assert len({run.place.suite_digest for run in lab.runs()}) == 1

    def test_a_plan_costs_nothing(self, lab):
        outcome = lab("compare", "0.19.0", "0.19.1", "--plan", "--runs", 3, "--format", "json")
        assert outcome.code == 0
        assert outcome.json["plan"]["blocks"] == 3
        assert lab.runs() == []
        assert not lab.gate.store.exists()
