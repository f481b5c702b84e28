"""`import regress_gate as rg`: frames and decisions for notebooks and scripts."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import regress_gate as rg
from regress_gate.app.frames import runs_frame, samples_frame, version_categories
from regress_gate.store.repository import open_store
from tests.factories import stored_runs
from tests.factories.runs import make_run, make_trial
from tests.factories.stored_runs import make_samples

TESTBED = stored_runs.make_run().testbed.name
ROOT = Path(__file__).parents[2]
MIXTRAL = {"accelerator": "H200", "model": "mistralai/Mixtral-8x7B-Instruct-v0.1", "quantization": "none"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither the store nor the configuration of the user who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("REGRESS_GATE_STORE", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestImport:
    def test_importing_the_package_imports_nothing_else(self) -> None:
        code = "import sys\nbefore = set(sys.modules)\nimport regress_gate\nprint(sorted(set(sys.modules) - before))"
        assert run_python(code).strip() == "['regress_gate']"

    def test_every_public_name_exists_and_is_listed(self) -> None:
        assert set(rg.__all__) <= set(dir(rg))
        assert all(getattr(rg, name) is not None for name in rg.__all__)

    def test_an_unknown_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'compair'"):
            rg.compair  # type: ignore[attr-defined]  # noqa: B018

    def test_decisions_load_no_pandas_until_a_frame_is_wanted(self) -> None:
        code = (
            "import sys\nimport regress_gate as rg\nresult = rg.compare('0.24.0', '0.32.0')\n"
            "result.to_json(), result.to_markdown(), result.to_html(), rg.check('0.20.0')\n"
            "assert 'pandas' not in sys.modules\nresult.to_frame()\nassert 'pandas' in sys.modules"
        )
        run_python(code)


class TestRuns:
    def test_there_is_one_row_for_each_value_of_a_trial_and_of_a_run(self) -> None:
        run = make_run("1", "0.19.0", make_trial("c8", ttft_median=0.2), metrics={"startup_time": 30.0})
        frame = runs_frame([run], {0})
        assert len(frame) == 4
        (ttft,) = frame.loc[frame["metric"] == "ttft_median"].itertuples()
        assert (ttft.version, ttft.testbed, ttft.suite, ttft.scenario, ttft.trial, ttft.value, ttft.counted) == (
            "0.19.0", "bench-1", "chat@1", "c8", 1, 0.2, True
        )  # fmt: skip
        (startup,) = frame.loc[frame["metric"] == "startup_time"].itertuples()
        assert pd.isna(startup.scenario)
        assert pd.isna(startup.trial)
        assert startup.value == 30.0

    def test_units_are_attributes_of_the_frame(self) -> None:
        frame = runs_frame([make_run(metrics={"peak_memory": 1e9})], {0})
        assert frame.attrs["units"] == {
            "failed_requests": "fraction", "output_throughput": "1/s", "peak_memory": "bytes", "ttft_median": "s",
        }  # fmt: skip

    def test_versions_have_the_order_of_releases_and_not_of_their_text(self) -> None:
        runs = [make_run(version=version) for version in ("0.10.0", "0.9.2", "0.10.0rc1")]
        assert list(runs_frame(runs, set())["version"].cat.categories) == ["0.9.2", "0.10.0rc1", "0.10.0"]
        assert runs_frame(runs, set())["version"].cat.ordered

    def test_builds_whose_names_have_no_order_come_last_by_the_day_of_their_first_run(self) -> None:
        day = pd.Timestamp("2026-05-02", tz="UTC").to_pydatetime()
        runs = [
            make_run(version="commit:2222222", started=day),
            make_run(version="0.19.0"),
            make_run(version="commit:3333333", started=day.replace(day=1)),
        ]
        assert version_categories(runs) == ["0.19.0", "commit:3333333", "commit:2222222"]

    def test_no_runs_make_an_empty_frame_with_all_columns(self) -> None:
        columns = list(runs_frame([make_run()], {0}))
        empty = rg.open_store().runs("9.9.9")
        assert (len(empty), list(empty)) == (0, columns)
        assert len(rg.open_store().samples("9.9.9")) == 0

    def test_void_runs_are_marked_and_can_be_left_out(self, home: Path) -> None:
        with open_store(f"sqlite:///{home}/own.db", create=True) as store:
            store.add_runs(
                [
                    stored_runs.make_run("1", stored_runs.make_trial("a")),
                    stored_runs.make_run("2", stored_runs.make_trial("b"), void="a neighbour was busy"),
                ]
            )
        own = rg.open_store(home / "own.db")
        marked = own.runs("0.19.0", testbed=TESTBED).groupby("run", observed=True)["counted"].first()
        assert sorted(marked) == [False, True]
        assert own.runs("0.19.0", testbed=TESTBED, counted_only=True)["run"].nunique() == 1

    def test_shipped_runs_have_the_values_that_compare_averages(self) -> None:
        frame = rg.open_store().runs("0.32.0", metrics=["failed_requests"], counted_only=True)
        series = rg.compare("0.24.0", "0.32.0").to_frame().set_index(["scenario", "metric"])
        means = (
            frame.groupby(["scenario", "run"], observed=True)["value"].mean().groupby("scenario", observed=True).mean()
        )
        for scenario, mean in means.items():
            assert series.loc[(scenario, "failed_requests"), "candidate"] == pytest.approx(mean)


def test_a_comparison_gates_what_is_named_and_its_frame_has_both_signs() -> None:
    series = rg.compare("0.24.0", "0.32.0", gate=["output_throughput"]).to_frame()
    assert set(series.loc[series["gated"], "metric"]) == {"output_throughput"}
    rates = series[series["gated"]]
    assert (rates["natural_change"] == -rates["change"]).all()
    times = series[series["metric"] == "ttft_median"]
    assert (times["natural_change"] == times["change"]).all()
    assert set(series["verdict"]) <= {"regression", "improvement", "within_margin", "undecided"}


class TestSamples:
    def test_each_request_carries_its_run_and_times_follow_the_definitions(self) -> None:
        trial = stored_runs.make_trial("a", samples=make_samples([[0.05, 0.15], [0.1]]))
        frame = samples_frame([make_run("1", "0.19.0", trial)], {0})
        assert frame["run"].nunique() == 1
        assert list(frame["request"]) == [0, 1]
        assert list(frame["e2el"]) == pytest.approx([0.3, 0.3])
        assert list(frame["tpot"]) == pytest.approx([0.1, 0.1])

    def test_a_failed_request_has_no_times(self) -> None:
        samples = replace(make_samples([[0.05], []]), ok=np.array([True, False]))
        frame = samples_frame([make_run("1", "0.19.0", stored_runs.make_trial("a", samples=samples))], {0})
        assert list(frame["ttft"].isna()) == [False, True]
        assert list(frame["e2el"].isna()) == [False, True]


class TestDecisions:
    def test_a_comparison_is_that_of_the_command_line(self) -> None:
        result = rg.compare("0.24.0", "0.32.0")
        assert (result.decision, result.exit_code) == ("pass", 0)
        document = json.loads(result.to_json())
        assert document["decision"] == "pass"
        assert len(result.to_frame()) == len(document["series"])
        assert rg.open_store().compare("0.24.0", "0.32.0").decision == "pass"

    def test_a_check_lists_the_issues_of_the_deployment(self) -> None:
        move = rg.check("0.20.0", baseline="0.19.1", deployment=MIXTRAL)
        assert move.decision == "fail"
        issues = move.to_frame()
        assert "VLLM-41306" in set(issues.loc[issues["blocks"], "id"])

    def test_html_carries_no_markup_from_outside(self) -> None:
        result = rg.compare("0.24.0", "0.32.0")
        hostile = result.result.model_copy(update={"advice": "<script>alert(1)</script>"})
        shown = rg.GateResult(hostile)._repr_html_()
        assert "<script>" not in shown
        assert "<strong>PASS</strong>" in shown

    def test_arguments_that_cannot_be_are_input_errors(self) -> None:
        with pytest.raises(rg.InputError, match="acelerator"):
            rg.check("0.20.0", deployment={"acelerator": "H200"})
        with pytest.raises(rg.NoDataError):
            rg.compare("0.24.0", "9.9.9")


class TestDetect:
    STEP = pd.DataFrame(
        {
            "day": pd.date_range("2026-01-01", periods=24),
            "value": [40.0, 41.0, 40.5] * 4 + [46.0, 47.0, 46.5] * 4,
        }
    )

    def test_a_frame_has_the_change_points_of_its_file(self, home: Path) -> None:
        self.STEP.to_csv(home / "t.csv", index=False)
        found = rg.detect(self.STEP, time="day", direction="lower")
        (row,) = found.to_frame().itertuples(index=False)
        assert (row.index, row.kind, bool(row.worse)) == (12, "step", True)
        assert found.decision == "changed"
        (from_file,) = rg.detect(home / "t.csv", time="day", direction="lower").to_frame().itertuples(index=False)
        assert from_file.index == row.index
        assert from_file.change == pytest.approx(row.change)

    @pytest.mark.parametrize("name", ["t.parquet", "t.xlsx"])
    def test_parquet_and_excel_are_read(self, home: Path, name: str) -> None:
        write = self.STEP.to_parquet if name.endswith("parquet") else self.STEP.to_excel
        write(home / name, index=False)
        assert list(rg.detect(home / name, time="day").to_frame()["index"]) == [12]

    @pytest.mark.parametrize(("name", "content"), [("t.parquet", b"PAR1 cut off"), ("t.xlsx", b"PK\x03\x04 cut off")])
    def test_a_damaged_file_is_refused_with_its_name(self, home: Path, name: str, content: bytes) -> None:
        (home / name).write_bytes(content)
        with pytest.raises(rg.InputError, match=name):
            rg.detect(home / name)

    def test_groups_are_columns_of_the_result(self) -> None:
        both = pd.concat([self.STEP.assign(gpu="a"), self.STEP.assign(gpu="b", value=40.0)])
        assert list(rg.detect(both, time="day", value="value", groups=["gpu"]).to_frame()["gpu"]) == ["a"]

    def test_a_steady_series_shows_no_change_and_not_that_there_is_none(self) -> None:
        steady = rg.detect(self.STEP.assign(value=[40.0, 41.0] * 12))
        assert steady.decision == "no_change_found"
        assert len(steady.to_frame()) == 0
        assert "no_change_found" in steady._repr_html_()


def test_the_examples_of_the_documentation_run() -> None:
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.S))
    assert "rg.detect" in code
    assert "VLLM-41306" in run_python(code)


def test_the_notebook_runs_from_top_to_bottom_and_holds_no_output() -> None:
    notebook = json.loads((ROOT / "docs/analysis.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    last_values = ["".join(cell["source"]) for cell in cells]
    run_python("\n".join(last_values) + "\nassert result.decision == 'pass'")


def test_an_audit_says_what_costs_speed_and_what_it_needs(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("INFO 11-21 02:11:13 [x.py:1] non-default args: {'model': 'm', 'enforce_eager': True}\n")
    found = rg.audit("0.24.0", server_log=log, deployment={"accelerator": "H100"})
    assert (found.decision, found.exit_code) == ("pass", 0)
    rows = found.to_frame().set_index("id")
    assert rows.loc["CG001", "answer"] == "fires"
    assert rows.loc["KV003", "needs"] == ["--metrics twice, some time apart and under load"]
    assert '"answer": "fires"' in found.to_json()
    assert "CG001" in found._repr_html_()
