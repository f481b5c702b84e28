"""The formats by name, and what importing them costs."""

import subprocess
import sys

import pytest

from regress_gate.errors import InputError
from regress_gate.report import FORMATS
from tests.factories.results import passing, render_result


@pytest.mark.parametrize("name", FORMATS)
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
