"""constraints.txt fits pyproject.toml, and the audit of dependencies never claims what it did not do."""

import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.factories.scripts import load_script

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
EXTRAS = ("test", "tables", "postgresql", "gpu", "png", "browser", "workflows", "ray")
BUILD = PYPROJECT["build-system"]["requires"]
WANTED = [
    *BUILD,
    *PROJECT["dependencies"],
    *(line for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]),
]


def pins() -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for line in LINES:
        requirement = Requirement(line)
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@pytest.mark.parametrize("line", WANTED)
def test_every_dependency_is_pinned_to_a_version_that_it_allows(line: str) -> None:
    wanted = Requirement(line)
    for pin in pins()[canonicalize_name(wanted.name)]:
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        assert wanted.specifier.contains(specifier.version)


def test_the_image_and_the_action_know_all_that_a_wheel_is_made_of() -> None:
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], wheel["hooks"]["custom"]["path"], "pyproject.toml"}
    for name in ("README.md", "LICENSE"):  # the metadata's
        assert f"!{name}" in (ROOT / ".dockerignore").read_text().splitlines()
    assert needed <= {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    assert needed <= set(load_script("ci/install.py").PARTS)


def test_the_image_builds_the_wheel_with_what_is_pinned_and_has_all_that_a_host_needs() -> None:
    text = (ROOT / "ci" / "Dockerfile").read_text()
    command = text.partition("RUN python -m venv")[2].partition("\n\n")[0]
    assert "--constraint /source/constraints.txt" in command
    assert "$pip --no-build-isolation '/source[gpu,postgresql,ray]' uv" in command
    assert "['build-system']['requires']" in command


def test_constraints_name_no_host() -> None:
    assert not [line for line in LINES if "://" in line or "--" in line or "@" in line]


@pytest.fixture
def audit() -> ModuleType:
    return load_script(".ci/audit.py")


def program(folder: Path, packages: Any, code: int = 0) -> str:
    """A pip-audit that says this."""
    path = folder / "pip-audit"
    text = packages if isinstance(packages, str) else json.dumps({"dependencies": packages, "fixes": []})
    path.write_text(f"#!{sys.executable}\nprint({text!r})\nraise SystemExit({code})\n")
    path.chmod(0o755)
    return str(path)


GOOD = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited: b (1)"}
BAD = {"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2"]}]}


@pytest.mark.parametrize("packages", [[SKIPPED] * 9, [], [GOOD] * 5 + [SKIPPED] * 5, "no JSON", '{"other": 1}'])
def test_an_audit_without_answers_is_said_to_be_none(
    audit: ModuleType, packages: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for required in (False, True):
        assert audit.main(program(tmp_path, packages), required=required) == int(required)
        assert capsys.readouterr().out.startswith("NOT RUN: ")


def test_a_missing_program_is_said_to_be_none(audit: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main("/no/such/pip-audit", required=False) == 0
    assert capsys.readouterr().out.startswith("NOT RUN: ")


def test_a_vulnerability_fails_unless_it_is_judged(
    audit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = program(tmp_path, [GOOD] * 20 + [BAD], code=1)
    assert audit.main(asked, required=False) == 1
    assert capsys.readouterr().out.startswith("c 1: PYSEC-1, fixed in 2\n")
    audit.IGNORED["CVE-1"] = "not called"
    assert audit.main(asked, required=True) == 0
    assert "no known vulnerability in 21 of 21 packages; 1 judged as harmless" in capsys.readouterr().out
    audit.IGNORED["CVE-2"] = "gone"
    assert audit.main(asked, required=True) == 1
    assert "no longer needed in IGNORED: CVE-2" in capsys.readouterr().out
