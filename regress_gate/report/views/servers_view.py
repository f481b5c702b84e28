"""The report of a check of several servers: one result after the other, under the worst of their decisions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from regress_gate import __version__
from regress_gate.errors import ExitCode
from regress_gate.model.result import Decision, Result
from regress_gate.report.document import Block, Detail, Document, Paragraph, Section, Style, Styled, View
from regress_gate.report.findings import Findings, worst_first, worst_level
from regress_gate.report.views.result_findings import result_findings
from regress_gate.report.views.result_view import ResultView
from regress_gate.text import plural

_WORST_FIRST = (Decision.FAIL, Decision.INCONCLUSIVE, Decision.PASS)
_STYLE = {Decision.PASS: Style.GOOD, Decision.FAIL: Style.BAD, Decision.INCONCLUSIVE: Style.WARNING}
_EXIT_CODES = (ExitCode.FAIL, ExitCode.INCONCLUSIVE, ExitCode.PASS)


def worst_decision(results: Sequence[Result]) -> Decision:
    """Fail before inconclusive before pass."""
    return next(decision for decision in _WORST_FIRST if any(one.decision is decision for one in results))


def worst_exit_code(results: Sequence[Result]) -> int:
    """Like the decision, of the exit codes, which a policy may change."""
    return next(code for code in _EXIT_CODES if any(one.exit_code == code for one in results))


@dataclass(frozen=True, slots=True)
class ServersView(View):
    """At least one result; each has its deployment."""

    results: Sequence[Result]
    ascii_json: ClassVar[bool] = True

    def document(self, detail: Detail) -> Document:
        title = Styled(self._title(), _STYLE[worst_decision(self.results)])
        return Document(title, tuple(_section(result, detail) for result in self.results), name="Known issues")

    def _title(self) -> str:
        counts = Counter(one.decision for one in self.results)
        counted = ", ".join(f"{counts[decision]} {decision}" for decision in _WORST_FIRST if counts[decision])
        return f"{worst_decision(self.results).upper()}: {plural(len(self.results), 'server')}, {counted}"

    def findings(self) -> Findings:
        """Of all servers; the groups of their cases begin with the server's name."""
        parts = [(result, result_findings(result)) for result in self.results]
        cases = (
            replace(case, group=f"{result.deployment.name}: {case.group}" if result.deployment else case.group)
            for result, part in parts
            for case in part.cases
        )
        worst = worst_decision(self.results)
        return Findings(
            name=parts[0][1].name,
            headline=self._title(),
            advice=next(result.advice for result in self.results if result.decision is worst),
            level=worst_level(part.level for _, part in parts),
            cases=tuple(cases),
            findings=worst_first(finding for _, part in parts for finding in part.findings),
            created=parts[0][1].created,
            category=parts[0][1].category,
            tool_version=parts[0][1].tool_version,
        )

    def data(self) -> dict[str, Any]:
        """One object for each server, as a check of it alone would print it."""
        return {
            "schema_version": "1",
            "tool_version": __version__,
            "decision": worst_decision(self.results).value,
            "exit_code": worst_exit_code(self.results),
            "deployments": [ResultView(result).data() for result in self.results],
        }


def _section(result: Result, detail: Detail) -> Section:
    part = ResultView(result).document(detail)
    name = "" if result.deployment is None else f"{result.deployment.name} ({result.deployment.where})"
    blocks: list[Block] = [Paragraph(part.title), *([Paragraph(part.subtitle)] if part.subtitle else []), *part.blocks]
    return Section(name, tuple(blocks))
