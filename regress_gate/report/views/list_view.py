"""Plain lists for people and for pipes, one thing a line: stored versions and their runs, the log of a store,
environments, waivers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from regress_gate.report.document import Column, Detail, Document, Paragraph, Row, Table, View
from regress_gate.text import plural, sanitise

if TYPE_CHECKING:
    from regress_gate.bench.provision.environment_cache import CacheEntry, EntryState
    from regress_gate.model.policy import Waiver
    from regress_gate.model.run import Run
    from regress_gate.store.store_interface import Holding, LogEntry


@dataclass(frozen=True, slots=True)
class ListView(View):
    """A table without rules; a row is never wrapped, so that `grep` and `cut` work on it."""

    titles: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Numbers stand right; None is `not set`."""
    name: str = ""
    """Title of a page with this list; other formats show none."""
    values: Any = None
    """What `--format json` prints."""
    empty: str = ""
    """Printed instead of a table without rows; without it, the titles are."""
    notes: Sequence[str] = ()
    """Lines below the table."""
    optional: Sequence[str] = ()
    """Titles of columns that are left out where the width is small."""

    def document(self, detail: Detail) -> Document:
        if not self.rows and self.empty:
            line = Table.of((Column(),), (Row((self.empty,)),), is_wrapped=False)
            return Document("", (Paragraph(self.empty) if detail.is_full else line,), name=self.name)
        columns = tuple(
            Column(
                title,
                is_right=bool(self.rows) and all(isinstance(row[index], int | float) for row in self.rows),
                is_optional=title in self.optional,
            )
            for index, title in enumerate(self.titles)
        )
        rows = tuple(Row(tuple(map(value_text, row))) for row in self.rows)
        table = Table.of(columns, rows, is_wrapped=False)
        return Document("", (table, *map(Paragraph, self.notes)), name=self.name)

    def data(self) -> Any:
        return self.values


def value_text(value: object) -> str:
    """A value of a file or a table in one line."""
    if value is None:
        return "not set"
    if isinstance(value, list | tuple):
        return ", ".join(value_text(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{value_text(key)}={value_text(item)}" for key, item in value.items()) or "none"
    return str(value)


def printable(value: object) -> str:
    """The same for a message: without anything that a terminal would obey."""
    return sanitise(value_text(value))


LONGEST_VERSION = 37
"""Characters of an environment's version, so that the list fits 80 columns."""


# Stored versions


def stored_versions(holdings: "Sequence[Holding]") -> ListView:
    return ListView(
        titles=("version", "testbed", "suite", "runs", "trials", "scenarios", "last measured", "origin", "pinned"),
        rows=[
            (
                str(holding.version),
                holding.testbed,
                str(holding.suite),
                holding.runs,
                holding.trials,
                holding.scenarios,
                "" if holding.last is None else holding.last.date().isoformat(),
                holding.origin.value,
                "yes" if holding.pinned else "",
            )
            for holding in holdings
        ],
        name="Stored versions",
        values={"schema_version": "1", "baselines": [_holding_values(holding) for holding in holdings]},
        empty="nothing is stored; import results with `regress-gate import`",
        optional=("trials", "scenarios"),
    )


def _holding_values(holding: "Holding") -> dict[str, Any]:
    return {
        "version": str(holding.version),
        "testbed": holding.testbed,
        "suite": {"name": holding.suite.name, "version": holding.suite.version},
        "runs": holding.runs,
        "trials": holding.trials,
        "scenarios": holding.scenarios,
        "first": None if holding.first is None else holding.first.isoformat(),
        "last": None if holding.last is None else holding.last.isoformat(),
        "origin": holding.origin.value,
        "pinned": holding.pinned,
    }


def stored_runs(runs: "Sequence[Run]") -> ListView:
    """When the runs of a version were made, under which conditions, and where their numbers came from."""
    sources = {(t.source.format, t.source.tool, t.source.client_version) for run in runs for t in run.trials}
    return ListView(
        titles=("ref", "version", "testbed", "suite", "run", "trials", "requests", "failed", "outside CPU", "started"),
        rows=[_run_row(run) for run in runs],
        name="Stored runs",
        values={"schema_version": "1", "runs": [_run_values(run) for run in runs]},
        notes=[
            f"read as {format_}, made by {tool or 'an unknown tool'}" + (f", client {client}" if client else "")
            for format_, tool, client in sorted(sources, key=str)
        ],
    )


def _run_row(run: "Run") -> tuple[object, ...]:
    load = run.conditions.outside_cpu_cores
    return (
        "shipped" if run.id is None else f"run:{run.id}",
        str(run.version),
        run.testbed.name,
        str(run.suite),
        run.label,
        len(run.trials),
        completed_requests(run),
        failed_requests(run),
        "not recorded" if load is None else f"{load:.3f}",
        "" if run.started is None else run.started.isoformat(timespec="minutes"),
    )


def _run_values(run: "Run") -> dict[str, Any]:
    return {
        "ref": None if run.id is None else f"run:{run.id}",
        "version": str(run.version),
        "testbed": run.testbed.name,
        "suite": {"name": run.suite.name, "version": run.suite.version},
        "label": run.label,
        "trials": len(run.trials),
        # Null where a trial does not state it.
        "requests": _exact_sum(_completed(run)),
        "failed": _exact_sum(_failed(run)),
        "outside_cpu_cores": run.conditions.outside_cpu_cores,
        "started": None if run.started is None else run.started.isoformat(),
    }


def completed_requests(run: "Run") -> str:
    """Of all trials that state it; with a question mark if some do not."""
    return _sum(_completed(run))


def failed_requests(run: "Run") -> str:
    """Of all trials that state it; with a question mark if some do not: those have no fraction of failures either."""
    return _sum(_failed(run))


def _completed(run: "Run") -> list[int | None]:
    return [trial.completed for trial in run.trials]


def _failed(run: "Run") -> list[int | None]:
    return [trial.failed if trial.failed or "failed_requests" in trial.metrics else None for trial in run.trials]


def _exact_sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _sum(counts: list[int | None]) -> str:
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        return str(sum(known))
    return f"{sum(known)} + ?" if known else "?"


# The log

_MOST_PLACES = 3
"""That a line names; JSON has all."""


def log_entries(entries: "Sequence[LogEntry]") -> ListView:
    """Who changed what a store holds, the newest first."""
    return ListView(
        titles=("when (UTC)", "who", "role", "host", "what"),
        rows=[
            (entry.at.strftime("%Y-%m-%d %H:%M:%S"), entry.actor, entry.role, entry.host, _entry_text(entry))
            for entry in entries
        ],
        name="Log of the store",
        values={"schema_version": "1", "entries": [_entry_values(entry) for entry in entries]},
        empty="the log has no such entry",
        optional=("role", "host"),
    )


def _entry_text(entry: "LogEntry") -> str:
    given = entry.details
    counts = [
        plural(given[key], noun)
        for key, noun in (("runs", "run"), ("trials", "trial"), ("comparisons", "comparison"))
        if isinstance(given.get(key), int) and given[key]
    ]
    if given.get("extended"):
        counts.append(f"{value_text(given['extended'])} extended")
    said = [
        entry.kind,
        *(value_text(given[key]) for key in ("version", "experiment") if key in given),
        *(f"{word} schema {value_text(given[word])}" for word in ("from", "to") if given.get(word)),
        ", ".join(counts),
        f"(run:{value_text(given['run_ids'])})" if "run_ids" in given else "",
        "(again)" if given.get("again") else "",
        _waivers_text(given.get("waivers")),
        f"{value_text(given['decision'])} against {value_text(given.get('baseline'))}" if "decision" in given else "",
    ]
    held = given.get("places")
    places = held if isinstance(held, list) else []
    named = [_place_text(place) for place in places[:_MOST_PLACES]]
    if len(places) > _MOST_PLACES:
        named.append(f"and {len(places) - _MOST_PLACES} more")
    return " ".join(filter(None, said)) + (": " + "; ".join(named) if named else "")


def _waivers_text(waivers: object) -> str:
    """`tpot_* until 2026-12-31 (ana: known),` of each."""
    known = [one for one in waivers if isinstance(one, dict)] if isinstance(waivers, list) else []
    texts = []
    for one in known:
        finding, until, owner, reason = (value_text(one.get(key)) for key in ("finding", "until", "owner", "reason"))
        texts.append(f"{finding} until {until} ({owner}: {reason}),")
    return " ".join(texts)


def _place_text(place: object) -> str:
    if not isinstance(place, dict):
        return value_text(place)
    version, testbed, suite = (value_text(place.get(key)) for key in ("version", "testbed", "suite"))
    return f"{version} on {testbed}, {suite}"


def _entry_values(entry: "LogEntry") -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "role": entry.role or None,
        "host": entry.host,
        "tool_version": entry.tool_version,
        "kind": entry.kind,
        **entry.details,
    }


# Environments


def environments(
    entries: "Sequence[CacheEntry]", state_of: "Callable[[CacheEntry], EntryState]", directory: object
) -> ListView:
    return ListView(
        titles=("ID", "VERSION", "SIZE", "LAST USED", "STATE"),
        rows=[_environment_row(entry, state_of(entry).value) for entry in entries],
        name="Environments",
        values=[_environment_values(entry, state_of(entry).value) for entry in entries],
        empty=f"no environments in {directory}",
    )


def _environment_row(entry: "CacheEntry", state: str) -> tuple[object, ...]:
    version = entry.marker.version if entry.marker else entry.key
    shown = re.sub(r"[0-9a-f]{40}", lambda commit: commit[0][:12], version)
    shown = shown if len(shown) <= LONGEST_VERSION else f"{shown[: LONGEST_VERSION - 1]}…"
    used = datetime.fromtimestamp(entry.last_used, UTC).date().isoformat()
    return entry.id, shown, environment_size(entry), used, state


def environment_size(entry: "CacheEntry") -> str:
    return f"{entry.marker.size_bytes / 1e9:.1f} GB" if entry.marker else "?"


def _environment_values(entry: "CacheEntry", state: str) -> dict[str, Any]:
    marker = entry.marker
    return {
        "id": entry.id,
        "key": entry.key,
        "path": str(entry.path),
        "version": marker.version if marker else None,
        "requirement": marker.requirement if marker else None,
        "python": marker.python if marker else None,
        "installer": marker.installer if marker else None,
        "size_bytes": marker.size_bytes if marker else None,
        "created": _moment(marker.created) if marker else None,
        "last_used": _moment(entry.last_used),
        "state": state,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# Waivers


def waivers(entries: "Sequence[Waiver]", today: date) -> ListView:
    """With the days that are left."""
    return ListView(
        titles=("finding", "until", "state", "at most", "owner", "reason"),
        rows=[
            (
                waiver.finding,
                waiver.until.isoformat(),
                days_left(waiver.until, today),
                f"{waiver.max_change:.1%}",
                waiver.owner,
                waiver.reason,
            )
            for waiver in entries
        ],
        name="Waivers",
        values={
            "schema_version": "1",
            "waivers": [
                waiver.model_dump(mode="json") | {"days_left": (waiver.until - today).days} for waiver in entries
            ],
        },
        empty="there are no waivers",
    )


def days_left(until: date, today: date) -> str:
    days = (until - today).days
    return f"expired {-days} days ago" if days < 0 else f"{days} days left"
