"""What the formats print, as files to be read in a review. `pytest --snapshot-update` writes them anew."""

from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from regress_gate.model.result import Result
from regress_gate.report import RenderOptions, render
from regress_gate.report.views.audit_view import AuditView
from tests.factories.audits import a_log, an_audit, observed
from tests.factories.results import EVERY_KIND, render_result

from .golden import golden

kinds = pytest.mark.parametrize("build", EVERY_KIND.values(), ids=EVERY_KIND)


@kinds
@pytest.mark.parametrize("width", [60, 80, 140])
def test_table(build: Callable[[], Result], width: int, snapshot: SnapshotAssertion) -> None:
    assert render_result(build(), "table", RenderOptions(width=width)) == golden(snapshot, "txt")


@pytest.mark.parametrize(
    "options",
    [RenderOptions(verbose=True), RenderOptions(encoding="ascii"), RenderOptions(color=True)],
    ids=["verbose", "ascii", "color"],
)
def test_table_for_other_readers(options: RenderOptions, snapshot: SnapshotAssertion) -> None:
    assert render_result(EVERY_KIND["fail"](), "table", options) == golden(snapshot, "txt")


@kinds
def test_markdown(build: Callable[[], Result], snapshot: SnapshotAssertion) -> None:
    assert render_result(build(), "markdown") == golden(snapshot, "md")


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "crowded"])
def test_json(kind: str, snapshot: SnapshotAssertion) -> None:
    assert render_result(EVERY_KIND[kind](), "json") == golden(snapshot, "json")


def audited() -> AuditView:
    """Findings that block and that do not, and rules that lack a fact."""
    log = a_log("Using default MoE config. Performance might be sub-optimal! Config file not found at /x.json")
    config = {"num_attention_heads": 32, "hidden_size": 4096, "num_local_experts": 8}
    return AuditView([an_audit(observed(log=log, config=config, engine_args={"tensor_parallel_size": 6}))])


@pytest.mark.parametrize("width", [60, 140])
def test_table_of_an_audit(width: int, snapshot: SnapshotAssertion) -> None:
    assert render(audited(), "table", RenderOptions(width=width)) == golden(snapshot, "txt")


def test_markdown_of_an_audit(snapshot: SnapshotAssertion) -> None:
    assert render(audited(), "markdown") == golden(snapshot, "md")
