"""`compare` from refs to exit code, on the shipped baselines and on results that are imported for it."""

import json
import os
from queue import Queue
from threading import Thread

import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import ROOT
from tests.factories.serve_results import write
from tests.factories.server_starts import result, write_demo_runs

SCHEMA = Draft202012Validator(json.loads((ROOT / "regress_gate" / "report" / "result.schema.json").read_text()))
CODES = {"pass": 0, "fail": 1, "inconclusive": 3}


def compared(gate, *arguments):
    """The result object of a comparison; its exit code is the process's."""
    done = gate("compare", *arguments, "--format", "json")
    assert done.err == ""
    SCHEMA.validate(done.json)
    assert done.code == done.json["exit_code"]
    return done.json


@pytest.fixture
def measured(gate):
    """0.19.1 as the baseline, 0.20.0 as fast, 0.21.0 a third slower; six server starts each."""
    for version, speed in (("0.19.1", 1.0), ("0.20.0", 1.0), ("0.21.0", 1.33)):
        assert gate.import_starts(version, speed=speed).code == 0
    return gate


class TestShippedBaselines:
    @pytest.mark.parametrize(("base", "cand"), [("v0.19.0", "v0.19.1"), ("0.19.1", "0.32.0"), ("v0.24.0", "latest")])
    def test_a_newcomer_gets_an_answer_without_any_set_up(self, gate, base, cand):
        found = compared(gate, base, cand)
        assert found["schema_version"] == "1"
        assert found["exit_code"] == CODES[found["decision"]]
        assert found["reasons"]
        assert found["baseline"]["origin"] == found["candidate"]["origin"] == "shipped"
        assert "no advice on GPUs" in found["suite"]["notice"]
        assert found["testbed"]["comparable"]

    def test_a_real_regression_is_found(self, gate):
        """vLLM 0.24.0 takes nearly a third more memory than 0.19.1, in every server start that was measured."""
        found = compared(gate, "v0.19.1", "v0.24.0")
        assert found["decision"] == "fail"
        assert [reason["series"] for reason in found["reasons"] if reason["code"] == "regression"] == [
            "server/peak_memory"
        ]

    def test_no_dependency_of_many_is_called_the_cause(self, gate):
        words = " ".join(gate("compare", "v0.19.1", "v0.24.0").out.split())
        assert "server/peak_memory: the cause is not known: 6 dependencies changed (-v lists them)" in words
        assert "slower" not in words
        assert "unexplained" not in words

    @pytest.mark.parametrize(
        ("testbed", "hint"), [("cpu-2cor", "(did you mean 'cpu-2core'?)"), ("nosuch", "(known: cpu-2core)")]
    )
    def test_a_testbed_without_runs_is_told_what_would_fill_it(self, gate, testbed, hint):
        done = gate("compare", "v0.19.1", "v0.24.0", "--testbed", testbed)
        command = f"regress-gate compare v0.19.1 v0.24.0 --measure --suite cpu-tiny --testbed {testbed}"
        assert done.code == 5
        assert done.error == f"nothing is stored on testbed {testbed} {hint}; `{command}` would fill the gap"

    def test_a_suite_that_is_not_known_is_named_with_the_nearest(self, gate):
        done = gate("compare", "v0.19.0", "v0.19.1", "--suite", "cpu-tinny")
        why = "--suite: no suite 'cpu-tinny' is shipped or stored (did you mean 'cpu-tiny'?)"
        assert (done.code, done.error) == (2, why)

    def test_a_version_that_was_never_released_is_said_to_be_none(self, gate):
        done = gate("compare", "v0.19.7", "v0.24.0")
        assert (done.code, done.error) == (5, "vLLM 0.19.7 was never released; the nearest release is 0.19.1")

    @pytest.mark.parametrize("format_", ["table", "json", "markdown"])
    def test_every_format_names_the_decision(self, gate, format_):
        shown = gate("compare", "v0.24.0", "v0.32.0", "--format", format_)
        assert (shown.code, shown.err) == (0, "")
        assert "pass" in shown.out.lower()
        assert "0.32.0" in shown.out

    def test_a_pass_is_one_screen_of_100_columns(self, gate, monkeypatch):
        for columns in (100, 140):
            monkeypatch.setenv("COLUMNS", str(columns))
            for versions in (("v0.19.0", "v0.19.1"), ("v0.24.0", "v0.32.0")):
                shown = gate("compare", *versions).out.splitlines()
                assert shown[0].startswith("PASS: you may move")
                assert len(shown) <= 40, "\n".join(shown)
                assert max(map(len, shown)) <= columns

    def test_scenarios_are_in_natural_order(self, gate):
        found = compared(gate, "v0.24.0", "v0.32.0")
        scenarios = list(dict.fromkeys(one["scenario"] for one in found["series"]))
        assert scenarios[:3] == ["c1", "c4", "c16"]

    def test_verbose_shows_more_and_quiet_nothing(self, gate):
        usual, verbose, quiet = (gate("compare", "v0.19.0", "v0.19.1", *more) for more in ([], ["-v"], ["-q"]))
        assert len(verbose.out) > len(usual.out)
        assert (quiet.code, quiet.out, quiet.err) == (usual.code, "", "")

    def test_the_width_follows_columns_and_nothing_is_coloured(self, gate, monkeypatch):
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("NO_COLOR", "1")
        shown = gate("compare", "v0.19.0", "v0.19.1", "-v").out
        assert max(map(len, shown.splitlines())) <= 60
        assert "\x1b" not in shown


class TestDecisions:
    def test_an_unchanged_version_passes_with_exit_0(self, measured):
        found = compared(measured, "v0.19.1", "v0.20.0")
        assert (found["decision"], found["exit_code"]) == ("pass", 0)
        assert (found["baseline"]["runs"], found["candidate"]["runs"]) == (6, 6)

    def test_a_slower_version_fails_with_exit_1_and_names_the_series(self, measured):
        found = compared(measured, "v0.19.1", "v0.21.0")
        assert (found["decision"], found["exit_code"]) == ("fail", 1)
        assert "chat/ttft_median" in {reason["series"] for reason in found["reasons"]}
        (ttft,) = [series for series in found["series"] if series["metric"] == "ttft_median"]
        assert ttft["verdict"] == "regression"
        assert ttft["change"] == pytest.approx(0.33, abs=0.02)

    def test_a_faster_version_passes(self, measured):
        assert compared(measured, "v0.21.0", "v0.19.1")["decision"] == "pass"

    def test_a_throughput_that_falls_is_negative_in_the_report_and_a_loss_in_the_json(self, measured):
        (series,) = [
            one
            for one in compared(measured, "v0.19.1", "v0.21.0", "--gate", "output_throughput")["series"]
            if one["gated"]
        ]
        assert series["natural_change"] == -series["change"] < 0
        assert series["natural_interval"] == [-series["interval"][1], -series["interval"][0]]
        shown = measured("compare", "v0.19.1", "v0.21.0", "--gate", "output_throughput").out
        assert f"−{series['change']:.1%} worse" in shown

    def test_the_metrics_that_gate_can_be_named(self, measured):
        for flags, gated in (
            (["--gate", "ttft_mean", "--gate", "*_throughput"], {"ttft_mean", "output_throughput"}),
            (["--gate", "request_throughput"], {"request_throughput"}),
        ):
            found = compared(measured, "v0.19.1", "v0.21.0", *flags)
            assert gated <= {one["metric"] for one in found["series"] if one["gated"]}
            assert "tpot_median" not in {one["metric"] for one in found["series"] if one["gated"]}
            assert found["decision"] == "fail"

    def test_a_named_metric_replaces_those_of_the_file(self, measured):
        (measured.directory / "regress-gate.toml").write_text('[gate]\nmetrics = ["tpot_median"]\n')
        assert {one["metric"] for one in compared(measured, "v0.19.1", "v0.20.0")["series"] if one["gated"]} == {
            "tpot_median"
        }
        found = compared(measured, "v0.19.1", "v0.20.0", "--gate", "ttft_median")
        assert {one["metric"] for one in found["series"] if one["gated"]} == {"ttft_median"}

    def test_one_server_start_a_side_decides_nothing(self, gate):
        for version in ("0.19.1", "0.20.0"):
            gate.import_starts(version, starts=1)
        assert compared(gate, "v0.19.1", "v0.20.0")["decision"] == "inconclusive"

    def test_failing_requests_fail_the_gate(self, gate):
        gate.import_starts("0.19.1")
        gate.import_starts("0.20.0", failed=8)
        found = compared(gate, "v0.19.1", "v0.20.0")
        assert found["decision"] == "fail"
        assert "chat/failed_requests" in {reason["series"] for reason in found["reasons"]}

    def test_report_only_exits_0_and_says_what_was_decided(self, measured):
        done = measured("compare", "v0.19.1", "v0.21.0", "--report-only", "--format", "json")
        assert (done.code, done.json["decision"], done.json["exit_code"]) == (0, "fail", 0)

    @pytest.mark.parametrize(("asked", "code"), [("pass", 0), ("fail", 1)])
    def test_the_exit_code_of_inconclusive_can_be_chosen_by_flag_and_by_file(self, gate, asked, code):
        for version in ("0.19.1", "0.20.0"):
            gate.import_starts(version, starts=1)
        compare = ["compare", "v0.19.1", "v0.20.0"]
        assert gate(*compare).code == 3
        assert gate(*compare, "--on-inconclusive", asked).code == code
        (gate.directory / "regress-gate.toml").write_text(f"[gate]\non_inconclusive = '{asked}'\n")
        assert gate(*compare).code == code

    def test_margins_of_the_file_are_what_decides(self, measured):
        (measured.directory / "regress-gate.toml").write_text("[gate.margins]\n'*' = 0.7\n")
        assert compared(measured, "v0.19.1", "v0.21.0")["decision"] == "pass"

    def test_a_blocking_known_issue_fails_what_was_measured_equal(self, gate):
        for version in ("0.19.1", "0.20.0"):
            gate.import_starts(version)
        scope = ["--accelerator", "H200", "--model", "mistralai/Mixtral-8x7B-v0.1", "--quantization", "none"]
        found = compared(gate, "v0.19.1", "v0.20.0", *scope)
        assert found["decision"] == "fail"
        assert [(reason["code"], reason["issue"]) for reason in found["reasons"]] == [
            ("known_issue", "VLLM-41306"),
            ("all_within_margin", None),
        ]
        assert {s["verdict"] for s in found["series"] if s["gated"]} == {"within_margin"}


class TestRefs:
    def test_pinned_and_latest_are_versions(self, measured):
        assert measured("baseline", "pin", "v0.19.1").code == 0
        found = compared(measured, "pinned", "v0.20.0", "--testbed", "lab")
        assert (found["baseline"]["version"], found["candidate"]["version"]) == ("0.19.1", "0.20.0")
        assert compared(measured, "pinned", "latest", "--testbed", "lab")["candidate"]["version"] == "0.21.0"

    def test_two_runs_of_one_version_can_be_compared(self, measured):
        found = compared(measured, "run:1", "run:2")
        assert found["baseline"]["runs"] == found["candidate"]["runs"] == 1
        assert found["decision"] == "inconclusive"

    @pytest.mark.parametrize("refs", [("run:1", "run:1"), ("run:1", "v0.19.1"), ("v0.19.1", "run:1")])
    def test_what_shares_its_evidence_is_not_compared(self, measured, refs):
        refused = measured("compare", *refs, "--testbed", "lab")
        assert refused.code == 2
        assert "same stored build" in refused.error

    def test_a_nightly_is_the_one_measured_last(self, gate):
        gate.import_starts("0.19.1")
        gate.import_starts("0.23.1rc1.dev1403+g4080263bb")
        assert compared(gate, "v0.19.1", "nightly")["candidate"]["commit"] == "4080263bb"
        assert compared(gate, "v0.19.1", "commit:4080263")["candidate"]["version"] == "0.23.1rc1.dev1403"

    def test_where_two_testbeds_could_be_meant_both_are_listed_and_none_is_guessed(self, gate):
        for testbed in ("lab", "cellar"):
            for version in ("0.19.1", "0.20.0"):
                gate.import_starts(version, testbed=testbed)
        refused = gate("compare", "v0.19.1", "v0.20.0")
        assert refused.code == 2
        assert "--testbed lab" in refused.error
        assert "--testbed cellar" in refused.error
        assert compared(gate, "v0.19.1", "v0.20.0", "--testbed", "cellar")["decision"] == "pass"

    def test_a_run_of_ones_own_joins_the_shipped_ones_of_its_version_and_machine(self, gate):
        gate("baseline", "export", "v0.32.0", "--to", "there")
        shipped = json.loads(next((ROOT / "baselines").glob("0.32.0*.json")).read_text())
        shipped["runs"] = [{**shipped["runs"][0], "label": "one more"}]
        for trial in shipped["runs"][0]["trials"]:
            trial["source"]["sha256"] = trial["source"]["sha256"][::-1]
        write(gate.directory / "more.json", json.dumps(shipped))
        assert gate("baseline", "import", "more.json").code == 0
        before = json.loads(next((ROOT / "baselines").glob("0.32.0*.json")).read_text())["runs"]
        found = compared(gate, "v0.24.0", "v0.32.0")
        assert found["candidate"]["runs"] + len(found["void_runs"]) >= len(before) + 1


class TestComparability:
    H200 = ("--testbed-fact", "accelerator=H200")
    H100 = ("--testbed-fact", "accelerator=H100")

    def test_two_machines_are_refused_with_the_reason_and_exit_3(self, gate):
        gate.import_starts("0.19.1", *self.H200, testbed="one")
        gate.import_starts("0.20.0", *self.H100, testbed="other", speed=2)
        found = compared(gate, "v0.19.1", "v0.20.0")
        assert (found["decision"], found["exit_code"]) == ("inconclusive", 3)
        assert [reason["code"] for reason in found["reasons"]] == ["incomparable"]
        assert "accelerator: H200 → H100" in found["reasons"][0]["text"]
        assert found["series"] == []
        assert not found["testbed"]["comparable"]

    def test_who_insists_gets_a_marked_comparison(self, gate):
        gate.import_starts("0.19.1", *self.H200, testbed="one")
        gate.import_starts("0.20.0", *self.H100, testbed="other")
        found = compared(gate, "v0.19.1", "v0.20.0", "--allow-incomparable")
        assert found["series"]
        assert not found["testbed"]["comparable"]
        assert any("--allow-incomparable" in warning for warning in found["warnings"])

    def test_another_model_is_other_work(self, gate):
        gate.import_starts("0.19.1")
        gate.import_starts("0.20.0", model_id="org/other")
        assert compared(gate, "v0.19.1", "v0.20.0")["decision"] == "inconclusive"


class TestDisturbedRuns:
    QUIET, BUSY = [0.01] * 6, [0.6] * 6

    def stored(self, gate, base, cand, speed=1.0):
        write_demo_runs(gate.directory / "base", "0.19.1", loads=base)
        write_demo_runs(gate.directory / "cand", "0.20.0", loads=cand, speed=speed)
        assert gate("import", "base", "cand").code == 0
        return compared(gate, "v0.19.1", "v0.20.0", "--testbed", "two-cores")

    def test_quiet_runs_are_decided(self, gate):
        assert self.stored(gate, self.QUIET, self.QUIET)["decision"] == "pass"

    def test_quiet_runs_that_are_slower_fail(self, gate):
        assert self.stored(gate, self.QUIET, self.QUIET, speed=1.8)["decision"] == "fail"

    @pytest.mark.parametrize("speed", [0.5, 2.3])
    @pytest.mark.parametrize(
        "loads", [(QUIET, BUSY), (BUSY, QUIET), (BUSY, BUSY), ([None] * 6, QUIET), (QUIET, [None] * 6)]
    )
    def test_disturbed_or_unrecorded_runs_against_quiet_ones_decide_nothing(self, gate, loads, speed):
        found = self.stored(gate, *loads, speed=speed)
        assert (found["decision"], found["exit_code"]) == ("inconclusive", 3)
        assert found["reasons"][0]["code"] == "incomparable"

    def test_a_disturbed_run_among_quiet_ones_is_shown_and_left_out(self, gate):
        found = self.stored(gate, self.QUIET, [*self.QUIET, 0.9])
        assert found["decision"] == "pass"
        assert found["candidate"]["runs"] == 6
        assert [void["side"] for void in found["void_runs"]] == ["candidate"]
        assert "0.90 CPU cores" in found["void_runs"][0]["reason"]


class TestReports:
    def test_reports_are_written_to_several_files_and_printed(self, gate):
        done = gate("compare", "v0.24.0", "v0.32.0", "--output", "json:gate.json", "--output", "markdown:gate.md")
        assert done.out.startswith("PASS")
        SCHEMA.validate(json.loads((gate.directory / "gate.json").read_text()))
        assert "0.32.0" in (gate.directory / "gate.md").read_text()
        assert sorted(path.name for path in gate.directory.iterdir()) == [".git", "gate.json", "gate.md"]

    @pytest.mark.parametrize("place", ["nowhere/gate.json", ".", "gate.db/x", "x" * 300])
    def test_a_file_that_cannot_be_written_is_an_error_and_no_verdict(self, gate, place):
        (gate.directory / "gate.db").write_text("a file")
        refused = gate("compare", "v0.19.0", "v0.19.1", "--output", f"json:{place}")
        assert (refused.code, refused.out) == (2, "")
        assert refused.error.startswith(f"{place}: cannot be written (")
        assert [path.name for path in gate.directory.iterdir() if "regress" in path.name] == []

    def test_a_report_replaces_the_file_behind_a_link_and_keeps_its_permissions(self, gate):
        real, link = gate.directory / "real.json", gate.directory / "link.json"
        real.write_text("old")
        real.chmod(0o600)
        link.symlink_to(real)
        assert gate("compare", "v0.24.0", "v0.32.0", "-q", "--output", "json:link.json").code == 0
        assert link.is_symlink()
        assert json.loads(real.read_text())["decision"] == "pass"
        assert real.stat().st_mode & 0o777 == 0o600

    def test_a_pipe_is_written_to_and_stays_a_pipe(self, gate):
        pipe = gate.directory / "pipe"
        os.mkfifo(pipe)
        read: Queue[bytes] = Queue()
        # A pipe holds less than a report: somebody has to read while it is written. As a daemon, because a command
        # that fails opens no pipe, and its reader would wait for ever.
        Thread(target=lambda: read.put(pipe.read_bytes()), daemon=True).start()
        assert gate("check", "v0.19.1", "-q", "--output", "json:pipe").code in (0, 1, 3)
        assert json.loads(read.get(timeout=60))["schema_version"] == "1"
        assert pipe.is_fifo()


class TestHostileNames:
    EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e\x9b1m"

    @pytest.mark.parametrize("key", ["scenario", "testbed", "version", "vllm_version", "suite", "run", "model_id"])
    def test_names_in_a_file_never_steer_the_terminal(self, gate, key):
        write(gate.directory / "evil.json", result(**{key: self.EVIL}))
        flags = [] if key == "testbed" else ["--testbed", "lab"]
        done = gate("import", "evil.json", "--version", "v0.20.0", *flags)
        shown = [
            done,
            gate("baseline", "list"),
            gate("baseline", "show", "0.20.0"),
            gate("compare", "0.19.1", "0.20.0"),
        ]
        for outcome in shown:
            text = (outcome.out + outcome.err).replace("\n", "")
            assert text.isprintable()

    @pytest.mark.parametrize("format_", ["table", "json", "markdown"])
    def test_names_in_an_exported_baseline_never_steer_the_terminal(self, gate, format_):
        for version in ("0.19.1", "0.20.0"):
            gate.import_starts(version, starts=2)
        gate("baseline", "export", "--to", "out")
        other = ["--store", "evil.db"]
        for path in sorted((gate.directory / "out").iterdir()):
            content = json.loads(path.read_text())
            content["testbed"]["name"] = content["testbed"]["os"] = self.EVIL
            for run in content["runs"]:
                run["label"] += self.EVIL
                for trial in run["trials"]:
                    trial["scenario"] = trial["workload"]["model"] = trial["source"]["tool"] = self.EVIL
            path.write_text(json.dumps(content))
            assert gate("baseline", "import", path, *other).code == 0
        shown = [
            gate("compare", "0.19.1", "0.20.0", "--format", format_, "-v", *other, "--testbed", self.EVIL),
            gate("baseline", "list", *other),
            gate("baseline", "list", "--format", "json", *other),
            gate("baseline", "show", "0.20.0", *other),
            gate("baseline", "export", "--to", "again", *other),
            gate("baseline", "prune", "0.20.0", "--dry-run", *other),
        ]
        for outcome in shown:
            assert outcome.code in (0, 3)
            assert (outcome.out + outcome.err).replace("\n", "").isprintable()
        assert len(list((gate.directory / "again").iterdir())) == 2


class TestThePriceOfAGpuHour:
    WHY = "no cost is given: how many GPUs a server uses is not known, or it uses none"
    """The shipped baselines are of a machine without any."""

    def test_it_comes_from_the_option_or_the_configuration(self, gate):
        assert self.WHY in compared(gate, "v0.19.0", "v0.19.1", "--gpu-hour", "2.5")["warnings"]
        assert self.WHY not in compared(gate, "v0.19.0", "v0.19.1")["warnings"]
        (gate.directory / "regress-gate.toml").write_text("[cost]\ngpu_hour = 2.5\n")
        assert self.WHY in compared(gate, "v0.19.0", "v0.19.1")["warnings"]

    @pytest.mark.parametrize("price", ["0", "-1", "nan", "cheap"])
    def test_what_is_no_price_is_refused(self, gate, price):
        assert gate("compare", "v0.19.0", "v0.19.1", "--gpu-hour", price).code == 2
        (gate.directory / "regress-gate.toml").write_text(f"[cost]\ngpu_hour = {price}\n")
        assert gate("compare", "v0.19.0", "v0.19.1").code == 2
