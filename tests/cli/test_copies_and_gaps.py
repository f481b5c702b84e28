"""A pass has to be earned: copies, survivors, disturbed runs and a weak policy never make one in silence."""

import json
from dataclasses import replace

import pytest

from regress_gate.model.run import BlockPosition
from regress_gate.store.repository import open_store
from tests.factories.serve_results import write
from tests.factories.server_starts import luck, result

MEANS = {"request_throughput": (4.0, "1/s"), "ttft_mean": (51.0, "ms")}
FLAGS = ("--testbed", "lab", "--scenario", "chat")


def compared(gate, *options, base="v0.19.1", cand="v0.20.0"):
    return gate("compare", base, cand, "--testbed", "lab", "--format", "json", *options).json


def codes(found):
    return [reason["code"] for reason in found["reasons"]]


def passes(version, count, speed=1.0):
    """What one server answers in so many passes."""
    return [result(speed * luck(number, version), minute=number) for number in range(count)]


class TestOneServerIsOneRun:
    """A file that grows while one server is measured is one server start, however often it is imported."""

    def grow(self, gate, version, *options, form="\n"):
        """Import the file of `--append-result` after each pass."""
        path = gate.directory / f"{version}.jsonl"
        said = []
        for count in range(1, 6):
            write(path, form.join(json.dumps(one) for one in passes(version, count)) + form)
            done = gate("import", path, "--version", version, *FLAGS, *options)
            assert done.code == 0, done.err
            said.append(done)
        return said

    @pytest.mark.parametrize("options", [(), ("--run-per-file",), ("--run", "a")])
    def test_an_appended_file_that_is_imported_after_each_pass(self, gate, options):
        for version in ("0.19.1", "0.20.0"):
            first, *later = self.grow(gate, version, *options)
            assert "stored 1 trial in 1 new run" in first.out
            assert all("stored 1 trial in 0 new runs; 1 run extended" in done.out for done in later)
        found = compared(gate)
        assert (found["decision"], found["baseline"]["runs"], found["candidate"]["runs"]) == ("inconclusive", 1, 1)
        with open_store(f"sqlite:///{gate.store}", create=False) as store:
            assert [len(run.trials) for run in store.runs()] == [5, 5]

    def test_it_is_said_which_run_the_new_results_extend(self, gate):
        *_, last = self.grow(gate, "0.19.1")
        assert (
            "results of run:1 are in these files as well: the same server start, which the new results extend"
            in last.err
        )

    def test_a_long_table_that_grows(self, gate):
        for version in ("0.19.1", "0.20.0"):
            rows = ["scenario,trial,metric,value,unit,completed,failed"]
            for number, one in enumerate(passes(version, 5), 1):
                rows += [
                    f"chat,{number},ttft_median,{one['median_ttft_ms']!r},ms,100,0",
                    f"chat,{number},output_throughput,{one['output_throughput']!r},tok/s,100,0",
                ]
                path = write(gate.directory / f"{version}.csv", "\n".join(rows) + "\n")
                assert gate("import", path, "--version", version, "--testbed", "lab", "--run-per-file").code == 0
        assert [compared(gate)[side]["runs"] for side in ("baseline", "candidate")] == [1, 1]

    def test_snapshots_of_one_file_in_one_import(self, gate):
        for version in ("0.19.1", "0.20.0"):
            for count in range(1, 6):
                text = "".join(json.dumps(one) + "\n" for one in passes(version, count))
                write(gate.directory / version / f"after{count}.jsonl", text)
            assert gate("import", version, "--version", version, *FLAGS, "--run-per-file").code == 0
        assert [compared(gate)[side]["runs"] for side in ("baseline", "candidate")] == [1, 1]

    def test_the_same_numbers_written_otherwise(self, gate):
        for version in ("0.19.1", "0.20.0"):
            (one,) = passes(version, 1)
            forms = [
                json.dumps(one),
                json.dumps(one, indent=2),
                json.dumps({**one, "note": "again"}),
                json.dumps(dict(reversed(one.items()))),
                json.dumps({**one, "p90_ttft_ms": one["p99_ttft_ms"]}),
            ]
            for number, text in enumerate(forms):
                path = write(gate.directory / f"{version}-{number}.json", text)
                done = gate("import", path, "--version", version, *FLAGS, "--run-per-file")
                assert done.code == 0
                assert ("stored 1 trial" in done.out) == (number == 0)
        assert [compared(gate)[side]["runs"] for side in ("baseline", "candidate")] == [1, 1]

    def test_a_dry_run_knows_it_too(self, gate):
        (one,) = passes("0.19.1", 1)
        write(gate.directory / "a.json", one)
        write(gate.directory / "b.json", {**one, "note": "again"})
        gate("import", "a.json", "--version", "0.19.1", *FLAGS)
        done = gate("import", "b.json", "--version", "0.19.1", *FLAGS, "--dry-run")
        assert "would store 0 trials in 0 runs; 1 result stored already" in done.out

    def test_new_results_of_a_file_of_another_version_are_refused(self, gate):
        one, two = passes("0.19.1", 2)
        write(gate.directory / "a.jsonl", json.dumps(one) + "\n")
        gate("import", "a.jsonl", "--version", "0.19.1", *FLAGS)
        write(gate.directory / "a.jsonl", json.dumps(one) + "\n" + json.dumps(two) + "\n")
        done = gate("import", "a.jsonl", "--version", "0.20.0", *FLAGS)
        assert done.code == 2
        assert (
            "a.jsonl: holds results of run:1, which is 0.19.1 on lab with imported@1, and cannot be 0.20.0" in done.err
        )

    def test_different_starts_stay_different_runs(self, gate):
        for version in ("0.19.1", "0.20.0"):
            assert "stored 6 trials in 6 new runs" in gate.import_starts(version).out
        assert compared(gate)["decision"] == "pass"


class TestACopyIsNoMeasurement:
    def test_the_baselines_numbers_under_the_candidates_version_are_not_stored(self, gate):
        gate.import_starts("0.19.1")
        for path in (gate.directory / "results-0.19.1-lab").glob("*.json"):
            write(gate.directory / "copies" / path.name, {**json.loads(path.read_text()), "label": "candidate"})
        done = gate("import", "copies", "--version", "0.20.0", *FLAGS, "--run-per-file")
        assert done.code == 2
        assert "6 results stored already" in done.out
        assert "stay in run:1, run:2, run:3, run:4, run:5, run:6 of 0.19.1 on lab" in done.err
        assert "the same numbers a second time are a copy and no measurement; only if they were" in done.err
        assert gate("compare", "v0.19.1", "v0.20.0", "--testbed", "lab").code == 5

    def test_copies_that_are_in_the_store_decide_nothing_and_are_named(self, gate):
        """As an exported baseline brings them in whose version was edited, into a store that has no other."""
        gate.import_starts("0.19.1")
        gate("baseline", "export", "v0.19.1", "--testbed", "lab", "--to", "shared")
        (path,) = (gate.directory / "shared").iterdir()
        edited = json.loads(path.read_text().replace('"0.19.1"', '"0.20.0"'))
        copy = write(gate.directory / "shared" / path.name.replace("0.19.1", "0.20.0"), json.dumps(edited))
        gate.store.unlink()
        assert gate("baseline", "import", copy).code == 0
        with open_store(f"sqlite:///{gate.store}", create=False) as store:
            copies = store.runs()
        gate.store.unlink()
        # Stored side by side, as by a program that did not know copies yet.
        assert gate("baseline", "import", path).code == 0
        with open_store(f"sqlite:///{gate.store}", create=False) as store:
            others = [replace(run, trials=tuple(map(with_other_bytes, run.trials))) for run in copies]
            store.add_runs(measured_by_us(others))
        found = compared(gate)
        assert (found["decision"], codes(found)) == ("inconclusive", ["copied_runs"])
        assert "6 runs of 0.20.0 have the numbers of 0.19.1's to the last digit" in found["reasons"][0]["text"]


def with_other_bytes(trial):
    return replace(trial, source=replace(trial.source, sha256=trial.source.sha256[::-1]))


def measured_by_us(runs):
    """Numbers of runs that the tool itself made are not looked up when they are stored."""
    return [replace(run, place=BlockPosition("e", number, 1, "single")) for number, run in enumerate(runs, 1)]


class TestSurvivors:
    @pytest.mark.parametrize("missing", ["scenario", "family"])
    def test_what_most_candidate_runs_lack_is_no_pass(self, gate, missing):
        for version in ("0.19.1", "0.20.0"):
            for number in range(6):
                folder = gate.directory / version / f"run{number}"
                for scenario in ("c1", "c256"):
                    one = result(luck(number, version + scenario), minute=number)
                    is_gone = version == "0.20.0" and number >= 2 and scenario == "c256"
                    if is_gone and missing == "scenario":
                        continue
                    if is_gone:
                        one = {key: value for key, value in one.items() if "tpot" not in key}
                    write(folder / f"{scenario}.json", one)
            pattern = "run{run}/{scenario}.json"
            done = gate("import", version, "--version", version, "--testbed", "lab", "--pattern", pattern)
            assert done.code == 0, done.err
        found = compared(gate)
        assert found["decision"] == "inconclusive"
        assert codes(found) == ["missing_series"]
        text = found["reasons"][0]["text"]
        assert "of c256" in text
        assert "only 2 of 6 runs of the candidate, where 6 of 6 of the baseline have it" in text


class TestWhatIsNotSaid:
    def table(self, gate, version, metrics, *, speed=1.0, counts="", starts=7):
        """A long table with these metrics of so many server starts."""
        header = "scenario,run,metric,value,unit" + (",completed,failed" if counts else "")
        rows = [header]
        for number in range(starts):
            factor = speed * luck(number, version)
            rows += [
                f"chat,{number},{name},{value * (factor if unit == 'ms' else 1 / factor)!r},{unit}{counts}"
                for name, (value, unit) in metrics.items()
            ]
        path = write(gate.directory / f"{version}.csv", "\n".join(rows) + "\n")
        assert gate("import", path, "--version", version, "--testbed", "lab").code == 0

    @pytest.mark.parametrize(("speed", "decision"), [(1.0, "pass"), (1.077, "fail")])
    def test_means_and_the_request_rate_gate_where_nothing_else_was_measured(self, gate, speed, decision):
        self.table(gate, "0.19.1", MEANS)
        self.table(gate, "0.20.0", MEANS, speed=speed)
        found = compared(gate)
        assert found["decision"] == decision
        assert {series["metric"] for series in found["series"] if series["gated"]} == set(MEANS)

    def test_failures_that_no_side_states_are_said(self, gate):
        self.table(gate, "0.19.1", MEANS)
        self.table(gate, "0.20.0", MEANS)
        found = compared(gate)
        assert any("no side states how many requests failed in chat" in warning for warning in found["warnings"])
        assert found["reasons"][-1]["text"].endswith("how many requests failed was not stated")

    def test_a_metric_that_gates_by_name_and_was_not_measured_is_inconclusive(self, gate):
        self.table(gate, "0.19.1", MEANS)
        self.table(gate, "0.20.0", MEANS)
        write(gate.directory / "regress-gate.toml", '[gate]\nmetrics = ["ttft_mean", "accuracy_*"]\n')
        found = compared(gate)
        assert found["decision"] == "inconclusive"
        assert found["reasons"][0]["text"].startswith("accuracy_* gates, and neither side has it")

    def test_no_failure_on_either_side_is_not_undecided(self, gate):
        few = {**MEANS, "failed_requests": (0.0, "fraction")}
        for version in ("0.19.1", "0.20.0"):
            self.table(gate, version, few, counts=",8,0")
        found = compared(gate)
        assert found["decision"] == "pass"
        (failed,) = [series for series in found["series"] if series["metric"] == "failed_requests"]
        assert failed["verdict"] not in ("undecided", "inconclusive")
        assert (
            "no request failed on either side; of 56 requests, a rate of up to 5.4% would show none" in failed["notes"]
        )


class TestDisturbedImports:
    def runs(self, gate, version, loads):
        for number, facts in enumerate(loads):
            folder = gate.directory / version / f"run{number}"
            write(folder / "chat.json", result(luck(number, version), minute=number))
            write(folder / "conditions.json", {"run": number, **facts})
        assert gate("import", version, "--version", version, *FLAGS).code == 0

    @pytest.mark.parametrize(
        ("facts", "reason"),
        [
            ({"outside_cpu_cores_mean": 3.0}, "3.00 CPU cores were kept busy by other processes (limit 0.5)"),
            ({"outside_cpu_cores": {"chat.json": 3.0}}, "3.00 CPU cores were kept busy by other processes"),
            ({"steal_cpu_cores_mean": 0.7}, "0.70 CPU cores were taken away by the machine's host"),
            ({"gpu_throttled": 0.2}, "a GPU was throttled in 20.0% of the samples (limit 5.0%)"),
            ({"gpu_other_processes": 2}, "2 other processes on the GPUs (limit 0)"),
        ],
    )
    def test_a_disturbed_run_is_void_without_a_suite_too(self, gate, facts, reason):
        quiet = {"outside_cpu_cores_mean": 0.01}
        self.runs(gate, "0.19.1", [quiet] * 6)
        self.runs(gate, "0.20.0", [quiet] * 6 + [quiet | facts])
        found = compared(gate)
        assert (found["decision"], found["candidate"]["runs"]) == ("pass", 6)
        assert reason in found["void_runs"][0]["reason"]


class TestWeakPolicies:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ('[gate.margins]\n"*" = 0.99\n', 'margin "*" is 99% (default 5% to 20%)'),
            ("[gate]\nconfidence = 0.5\n", "confidence is 50% (default 90%)"),
            ('[gate]\nblock_severity = "never"\n', "block_severity is never (default high)"),
            (
                "[gate]\nfalse_alarm_budget = 0.01\n",
                "false_alarm_budget is 1% (default 5%), so a loss is harder to show",
            ),
            ('[gate]\non_inconclusive = "pass"\n', "what is not decided exits as a pass (on_inconclusive)"),
            ('[gate]\nmetrics = ["ttft_median"]\n', "only ttft_median can fail or pass it"),
        ],
    )
    def test_the_result_says_which_setting_is_weaker_and_where_it_was_made(self, gate, text, says):
        for version in ("0.19.1", "0.20.0"):
            gate.import_starts(version)
        assert compared(gate)["policy_notices"] == []
        path = write(gate.directory / "regress-gate.toml", text)
        assert compared(gate)["policy_notices"] == [f"{says} ({path})"]
        shown = gate("config", "show").out
        assert f"; weaker than the defaults: {says}" in shown

    def test_a_waiver_of_everything_is_said(self, gate):
        for version, speed in (("0.19.1", 1.0), ("0.20.0", 1.5)):
            gate.import_starts(version, speed=speed)
        assert compared(gate)["decision"] == "fail"
        write(
            gate.directory / "regress-gate.toml",
            '[[waivers]]\nfinding = "*"\nuntil = 2099-01-01\nmax_change = 1e9\nowner = "ops"\nreason = "all"\n',
        )
        found = compared(gate)
        assert found["decision"] == "pass"
        assert found["policy_notices"] == ['waiver "*" of ops lets losses of up to 1e+11% pass']
        first = gate("compare", "v0.19.1", "v0.20.0", "--testbed", "lab").out.splitlines()[1]
        assert first.startswith('Weaker than the defaults: waiver "*" of ops lets losses')
        assert "# weaker than the defaults: waiver" in gate("config", "show").out

    def test_stricter_than_the_defaults_is_not_said(self, gate):
        for version in ("0.19.1", "0.20.0"):
            gate.import_starts(version)
        write(gate.directory / "regress-gate.toml", '[gate]\nconfidence = 0.95\n[gate.margins]\n"*_p99" = 0.05\n')
        assert compared(gate)["policy_notices"] == []


class TestScope:
    README = ("compare", "v0.24.0", "v0.32.0", "--format", "json")

    def test_runs_of_one_version_on_another_machine_change_no_answer(self, gate):
        before = gate(*self.README).json
        gate.import_starts("0.24.0")
        gate.import_starts("0.18.0", testbed="other")
        after = gate(*self.README).json
        assert (after["testbed"], after["suite"], after["decision"]) == (
            before["testbed"],
            before["suite"],
            before["decision"],
        )

    def test_what_is_missing_on_a_testbed_is_said_with_the_command_that_fills_it(self, gate):
        gate.import_starts("0.19.1")
        gate.import_starts("0.18.0", testbed="other")
        done = gate("compare", "v0.19.1", "v0.20.0")
        assert done.code == 5
        assert done.error == (
            "no stored runs for v0.20.0 on lab; stored there: 0.19.1; "
            "`regress-gate import FILE… --version v0.20.0 --testbed lab` would fill the gap"
        )
        assert "`regress-gate compare v0.24.0 v0.33.0 --measure --suite cpu-tiny` would fill the gap" in (
            gate("compare", "v0.24.0", "v0.33.0").error
        )

    def test_a_launch_line_means_the_same_without_measuring(self, gate):
        options = ("--accelerator", "H200", "--format", "json", "--report-only")
        line = "vllm serve deepseek-ai/DeepSeek-R1 --enable-expert-parallel -tp 8"

        def applying(*more):
            found = gate("compare", "v0.24.0", "v0.32.0", *options, *more).json
            return {issue["id"]: issue["applies"] for issue in found["known_issues"]}

        assert applying("--serve-command", line) == applying(
            "--serve-command", f"/opt/{{version}}/bin/{line} --port {{port}}"
        )
