"""What is published, whatever the place: the outcome, its words, its findings, and whether anything changed.

Made from a result that may be forged: every text is raw here and escaped by who writes it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from regress_gate.errors import ExitCode, InputError
from regress_gate.model.result import Decision, Result
from regress_gate.publish.moved_pins import MovedPins
from regress_gate.report.document import Detail, Document, ItemList, Paragraph, Style, Styled, View
from regress_gate.report.findings import Finding, Findings, Level, Rule
from regress_gate.report.render.output_formats import RenderOptions, render
from regress_gate.report.views import wording
from regress_gate.report.views.result_view import ResultView
from regress_gate.report.views.servers_view import ServersView, worst_decision, worst_exit_code
from regress_gate.text import clip, one_line, plural

MAX_ANNOTATIONS = 10
"""As many as a step's workflow commands may have of each kind; a check run could have more, that nobody would read."""
REPORT_BYTES = 60_000
"""Of the report in a comment or a check run; the rest, up to GitHub's 65,536, is for what stands around it."""
LEAST_BYTES = 40 * 1024
"""What the shortest report may need."""
_LONGEST_TITLE = 200
_MOST = {"series": 20_000, "known_issues": 5_000, "reasons": 20_000, "waivers": 500, "warnings": 20_000}
_MOST_SERVERS = 200


class Outcome(StrEnum):
    """What the gate came to, with the two ends that are no decision."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    COULD_NOT_MEASURE = "could_not_measure"
    NOTHING_MOVED = "nothing_moved"

    @property
    def is_worth_a_comment(self) -> bool:
        """Whether a comment is made where there is none; an existing one follows every change."""
        return self not in (Outcome.PASS, Outcome.NOTHING_MOVED)


@dataclass(frozen=True, slots=True)
class NoticeView(View):
    """A title and a sentence, where there is no result."""

    title: str
    text: str
    style: Style

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        return Document(Styled(self.title, self.style), (Paragraph(self.text),))

    def data(self) -> Any:
        return {"title": self.title, "text": self.text}


@dataclass(frozen=True, slots=True)
class ServerListView(View):
    """Many servers, a line for each: for places that hold no report of each."""

    servers: ServersView
    most: int

    def document(self, detail: Detail) -> Document:
        ordered = sorted(self.servers.results, key=lambda one: _WORST_FIRST.index(one.decision))
        lines = [_server_line(one) for one in ordered[: self.most]]
        if rest := len(ordered) - len(lines):
            lines.append(f"and {plural(rest, 'more server')}")
        cut = Paragraph("The report of each server is too long for this place. Other formats have everything.")
        return Document(self.servers.document(detail).title, (ItemList(tuple(lines)), cut))

    def data(self) -> Any:
        return self.servers.data()


def _server_line(result: Result) -> str:
    name = "server" if result.deployment is None else result.deployment.name
    return f"{clip(name, 80)}: {wording.decision(result)}. {clip(result.advice, 200)}"


_WORST_FIRST = (Decision.FAIL, Decision.INCONCLUSIVE, Decision.PASS)


def markdown(view: View, max_bytes: int) -> str:
    """The report for GitHub, in at most so many bytes (of which there must be LEAST_BYTES)."""
    text = render(view, "markdown", RenderOptions(max_bytes=max_bytes))
    if len(text.encode()) <= max_bytes or not isinstance(view, ServersView):
        return text
    for most in (100, 50, 10):
        text = render(ServerListView(view, most), "markdown", RenderOptions(max_bytes=max_bytes))
        if len(text.encode()) <= max_bytes:
            break
    return text


@dataclass(frozen=True, slots=True)
class Publication:
    """One outcome, ready for every place."""

    outcome: Outcome
    exit_code: int
    """The gate's own; of `ci publish` it says nothing."""
    title: str
    """One line, raw."""
    view: View
    found: Findings
    """The findings are the worst first, each at the line of the pin that moved."""
    digest: str
    """Equal for two publications that say the same, whatever their numbers are."""
    report: str
    """Markdown of at most REPORT_BYTES, made once: that of 5,000 series takes a second."""

    @property
    def conclusion(self) -> str:
        """Of the check run. What the policy lets through (`--report-only`) is shown, and does not block."""
        if self.outcome is Outcome.COULD_NOT_MEASURE:
            return "action_required"
        if self.outcome in (Outcome.PASS, Outcome.NOTHING_MOVED):
            return "success"
        return "failure" if self.exit_code == ExitCode.FAIL else "neutral"

    @property
    def annotations(self) -> tuple[Finding, ...]:
        """At most MAX_ANNOTATIONS findings that have a line; the last one counts those that are left out.

        As with workflow commands, notes and what is waived have none.
        """
        loud = [one for one in self.found.findings if one.level is not Level.NOTE and one.suppression is None]
        placed = [one for one in loud if one.location is not None and one.location.line is not None]
        if len(placed) <= MAX_ANNOTATIONS:
            return tuple(placed)
        shown = placed[: MAX_ANNOTATIONS - 1]
        rest = f"{plural(len(placed) - len(shown), 'more finding')} in the job summary"
        rule = Rule(id="more", title="More findings", level=Level.NOTE)
        return (*shown, Finding(rule, Level.NOTE, "More findings", rest, location=placed[0].location))


def of_view(view: View, pins: MovedPins | None) -> Publication:
    """The publication of a result of `compare` or `check`. Raises InputError for any other view."""
    results = _results(view)
    if not results:
        raise InputError("is no result of `compare` or `check`", where="--result")
    if len(results) > _MOST_SERVERS:
        raise InputError(f"holds more than {_MOST_SERVERS} servers", where="--result")
    for name, most in _MOST.items():
        if sum(len(getattr(one, name)) for one in results) > most:
            raise InputError(f"holds more than {most} {name.replace('_', ' ')}", where="--result")
    if any(one.exit_code not in (ExitCode.PASS, ExitCode.FAIL, ExitCode.INCONCLUSIVE) for one in results):
        raise InputError("exit_code: is none of a decision", where="--result")
    found = view.findings()
    assert found is not None  # noqa: S101 - both kinds of view have them
    decision, exit_code = worst_decision(results), worst_exit_code(results)
    return Publication(
        outcome=Outcome(decision.value),
        exit_code=exit_code,
        title=clip(one_line(f"{found.headline} ({wording.versions(results[0])})"), _LONGEST_TITLE),
        view=view,
        found=_placed(found, pins),
        digest=_digest(decision, exit_code, *(_identity(one) for one in results), *_identities(found.findings)),
        report=markdown(view, REPORT_BYTES),
    )


def could_not_measure(text: str, pins: MovedPins | None) -> Publication:
    rule = Rule(id="could_not_measure", title="The gate could not measure", level=Level.WARNING)
    title = "COULD NOT MEASURE: no decision"
    said = f"{text} This is no verdict on the version."
    return _notice(Outcome.COULD_NOT_MEASURE, ExitCode.COULD_NOT_MEASURE, title, said, rule, pins)


def unknown_version(why: str, pins: MovedPins) -> Publication:
    """A pin moved to something that names no version: `latest`."""
    rule = Rule(id="unknown_version", title="The pin names no version", level=Level.WARNING)
    title = "INCONCLUSIVE: the pin names no version"
    return _notice(Outcome.INCONCLUSIVE, ExitCode.INCONCLUSIVE, title, why or f"{rule.title}.", rule, pins)


def _notice(
    outcome: Outcome, exit_code: ExitCode, title: str, text: str, rule: Rule, pins: MovedPins | None
) -> Publication:
    finding = Finding(rule, rule.level, rule.title, text)
    found = Findings("regress-gate", title, text, rule.level, findings=(finding,), category="ci")
    view = NoticeView(title, text, Style.WARNING)
    report = markdown(view, REPORT_BYTES)
    return Publication(outcome, exit_code, title, view, _placed(found, pins), _digest(outcome, text), report)


def nothing_moved(why: str) -> Publication:
    title = "PASS: no vLLM version moved"
    text = why or "No pin of a vLLM version was changed."
    view = NoticeView(title, text, Style.GOOD)
    found = Findings("regress-gate", title, text, Level.NOTE, category="ci")
    digest, report = _digest(Outcome.NOTHING_MOVED), markdown(view, REPORT_BYTES)
    return Publication(Outcome.NOTHING_MOVED, ExitCode.PASS, title, view, found, digest, report)


def _results(view: View) -> list[Result]:
    if isinstance(view, ResultView):
        return [view.result]
    return list(view.results) if isinstance(view, ServersView) else []


def _placed(found: Findings, pins: MovedPins | None) -> Findings:
    """Each finding at the line that brought it: the pin. Places in the result name files of the run."""
    place = pins.place if pins is not None else None
    return replace(found, findings=tuple(replace(one, location=place) for one in found.findings))


def _identity(result: Result) -> tuple[Any, ...]:
    base = None if result.baseline is None else result.baseline.version
    name = None if result.deployment is None else result.deployment.name
    return name, base, result.candidate.version, result.decision.value


def _identities(findings: tuple[Finding, ...]) -> list[Any]:
    """The set of findings: what they are and how much they matter, not how large their numbers are."""
    return sorted(
        json.dumps([one.rule.id, one.level.value, one.fingerprint, one.suppression is not None]) for one in findings
    )


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]
