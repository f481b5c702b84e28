"""The formats by name, and what importing them costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.report import FORMATS, Source, find_format, format_names
from tests.factories.results import passing, render_result


@pytest.mark.parametrize("name", format_names())
def test_every_format_renders_text_that_ends_in_one_newline(name: str) -> None:
    text = render_result(passing(), name)
    assert text.strip()
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_an_unknown_format_names_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"--format: unknown format 'markdow' \(did you mean 'markdown'\?\)"):
        render_result(passing(), "markdow")


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, regress_gate.report; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rich", "pydantic", "numpy", "yaml"} & set(loaded)


NEW_FORMAT = """
from regress_gate.report.document import Detail

def render(view, options):
    return f"<h1>{view.document(Detail()).title.text}</h1>\\n"
"""
ONE_LINE_MORE = """
import sys
from regress_gate.report import FORMATS, Source, find_format, format_names, OutputFormat
FORMATS["headline"] = OutputFormat("headline_format:render")
from regress_gate.cli.main import run
sys.exit(run())
"""


def test_a_module_and_a_line_in_the_registry_add_a_format_to_every_command(tmp_path: Path) -> None:
    (tmp_path / "headline_format.py").write_text(NEW_FORMAT)
    arguments = ["check", "v0.20.0", "--offline", "--format", "headline", "--output", "headline:out.html"]
    done = subprocess.run(
        [sys.executable, "-c", ONE_LINE_MORE, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("<h1>INCONCLUSIVE: not decided"), done.stderr
    assert (tmp_path / "out.html").read_text() == done.stdout


def test_a_format_belongs_to_what_it_is_made_from() -> None:
    assert set(format_names()) >= {"table", "json", "markdown"}
    assert not set(format_names()) & {"llm-d", "csv", "parquet", "xlsx"}
    assert set(format_names(Source.RUNS)) >= {"llm-d", "csv", "parquet", "xlsx"}
    with pytest.raises(InputError, match=r"--output: unknown format 'xlsx'"):
        find_format("xlsx", where="--output")


@pytest.mark.parametrize("name", FORMATS)
def test_every_line_of_the_registry_names_something_that_exists(name: str) -> None:
    assert FORMATS[name].load()
