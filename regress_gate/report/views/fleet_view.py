"""What is shown of several hosts of one class. Not for which of them is odd, which the statistics say."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from regress_gate.model.metric import Scale
from regress_gate.model.result import HostOut
from regress_gate.model.testbed import Testbed
from regress_gate.report.document import Block, Cell, Column, Detail, Paragraph, Row, Section, Style, Styled, Table
from regress_gate.report.views import units
from regress_gate.report.views.list_view import ListView
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.gate.host_effects import HostStatus

_BRIEF_HOSTS = 8
"""Hosts that a terminal lists without `-v`: those that differ first."""
_LEGEND = (
    "void, noise and level are of the newest runs; noise: between runs of one version in one session, the median of "
    "the series; level: + is slower than the mean of the class, over versions that hosts have in common; n: runs, "
    "sessions"
)


def hosts_section(hosts: Sequence[HostOut], detail: Detail) -> list[Block]:
    """The hosts of a comparison, those that differ from the others first; nothing for a single host."""
    if not hosts:
        return []
    most = detail.rows if detail.is_page or detail.verbose else _BRIEF_HOSTS
    ordered = sorted(hosts, key=lambda host: not host.notes)
    rows = [
        Row(
            (
                host.name,
                Cell(str(host.blocks)),
                Cell(units.change(host.level, Scale.RATIO), units.interval(host.level_interval)),
                Cell(units.change(host.change, Scale.RATIO), units.interval(host.change_interval)),
                Styled("differs", Style.WARNING) if host.notes else "",
            )
        )
        for host in ordered[:most]
    ]
    columns = (
        Column("HOST"),
        Column("BLOCKS"),
        Column("LEVEL", "INTERVAL"),
        Column("CHANGE", "INTERVAL"),
        Column(""),
    )
    rest = len(hosts) - len(rows)
    text = (
        "Means over the series that gate; + is slower. Level: the baseline, against the mean of the hosts; it cancels "
        "in every block."
    )
    more = [Paragraph(f"and {plural(rest, 'more host')}")] if rest > 0 else []
    return [Section("Hosts", (Table.of(columns, tuple(rows)), *more, Paragraph(Styled(text, Style.MUTED))))]


@dataclass(frozen=True, slots=True)
class FleetClass:
    """Hosts with the same hardware, and what their newest runs of one suite show."""

    suite: str
    machine: Testbed
    """One of them."""
    hosts: "tuple[HostStatus, ...]"
    runs: Mapping[str, int]
    """All that are stored, by host."""
    last: Mapping[str, datetime | None]
    """When each was measured last; None: not known."""
    confidence: float
    """Of the intervals."""


def status_list(classes: Sequence[FleetClass]) -> ListView:
    """`fleet status`: a line for each host and suite, and a remark for each host that has stepped away."""
    numbered = list(enumerate(classes, 1))
    return ListView(
        titles=("class", "host", "suite", "runs", "last", "void", "noise", "level"),
        rows=[_status_row(number, one, host) for number, one in numbered for host in one.hosts],
        name="Hosts",
        values={"schema_version": "1", "classes": [_class_values(one) for one in classes]},
        notes=[
            *(f"class {number}: {_machine_text(one.machine)}" for number, one in numbered),
            *(text for one in classes for host in one.hosts for text in step_texts(host, one.suite)),
            _LEGEND,
        ],
        empty="nothing is stored",
    )


def _status_row(number: int, one: FleetClass, host: "HostStatus") -> tuple[Any, ...]:
    last = one.last[host.name]
    noise = "n/a"
    if host.noise is not None and host.noise_interval is not None:
        low, high = host.noise_interval
        noise = f"{host.noise:.1%} [{100 * low:.1f}, {100 * high:.1f}] n={host.noise_runs}"
    level = "n/a"
    if host.level is not None:
        level = f"{units.change(host.level, Scale.RATIO)} {units.interval(host.level_interval)} n={host.sessions}"
    return (
        str(number),
        host.name,
        one.suite,
        str(one.runs[host.name]),
        "" if last is None else last.date().isoformat(),
        f"{host.void} of {host.runs}",
        noise,
        level,
    )


def step_texts(host: "HostStatus", suite: str) -> list[str]:
    """A line for each time that the host's level stepped away from the others'."""
    return [
        f"{host.name} stepped away from the others of its class in {suite}: {abs(step.change):.1%} "
        f"{'slower' if step.change > 0 else 'faster'} {units.interval(step.interval)} than before, relative to them"
        + ("" if step.since is None else f", since {step.since.date().isoformat()}")
        + f" (probability {step.probability:.0%})"
        for step in host.steps
    ]


def _machine_text(machine: Testbed) -> str:
    known = machine.facts
    gpus = " × ".join(str(known[key]) for key in ("accelerator_count", "accelerator") if key in known)
    cores = f"{known['cpu_count']} CPU cores" if "cpu_count" in known else ""
    return ", ".join(part for part in (gpus, str(known.get("cpu", "")), cores) if part) or "hardware not known"


def _class_values(one: FleetClass) -> dict[str, Any]:
    hosts = []
    for host in one.hosts:
        last = one.last[host.name]
        values = asdict(host)
        values["recent"] = {key: values.pop(key) for key in ("runs", "void", "failed", "sessions")}
        values["steps"] = [
            {**step, "since": None if step["since"] is None else step["since"].isoformat()} for step in values["steps"]
        ]
        stored = {"runs": one.runs[host.name], "last": None if last is None else last.isoformat()}
        hosts.append({"name": values.pop("name"), **stored, **values})
    return {"suite": one.suite, "machine": one.machine.facts, "confidence": one.confidence, "hosts": hosts}
