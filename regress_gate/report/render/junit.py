"""The cases of a result as JUnit XML, for Jenkins, GitLab and whatever else reads test reports.

One test suite for each scenario. There is no standard: what is written here is what Jenkins' schema (junit-10.xsd), the
elements that GitLab documents and junitparser have in common. So the numbers are properties of the suite, named
`METRIC.NUMBER`: Jenkins' schema lets a case have none.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET  # nosec B405 - written, never read

from regress_gate.report.document import View
from regress_gate.report.findings import Case, Findings, Outcome
from regress_gate.report.render.output_formats import RenderOptions, findings_of
from regress_gate.text import one_line

_MOST_MESSAGE = 2000
"""Characters of an attribute; the element's text has everything."""


def render(view: View, options: RenderOptions) -> str:  # noqa: ARG001 - the same for every reader
    return write(findings_of(view, "junit"))


def write(found: Findings) -> str:
    root = ET.Element("testsuites", {"name": _text(found.name), **_counts(found.cases, with_skipped=False)})
    timestamp = {} if found.created is None else {"timestamp": found.created.isoformat(timespec="seconds")}
    for group, cases in _groups(found.cases).items():
        suite = ET.SubElement(root, "testsuite", {"name": group, **_counts(cases), **timestamp})
        _add_properties(suite, cases)
        for case in cases:
            _add_case(suite, case)
    ET.indent(root)
    xml = ET.tostring(root, encoding="unicode")
    # The same XML to every parser, and no workflow command to GitHub, if a step prints the file.
    xml = xml.replace("##[", "#&#35;[")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}\n'


def _groups(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """By group, in the order in which the groups begin, with clean names that are unique in their group.

    A name that its group had before gets a number: readers take equal names for one case.
    """
    groups: dict[str, list[Case]] = {}
    taken: set[tuple[str, str]] = set()
    counts: Counter[tuple[str, str]] = Counter()
    for case in cases:
        group = _text(case.group) or "unnamed"
        wanted = name = _text(case.name) or "unnamed"
        while (group, name) in taken:
            counts[group, wanted] += 1
            name = f"{wanted} ({counts[group, wanted] + 1})"
        taken.add((group, name))
        groups.setdefault(group, []).append(replace(case, group=group, name=name))
    return groups


def _counts(cases: Sequence[Case], *, with_skipped: bool = True) -> dict[str, str]:
    outcomes = [case.outcome for case in cases]
    counts = {
        "tests": len(outcomes),
        "failures": outcomes.count(Outcome.FAILURE),
        "errors": outcomes.count(Outcome.ERROR),
    }
    if with_skipped:
        counts["skipped"] = outcomes.count(Outcome.SKIPPED)
    return {name: str(count) for name, count in counts.items()}


def _add_properties(suite: ET.Element, cases: Sequence[Case]) -> None:
    numbers = [(f"{case.name}.{name}", str(value)) for case in cases for name, value in case.numbers]
    if not numbers:
        return
    properties = ET.SubElement(suite, "properties")
    for name, value in numbers:
        ET.SubElement(properties, "property", {"name": name, "value": _text(value)})


def _add_case(suite: ET.Element, case: Case) -> None:
    element = ET.SubElement(suite, "testcase", {"classname": case.group, "name": case.name})
    lines = [_text(line) for line in (case.message, *case.details) if line]
    if case.outcome is Outcome.PASSED:
        if lines:
            ET.SubElement(element, "system-out").text = "\n".join(lines)
        return
    attributes = {"message": _text(case.message)[:_MOST_MESSAGE]}
    if case.kind:
        attributes["type"] = _text(case.kind)
    ET.SubElement(element, case.outcome.value, attributes).text = "\n".join(lines)


def _text(text: str) -> str:
    """On one line, without what XML cannot hold: control characters, lone surrogates, secrets."""
    return one_line(text)
