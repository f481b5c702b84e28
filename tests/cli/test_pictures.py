"""Pictures of a result as files: which commands write them, and what keeps one from being written."""

import json
import os
import pty
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

PASSING = ("compare", "v0.19.0", "v0.19.1")
"""Of the shipped baselines."""


def title_of(path):
    return ET.parse(path).getroot()[0].text


def test_a_comparison_writes_the_picture_that_is_named(gate):
    paths = {name: gate.directory / f"{name}.svg" for name in ("intervals", "runs", "distributions")}
    for name, path in paths.items():
        done = gate(*PASSING, "--output", f"svg:{path}", "--figure", name, "-q")
        assert (done.code, done.out, done.err) == (0, "", "")
    assert [title_of(path) for path in paths.values()] == [
        "Change of each gated series against its margin",
        "Every run in the order of time",
        "How long requests take, at each percentile",
    ]
    assert len(ET.parse(paths["runs"]).getroot().findall(".//{*}path/{*}title")) == 8 * 12, "each run in eight panels"


def test_a_picture_without_data_says_so_and_the_decision_stands(gate):
    path = gate.directory / "since.svg"
    done = gate(*PASSING, "--output", f"svg:{path}", "--figure", "since", "-q")
    assert (done.code, done.err) == (0, "")
    assert "No series got worse, or no stored version lies between the two." in path.read_text()


def test_the_version_of_an_older_step_is_pictured(gate):
    for version, speed in (("v0.32.0", 1.34), ("v0.24.0", 1.34), ("v0.19.1", 1.0)):
        assert gate.import_starts(version, speed=speed).code == 0
    path = gate.directory / "since.svg"
    assert gate("compare", "v0.19.1", "v0.32.0", "--output", f"svg:{path}", "--figure", "since", "-q").code == 1
    assert "this step came with 0.24.0, not with 0.32.0" in path.read_text()


def test_a_png_is_written_and_printed_as_bytes(gate):
    path = gate.directory / "intervals.png"
    assert gate(*PASSING, "--output", f"png:{path}", "-q").code == 0
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    printed = gate.process(*PASSING, "--format", "png", text=False, encoding=None)
    assert printed.out == path.read_bytes()


@pytest.mark.parametrize("command", [PASSING, ("report", "result.json")], ids=lambda command: command[0])
def test_an_unknown_picture_is_refused_before_any_work_with_the_names_of_all(gate, command):
    done = gate(*command, "--format", "svg", "--figure", "interval")
    assert done.code == 2
    assert "'interval' is not one of 'intervals', 'runs', 'distributions', 'loads', 'since'" in done.error


def test_a_check_has_no_picture_to_offer(gate):
    done = gate("check", "v0.19.1", "--format", "svg")
    assert done.code == 2
    assert "'svg' is not one of" in done.error


def test_png_is_refused_on_a_terminal_before_any_work():
    reader, terminal = pty.openpty()
    arguments = [sys.executable, "-m", "regress_gate", "compare", "nothing", "stored", "--format", "png"]
    done = subprocess.run(arguments, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False)
    os.close(terminal)
    os.close(reader)
    assert done.returncode == 2
    assert done.stderr == (
        "regress-gate: error: --format: png is binary and cannot be printed on a terminal; write --output png:FILE, or "
        "redirect the output to a file\n"
    )


WITHOUT_RESVG = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "resvg_py" else find(name, package)
from regress_gate.cli.main import run
run(sys.argv[1:])
"""


def test_without_resvg_the_error_says_what_to_install():
    arguments = [sys.executable, "-c", WITHOUT_RESVG, *PASSING, "--output", "png:x.png"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("--output: png needs a package that is not installed; pip install 'vllm-regress-gate[png]'")


def test_a_stored_result_is_pictured_again_and_an_older_one_has_what_it_holds(gate):
    stored = gate.directory / "result.json"
    assert gate(*PASSING, "--output", f"json:{stored}", "-q").code == 0
    again = gate("report", stored, "--format", "svg", "--figure", "runs")
    assert "Every run in the order of time" in again.out
    old = gate(*PASSING, "--format", "json").json
    del old["runs"], old["distributions"]
    for series in old["series"]:
        del series["run_values"]
    stored.write_text(json.dumps(old))
    assert "Change of each gated series" in gate("report", stored, "--format", "svg").out
    assert "holds no data for this picture" in gate("report", stored, "--format", "svg", "--figure", "runs").out


def test_a_history_is_pictured_with_its_changes(gate):
    path = gate.directory / "history.svg"
    assert gate("history", "--detect", "--output", f"svg:{path}").code == 0
    text = path.read_text()
    assert title_of(path) == "Series and where they changed"
    assert "1: step of" in text
    assert "GiB, lower is better" in text


def test_a_history_marks_the_known_issues_of_the_deployment_at_the_metrics_that_they_change(gate):
    for version in ("v0.10.0", "v0.9.1", "v0.9.0"):
        assert gate.import_starts(version).code == 0
    # VLLM-20387: less throughput on Power10 in 0.9.1 and 0.9.2, fixed in 0.10.0.
    (gate.directory / "regress-gate.toml").write_text('[deployment]\naccelerator = "Power10"\n')
    metrics = ("--metric", "ttft_median", "--metric", "output_throughput")
    drawn = gate("history", "--detect", *metrics, "--format", "svg").out
    assert drawn.count(">VLLM-20387 begins</text>") == drawn.count(">VLLM-20387 ends</text>") == 1
    assert "VLLM-20387" not in gate("history", "--detect", *metrics[:2], "--format", "svg").out


def test_a_table_is_pictured_with_its_change_points(gate):
    rows = [f"{day},{100 + day % 3 + (12 if day > 20 else 0)}" for day in range(40)]
    (gate.directory / "nightly.csv").write_text("\n".join(["day,ms", *rows]))
    done = gate("detect", gate.directory / "nightly.csv", "--value", "ms", "--time", "day", "--format", "svg")
    assert done.code == 0
    assert "Across: day." in done.out
    assert "at 21, between" in done.out
