"""Part of the report of `compare`: what the audit finds on the servers of one side and not on those of the other.

Not for one deployment, whose report is `audit_view`.
"""

from collections.abc import Sequence

from regress_gate.model.result import AuditEffect, AuditFindingOut, Result
from regress_gate.report.document import Block, Detail, Entry, EntryList, Pair, Paragraph, Section
from regress_gate.text import plural

_MOST_IN_BRIEF = 4
_TITLES = {AuditEffect.NEW: "New on the candidate's servers", AuditEffect.RESOLVED: "Gone from the candidate's servers"}
_SAID_ELSEWHERE = ("argument_changed:", "backend_changed:", "setting_changed:", "library_changed:")
"""Differences that the changed settings and the causes of regressions name."""


def server_findings_sections(result: Result, detail: Detail) -> list[Block]:
    """What is new, and what is gone; none where nothing is."""
    return [
        Section(title, tuple(blocks))
        for effect, title in _TITLES.items()
        if (blocks := _blocks(_shown(result, effect), effect, detail))
    ]


def findings_left_out(result: Result, detail: Detail) -> int:
    """How many findings a page has no room for."""
    return sum(max(0, len(_shown(result, effect)) - detail.lines) for effect in _TITLES if detail.lines is not None)


def _shown(result: Result, effect: AuditEffect) -> list[AuditFindingOut]:
    """Each thing once: rules with the most severe first, then other differences."""
    found = [one for one in result.audit if one.effect is effect and not one.id.startswith(_SAID_ELSEWHERE)]
    said = {name for one in found for name in one.same_as}
    return sorted((one for one in found if one.id not in said), key=lambda one: one.severity is None)


def _blocks(findings: Sequence[AuditFindingOut], effect: AuditEffect, detail: Detail) -> list[Block]:
    is_brief = not (detail.is_page or detail.verbose)
    shown = findings[: _MOST_IN_BRIEF if is_brief else detail.lines]
    entries = [
        Entry(
            (one.id,) if one.severity is None else (f"{one.id}, {one.severity}",),
            one.text,
            pairs=() if is_brief else _pairs(one, effect),
            is_short=is_brief,
        )
        for one in shown
    ]
    blocks: list[Block] = [EntryList(tuple(entries))] if entries else []
    if is_brief and (more := len(findings) - len(shown)):
        blocks.append(Paragraph(f"and {plural(more, 'more finding')}: -v and --format json have all"))
    return blocks


def _pairs(one: AuditFindingOut, effect: AuditEffect) -> tuple[Pair, ...]:
    pairs = [Pair("seen", text) for text in one.evidence]
    if effect is AuditEffect.NEW:
        pairs += [Pair("costs you", one.costs)] if one.costs else []
        pairs += [Pair("what to do", one.remedy)] if one.remedy else []
    return tuple(pairs)
