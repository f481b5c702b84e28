"""Stored runs as tables for pandas and spreadsheets."""

import io
import subprocess
import sys

import openpyxl
import pandas as pd
import pytest

from regress_gate.errors import InputError
from regress_gate.report import Source, find_format
from regress_gate.report.render.run_tables import quoted_cell, run_frame
from tests.factories.runs import make_run, make_trial

FORMULA = '=HYPERLINK("https://evil.example","x")'


def runs():
    trial = make_trial("chat", ttft_median=0.25, output_throughput=1000.0)
    trial.workload["note"] = FORMULA
    trial.workload["mixed"] = 1
    other = make_trial("chat", ttft_median=0.5)
    other.workload["mixed"] = "many"
    return [make_run("1", "0.19.0", trial), make_run("2", "0.19.1", other)]


def content(name):
    return find_format(name, Source.RUNS).load().content(runs())


def medians(frame):
    return frame[frame["metric"] == "ttft_median"]["value"].tolist()


def test_a_row_is_a_value_with_its_unit_and_its_run():
    frame = run_frame(runs())
    assert {"version", "testbed", "suite", "scenario", "run", "trial", "metric", "value", "unit"} <= set(frame.columns)
    assert medians(frame) == [0.25, 0.5]
    assert set(frame[frame["metric"] == "ttft_median"]["unit"]) == {"s"}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("csv", lambda text: pd.read_csv(io.StringIO(text))),
        ("parquet", lambda data: pd.read_parquet(io.BytesIO(data))),
        ("xlsx", lambda data: pd.read_excel(io.BytesIO(data))),
    ],
)
def test_other_programs_read_the_same_values(name, read):
    frame = read(content(name))
    assert medians(frame) == [0.25, 0.5]
    assert [str(version) for version in frame["version"].unique()] == ["0.19.0", "0.19.1"]


def test_no_cell_of_a_spreadsheet_is_a_formula():
    sheet = openpyxl.load_workbook(io.BytesIO(content("xlsx"))).active
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert f"'{FORMULA}" in {cell.value for cell in cells}
    assert not [cell for cell in cells if cell.data_type == "f"]
    assert FORMULA not in pd.read_csv(io.StringIO(content("csv"))).to_numpy()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_text_that_begins_like_a_formula_is_quoted(text):
    assert quoted_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1.5, 3, None, "a=b", "0.19.1"])
def test_other_cells_stay_as_they_are(value):
    assert quoted_cell(value) == value


def test_pandas_is_imported_when_a_table_is_written():
    script = "import sys, regress_gate.report.render.run_tables; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("name", "library"), [("parquet", "pyarrow"), ("xlsx", "openpyxl")])
def test_a_missing_library_is_named_with_the_command_that_installs_it(name, library, monkeypatch):
    def refuse(*_arguments, **_options):
        raise ImportError(f"no {library}")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", refuse)
    monkeypatch.setattr(pd.DataFrame, "to_excel", refuse)
    with pytest.raises(InputError, match=rf"needs {library}.*vllm-regress-gate\[tables\]"):
        content(name)
