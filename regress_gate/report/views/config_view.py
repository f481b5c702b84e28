"""The report of `diff-config`: what breaks first, then defaults that changed, then the rest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind, package_rank
from regress_gate.gate.launch_line import LaunchTest
from regress_gate.model.deployment import Deployment
from regress_gate.model.result import DeploymentOut
from regress_gate.model.version import Version
from regress_gate.report.document import Block, Detail, Document, Pair, Pairs, Paragraph, Section, Style, Styled, View
from regress_gate.report.findings import (
    Case,
    Finding,
    Findings,
    Level,
    Outcome,
    Rule,
    deployment_key,
    place_in_deployment,
    worst_first,
)
from regress_gate.report.views.wording import setting, what_to_do
from regress_gate.text import plural
from regress_gate.vllm.release_tables import ReadRelease

_LONGEST_VALUE = 60
_LONGEST_REASON = 110
"""Of vLLM's text on a deprecation, where it is not the point."""
_UNKNOWN_PACKAGE = package_rank("")
_GONE = (ConfigChangeKind.FLAG_REMOVED, ConfigChangeKind.FLAG_RENAMED, ConfigChangeKind.FLAG_DEPRECATED)
_DEFAULTS = (ConfigChangeKind.DEFAULT_CHANGED, ConfigChangeKind.ENV_DEFAULT_CHANGED)
_ADDED = (ConfigChangeKind.FLAG_ADDED, ConfigChangeKind.ENV_ADDED)
_YOURS = "you set it"


@dataclass(frozen=True, slots=True)
class ConfigChangesView(View):
    """The changes between two builds, and whether the candidate takes the launch line."""

    baseline: Version
    candidate: Version
    deployment: Deployment
    launch: LaunchTest
    changes: Sequence[ConfigChange]
    server: DeploymentOut | None = None
    """The server of the deployment file; None without one."""

    def document(self, detail: Detail) -> Document:
        verdict, moves = self._verdict(), f"vLLM {self.baseline} → {self.candidate}"
        sections = change_sections(self.changes, everything=detail.verbose or detail.is_full, is_full=detail.is_full)
        content: list[Block] = list(sections) or [Paragraph("nothing has changed")]
        if detail.is_page:
            style = (
                Style.BAD if self.launch.problems else Style.GOOD if verdict and not self._affecting else Style.WARNING
            )
            headline = verdict or self._counted()
            title = Styled(headline[:1].upper() + headline[1:], style if verdict else Style.PLAIN)
            lead = what_to_do(self._advice())
            return Document(title, (lead, *content), subtitle=moves, name="Changed settings")
        if verdict:
            style = Style.BAD if self.launch.problems else Style.STRONG
            content.insert(0, Paragraph(Styled(verdict, style), is_lead=True))
        return Document(moves, tuple(content), name="Changed settings")

    @property
    def _affecting(self) -> list[ConfigChange]:
        return [one for one in self.changes if one.matters is ChangeRelevance.AFFECTS]

    def _counted(self) -> str:
        return f"{plural(len(self.changes), 'change')} between {self.baseline} and {self.candidate}"

    def _advice(self) -> str:
        if self.launch.problems:
            return f"Change the launch line before you move: {self.launch.problems[0].text}."
        if affecting := len(self._affecting):
            what = "change that may concern" if affecting == 1 else f"{affecting} changes that may concern"
            return f"Read the {what} this deployment before you move."
        if self._verdict() is None:
            return "Give your launch line (--serve-command or --deployment), so that it is tried and read beside this."
        return "Nothing is to be done."

    def _verdict(self) -> str | None:
        if any(not problem.ignored for problem in self.launch.problems):
            return f"your launch line would not start on {self.candidate}"
        if self.launch.problems:
            return f"{self.candidate} would start with your launch line, and ignore a part of it"
        is_given = self.deployment.engine_args or self.deployment.env
        return f"the arguments of your launch line are all taken by {self.candidate}" if is_given else None

    def data(self) -> dict[str, Any]:
        return {
            "schema_version": "1",
            "baseline": {"version": str(self.baseline)},
            "candidate": {"version": str(self.candidate)},
            "deployment": self.deployment.model_dump(mode="json"),
            "server": None if self.server is None else self.server.model_dump(mode="json"),
            "starts": all(problem.ignored for problem in self.launch.problems),
            "problems": [problem.text for problem in self.launch.problems],
            "untested": self.launch.untested or None,
            "config_changes": [change.as_document() for change in self.changes],
        }

    def findings(self) -> Findings:
        verdict = self._verdict()
        return Findings(
            name=f"diff-config: vLLM {self.baseline} → {self.candidate}",
            headline=verdict or self._counted(),
            advice=self._advice(),
            level=Level.ERROR if self.launch.problems else Level.NOTE,
            cases=tuple(_cases(self, verdict)),
            findings=worst_first(_findings(self)),
            category="diff-config",
        )


_LAUNCH_RULE = Rule(
    "launch_line", "The candidate does not take the launch line", Level.ERROR, tags=("vllm", "configuration")
)


def _mattering(view: ConfigChangesView) -> list[ConfigChange]:
    """The changes that have a case and a finding each: what only informs would be hundreds."""
    return [one for one in view.changes if one.matters is not ChangeRelevance.INFORMS]


def _extra_problems(view: ConfigChangesView) -> list[str]:
    """Problems of the launch line that no change says already."""
    said = [one.why for one in _mattering(view) if one.why]
    return [problem.text for problem in view.launch.problems if not any(problem.text in why for why in said)]


def _change_text(change: ConfigChange) -> str:
    return f"{change.name}: {change.why or _move(change)}"


def _cases(view: ConfigChangesView, verdict: str | None) -> Iterator[Case]:
    group = "launch line"
    if view.launch.problems:
        outcome, kind = Outcome.FAILURE, "launch_line"
    else:
        is_tried = verdict is not None and not view.launch.untested
        outcome, kind = (Outcome.PASSED, "") if is_tried else (Outcome.SKIPPED, "not_tried")
    message = verdict or "no launch line was given"
    details = [problem.text for problem in view.launch.problems] + [view.launch.untested] * bool(view.launch.untested)
    yield Case(group, "starts", outcome, kind, message, details=tuple(details))
    for text in _extra_problems(view):
        yield Case(group, text, Outcome.FAILURE, "launch_line", text)
    for change in _mattering(view):
        is_failure = change.matters is ChangeRelevance.BLOCKS
        outcome = Outcome.FAILURE if is_failure else Outcome.SKIPPED
        yield Case(group if is_failure else "changes", change.name, outcome, change.kind.value, _change_text(change))


def _findings(view: ConfigChangesView) -> Iterator[Finding]:
    for text in _extra_problems(view):
        yield Finding(
            _LAUNCH_RULE,
            Level.ERROR,
            _LAUNCH_RULE.title,
            text,
            location=place_in_deployment(view.server, text),
            fingerprint=(_LAUNCH_RULE.id, text, *deployment_key(view.server)),
        )
    for change in _mattering(view):
        is_failure = change.matters is ChangeRelevance.BLOCKS
        title = change.kind.value.replace("_", " ").capitalize()
        level = Level.ERROR if is_failure else Level.WARNING
        rule = Rule(change.kind.value, title, Level.WARNING, tags=("vllm", "configuration"))
        yield Finding(
            rule,
            level,
            f"{title}: {change.name}",
            _change_text(change),
            subject=change.name,
            location=place_in_deployment(view.server, change.name),
            fingerprint=(rule.id, change.name, *deployment_key(view.server)),
        )


def read_release_text(release: ReadRelease) -> str:
    """One line about a release that was read from its wheel."""
    config = release.config
    parts = [
        plural(sum("." not in name for name in config.arguments), "argument"),
        plural(len(config.env), "variable"),
        plural(len(config.requirements or release.cpu_requirements), "dependency", "dependencies"),
    ]
    unread = f"; not read: {'; '.join(config.unread)}" if config.unread else ""
    return f"{release.version}: {', '.join(parts)}{unread}"


def change_sections(
    changes: Sequence[ConfigChange], *, everything: bool = False, is_full: bool = False
) -> list[Section]:
    """The changes in the order of a report; without `everything`, new and hardly relevant ones are only counted.

    `is_full`: those are folded, and no text is cut.
    """

    def pick(*kinds: ConfigChangeKind, matters: ChangeRelevance | None = None) -> list[ConfigChange]:
        return [one for one in changes if one.kind in kinds and matters in (None, one.matters)]

    move, gone, value = (partial(text, longest=None) if is_full else text for text in (_move, _gone, _value))
    longest = None if is_full else _LONGEST_VALUE
    kinds = ConfigChangeKind
    blocking = [one for one in changes if one.matters is ChangeRelevance.BLOCKS]
    defaults = pick(*_DEFAULTS, matters=ChangeRelevance.AFFECTS)
    set_by_user = [one for one in pick(*_DEFAULTS) if one.why == _YOURS]
    listed = {id(one) for one in [*blocking, *defaults, *set_by_user]}
    ignored = [one for one in blocking if one.kind is kinds.ENV_REMOVED]
    yours = [one for one in pick(*_GONE, kinds.ENV_REMOVED, matters=ChangeRelevance.AFFECTS) if id(one) not in listed]
    listed |= {id(one) for one in yours}

    def rest(*kinds: ConfigChangeKind) -> list[ConfigChange]:
        return [one for one in pick(*kinds) if id(one) not in listed]

    dependencies = pick(kinds.DEPENDENCY_CHANGED)
    weighty = [one for one in dependencies if everything or package_rank(one.name) < _UNKNOWN_PACKAGE]
    added, idle = pick(*_ADDED), rest(*_DEFAULTS)
    removed_variables = rest(kinds.ENV_REMOVED)
    sections = [
        _section("Keeps your launch line from starting", [one for one in blocking if one not in ignored], _blocked),
        _section("Your variables that no longer have an effect", ignored, _why),
        _section("Taken by neither version", pick(kinds.LAUNCH_REFUSED, matters=ChangeRelevance.INFORMS), _why),
        _section("Yours, and no longer what they were", yours, _why),
        _section("Resolved otherwise from the same arguments", pick(kinds.RESOLVED_CHANGED), move),
        _section("Changed defaults of what you have not set", defaults, move),
        _section("Changed defaults of what you set", set_by_user, move),
        _section("Removed, renamed and deprecated arguments", rest(*_GONE), gone),
        _section("Changed choices and values", rest(kinds.CHOICES_CHANGED, kinds.VALUE_CHANGED), value),
    ]
    minor = [
        _section("Changed defaults of what is off or without effect", idle if everything else [], move, len(idle)),
        _section("Removed variables", removed_variables, lambda one: f"was {_short(one.before, longest)}")
        if everything
        else _names("Removed variables", removed_variables),
        _section("Dependencies", weighty, move, len(dependencies)),
        _section(
            "New arguments and variables",
            added if everything else [],
            lambda one: _short(one.after, longest),
            len(added),
        ),
    ]
    minor = [replace(section, is_folded=is_full) if section else None for section in minor]
    return [section for section in (*sections, *minor) if section is not None]


def _section(
    title: str, changes: Sequence[ConfigChange], text: Callable[[ConfigChange], str], size: int | None = None
) -> Section | None:
    """`size` counts the changes with those that are not listed; None: all are listed."""
    size = len(changes) if size is None else size
    blocks: list[Block] = [Pairs(tuple(Pair(one.name, text(one)) for one in changes))] if changes else []
    if hidden := size - len(changes):
        what = plural(hidden, "other", "others") if changes else plural(hidden, "change")
        text_ = f"{'and ' if changes else ''}{what}; --all lists {'it' if hidden == 1 else 'them'}"
        blocks.append(Paragraph(Styled(text_, Style.MUTED)))
    return Section(f"{title} ({size})", tuple(blocks)) if blocks else None


def _names(title: str, changes: Sequence[ConfigChange]) -> Section | None:
    names = ", ".join(one.name for one in changes)
    return Section(f"{title} ({len(changes)})", (Paragraph(names),)) if changes else None


def _short(value: Any, longest: int | None = _LONGEST_VALUE) -> str:
    """Cut beyond that many characters; None: in full."""
    text = setting(value)
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _move(change: ConfigChange, longest: int | None = _LONGEST_VALUE) -> str:
    if change.kind is ConfigChangeKind.DEPENDENCY_CHANGED:
        return f"{change.before or 'not there'} → {change.after or 'not there'}"
    return f"{_short(change.before, longest)} → {_short(change.after, longest)}"


def _why(change: ConfigChange) -> str:
    return change.why or _move(change)


def _blocked(change: ConfigChange) -> str:
    if change.kind is ConfigChangeKind.FLAG_RENAMED:
        return f"now {change.after}"
    return "this argument was removed" if change.kind is ConfigChangeKind.FLAG_REMOVED else _why(change)


def _gone(change: ConfigChange, longest: int | None = _LONGEST_REASON) -> str:
    if change.kind is ConfigChangeKind.FLAG_RENAMED:
        return f"now {change.after}"
    if change.kind is ConfigChangeKind.FLAG_DEPRECATED:
        return f"deprecated: {_short(change.why, longest)}"
    return "removed" + (f": {_short(change.why, longest)}" if change.why else "")


def _value(change: ConfigChange, longest: int | None = _LONGEST_VALUE) -> str:
    if change.kind is ConfigChangeKind.VALUE_CHANGED:
        return f"values taken: {_move(change, longest)}"
    return change.why or f"now one of {_short(', '.join(change.after), longest)}"
