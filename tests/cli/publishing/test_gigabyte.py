"""A forged artifact of a gigabyte: refused by a real process that could neither hold nor write that much."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from regress_gate.publish.artefact import MAX_BYTES
from tests.cli.publishing.conftest import FORK, OTHER_PULL, PULL, REPO, SHA, SOURCE_RUN, Workflow, result_of
from tests.factories.large_artifacts import GIGABYTE, zip_of_gigabytes

MEMORY, FILE = 640 << 20, 16 << 20
"""Bytes that the process may have, and write into one file."""
PROGRAM = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE}, {FILE}))
runpy.run_module("regress_gate", run_name="__main__")
"""
BUFFERS = 24 << 20
"""Bytes that the two ends of a connection may hold, and more."""


def packed(content: bytes) -> dict[str, Any]:
    return {"content": b64encode(content).decode(), "size_in_bytes": len(content)}


@pytest.mark.parametrize(
    ("artifact", "said"),
    [
        (lambda: packed(zip_of_gigabytes("gate.json")), "gate.json is larger than 16 MiB"),
        (lambda: packed(zip_of_gigabytes("gate.json", stated=1000)), "is not a usable zip file"),
        (
            lambda: packed(zip_of_gigabytes("versions.json", others={"gate.json": result_of("pass")})),
            "versions.json is larger than 16 MiB",
        ),
        (lambda: {"zeros": GIGABYTE, "size_in_bytes": 1000}, "larger than 5 MiB"),
        (lambda: {"zeros": GIGABYTE, "size_in_bytes": GIGABYTE}, "larger than 5 MiB"),
    ],
    ids=["unpacked", "unpacked, said to be small", "in the other file", "sent, said to be small", "as GitHub says"],
)
def test_a_gigabyte_is_refused_before_it_is_read(
    workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, artifact: Any, said: str
) -> None:
    workflow.state.add_pull(REPO, PULL, sha=SHA, head=FORK)
    workflow.state.add_pull(REPO, OTHER_PULL, sha="b" * 40, branch="other")
    workflow.workflow_run("fork")
    uploaded = workflow.state.add_artifact(REPO, SOURCE_RUN, "regress-gate", {}, **artifact())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    done = workflow.gate.process("ci", "publish", program=["-c", PROGRAM])
    assert (done.code, said in done.err) == (0, True), done.err
    assert workflow.check["conclusion"] == "action_required"
    assert uploaded["sent"] <= MAX_BYTES + BUFFERS
    assert workflow.written_elsewhere() == []
    assert list(scratch.iterdir()) == []


def test_the_bound_of_that_process_is_below_a_gigabyte(workflow: Workflow) -> None:
    bounds = PROGRAM.rpartition("runpy.")[0]
    done = workflow.gate.process(program=["-c", f"{bounds}bytes({GIGABYTE})"])
    assert "MemoryError" in done.err
