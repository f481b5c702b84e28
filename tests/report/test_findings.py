"""Every view in every format: it is written, or refused for a reason that is documented."""

import pytest

from regress_gate.errors import InputError
from regress_gate.report import OF_A_REPORT, Source, format_names, render
from regress_gate.report.findings import Level
from regress_gate.report.render.output_formats import render_content
from tests.factories.findings import WITH_FINDINGS, some_config_changes
from tests.factories.views import EVERY_VIEW

NEEDS_FINDINGS = format_names(Source.FINDINGS)


@pytest.mark.parametrize("name", format_names(*OF_A_REPORT))
@pytest.mark.parametrize("kind", EVERY_VIEW)
def test_a_view_is_written_in_a_format_or_says_which_it_has(kind: str, name: str) -> None:
    view = EVERY_VIEW[kind]("x")
    if name in NEEDS_FINDINGS and kind not in WITH_FINDINGS:
        with pytest.raises(InputError, match=f"{name} is for reports in which something passes or fails; choose table"):
            render(view, name)
        return
    try:
        assert render_content(view, name)
    except InputError as refusal:
        assert "this report has no picture" in str(refusal)  # noqa: PT017
        assert name in format_names(Source.FIGURES)


def test_findings_come_with_the_worst_first_and_a_fingerprint_each() -> None:
    for kind in WITH_FINDINGS:
        found = EVERY_VIEW[kind]("x").findings()
        assert found is not None
        levels = [list(Level).index(one.level) for one in found.findings]
        assert levels == sorted(levels)
        assert all(one.fingerprint for one in found.findings)


def test_a_problem_of_the_launch_line_is_told_once() -> None:
    found = some_config_changes().findings()
    assert [one.text for one in found.findings] == ["--gone: 0.20.0 has no --gone", "--max-num-seqs: 256 → 512"]
