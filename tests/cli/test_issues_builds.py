"""`issues verify --builds`: records proved on the wheels of releases that a server on loopback sends by ranges."""

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from regress_gate.app import build_code
from regress_gate.bench.inspect import published_wheels
from regress_gate.bench.inspect.published_wheels import PublishedWheel
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.known.records.curation import lint_records
from regress_gate.known.records.releases import BUILDS_NAME, load_builds
from tests.bench.inspect.test_published_wheels import Server, served
from tests.cli.conftest import Gate
from tests.factories.records import affected, record_data, write

CODE = [{"file": "vllm/moe.py", "present": "slow_path"}]
SOURCES = {"0.19.1": "fast_path", "0.20.0": "slow_path", "0.21.0": "slow_path", "0.22.0": "fast_path"}
FOUND = affected({"introduced": "0.20.0"}, {"fixed": "0.22.0"})


def a_wheel(text: str, demand: str = "") -> bytes:
    """`demand`: the release and one requirement."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("vllm/_C.so", bytes(3 << 20))
        archive.writestr("vllm/moe.py", f"def choose():\n    return {text}\n")
        if demand:
            version, requirement = demand.split()
            archive.writestr(f"vllm-{version}.dist-info/METADATA", f"Name: vllm\nRequires-Dist: {requirement}\n")
    return content.getvalue()


class Index:
    """What the package index is asked for, and which of its wheels answer."""

    def __init__(self, wheels: dict[str, tuple[str, type[Server]]]):
        self.wheels, self.gone, self.asked = wheels, set[str](), list[str]()

    def find(self, distribution: str, version: str, _environ: Any) -> PublishedWheel:
        self.asked.append(f"{distribution} {version}")
        if version in self.gone or distribution != "vllm":
            raise ProvisionError("the index does not answer")
        return PublishedWheel(self.wheels[version][0], "")

    @property
    def sent(self) -> int:
        return sum(sum(server.sent) for _, server in self.wheels.values())


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with ExitStack() as stack:
        made = Index({version: stack.enter_context(served(a_wheel(text))) for version, text in SOURCES.items()})
        monkeypatch.setattr(published_wheels, "find_published", made.find)
        monkeypatch.setattr(build_code, "published_versions", lambda *_: ["0.5.5", *SOURCES])
        yield made


def records(gate: Gate, *changes: dict[str, Any]) -> Path:
    directory = gate.directory / "records"
    directory.mkdir(exist_ok=True)
    for change in changes or ({},):
        write(directory, record_data(**{"code": CODE, "affected": [FOUND], **change}))
    return directory


@pytest.mark.usefixtures("index")
def test_events_that_the_code_shows_pass(gate: Gate) -> None:
    done = gate("issues", "verify", "--builds", "--directory", records(gate))
    assert (done.code, done.err) == (0, "")
    row = next(line for line in done.out.splitlines() if line.startswith("VLLM-1"))
    assert "0.20.0 to 0.21.0" in row
    assert "0.20.0 to before 0.22.0" in row
    assert "1 record in 4 releases: the events of none disagree with the code" in done.out


def test_only_the_members_that_are_needed_are_fetched_and_only_once(gate: Gate, index: Index) -> None:
    directory = records(gate)
    gate("issues", "verify", "--builds", "--directory", directory)
    first = index.sent
    assert first < 4 * (3 << 20) / 2, "the wheels have 3 MiB each"
    again = gate("issues", "verify", "--builds", "--offline", "--directory", directory, "--releases", "0.19.1..0.22.0")
    assert index.sent == first
    assert again.code == 4, "offline, the releases of which nothing was read are not known"
    assert sorted(index.asked) == [f"vllm {version}" for version in SOURCES]


@pytest.mark.usefixtures("index")
def test_events_that_the_code_contradicts_exit_1_and_are_named(gate: Gate) -> None:
    wrong = affected({"introduced": "0.20.0"}, {"fixed": "0.21.0"})
    done = gate("issues", "verify", "--builds", "--directory", records(gate, {"affected": [wrong]}))
    assert done.code == 1
    assert "the events of 1 disagree with the code" in done.out
    answers = gate("issues", "verify", "--builds", "--directory", gate.directory / "records", "--format", "json").json
    assert answers["records"]["VLLM-1"] == {
        "has_fault": [["0.20.0", "0.21.0"]],
        "unknown": [],
        "disagreements": ["0.21.0"],
    }


def test_a_release_that_cannot_be_read_exits_4_and_the_others_are_shown(gate: Gate, index: Index) -> None:
    index.gone.add("0.21.0")
    done = gate("issues", "verify", "--builds", "--directory", records(gate))
    assert done.code == 4
    assert "0.21.0 was not read: the index does not answer" in done.out
    assert "1 record in 3 releases" in done.out


def test_an_index_without_any_answer_exits_4(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[str]:
        raise ProvisionError("pip does not find the versions of vllm")

    monkeypatch.setattr(build_code, "published_versions", refuse)
    done = gate("issues", "verify", "--builds", "--directory", records(gate))
    assert (done.code, done.out) == (4, "")


def test_a_requirement_is_read_from_the_metadata_of_each_wheel(gate: Gate, index: Index) -> None:
    pins = {"0.19.1": "torch==2.10.0", "0.20.0": "torch==2.11.0", "0.21.0": "torch==2.11.0"}
    with ExitStack() as stack:
        for version, pin in pins.items():
            index.wheels[version] = stack.enter_context(served(a_wheel("", f"{version} {pin}")))
        directory = records(gate, {"code": [{"requires": "torch", "version": "==2.11.*"}]})
        answers = gate("issues", "verify", "--builds", "--directory", directory, "--format", "json").json
    assert answers["records"]["VLLM-1"] == {
        "has_fault": [["0.20.0", "0.21.0"]],
        "unknown": [["0.22.0", "0.22.0"]],  # its wheel has no metadata
        "disagreements": [],
    }


@pytest.mark.usefixtures("index")
def test_the_table_is_kept_beside_the_records_and_the_lint_reads_it(gate: Gate) -> None:
    directory = records(gate)
    assert "2 events are shown neither" in gate("issues", "lint", directory).err
    assert gate("issues", "verify", "--builds", "--write", "--directory", directory).code == 0
    kept = json.loads((directory / BUILDS_NAME).read_text())
    assert kept["made_by"] == "regress-gate issues verify --builds --write"
    assert kept["releases"] == list(SOURCES)
    assert kept["records"]["VLLM-1"]["has_fault"] == [["0.20.0", "0.21.0"]]
    assert "shown neither" not in gate("issues", "lint", directory).err

    later = affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})
    done = gate("issues", "lint", records(gate, {"affected": [later]}), "--events")
    assert "warning: events and code disagree on 0.22.0: see `issues verify --builds VLLM-1`" in done.out
    assert "fixed 0.23.0 is shown neither by code nor by a named commit" in done.out
    assert done.code == 0

    done = gate("issues", "lint", records(gate, {"code": [{"file": "vllm/moe.py", "absent": "fast_path"}]}), "--events")
    assert len(done.out.splitlines()) == 2
    assert "introduced 0.20.0 is shown neither by code nor by a named commit; its code was not evaluated" in done.out


def test_a_table_with_holes_is_not_written(gate: Gate, index: Index) -> None:
    index.gone.add("0.21.0")
    directory = records(gate)
    done = gate("issues", "verify", "--builds", "--write", "--directory", directory)
    assert done.code == 4
    assert "0.21.0 was not read" in done.error
    assert load_builds(directory) is None


def test_what_is_no_table_is_an_error_of_the_lint(gate: Gate) -> None:
    directory = records(gate)
    (directory / BUILDS_NAME).write_text("[]")
    assert [message.what for message in lint_records(directory, today=date(2026, 11, 21))] == ["is no table of builds"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--builds", "VLLM-2"), "no record 'VLLM-2'"),
        (("--builds", "VLLM-3"), "VLLM-3 has no `code`"),
        (("--builds", "--releases", "new.."), "'new' is not a vLLM version"),
        (("--builds", "--releases", ".."), "'..' is no range"),
        (("--builds", "--releases", "0.30.0.."), "no release is in 0.30.0.."),
        (("--builds", "--write", "VLLM-1"), "the table is of all records and releases"),
        (("--write",), "--releases and --write need --builds"),
        ((), "name one VERSION"),
    ],
)
def test_what_cannot_be_verified_is_refused(
    gate: Gate, index: Index, arguments: tuple[str, ...], complaint: str
) -> None:
    directory = records(gate, {}, {"id": "VLLM-3", "code": []})
    done = gate("issues", "verify", *arguments, "--directory", directory)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err
    assert index.asked == []
