"""What the servers of two versions did differently, from what is kept with their runs: facts of the start log, and what
they counted during the trials. Not for what made a series worse (`causes`), and not for the rules on one deployment.

A difference counts where it is larger than the servers of one side differ among themselves.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from statistics import mean, stdev
from typing import Any

from regress_gate.gate.audit.kept_servers import kept_signals
from regress_gate.gate.config_changes import LOCATION_ARGUMENTS, NOT_COMPARED, resolved_changes
from regress_gate.model.result import AuditEffect, AuditFindingOut
from regress_gate.model.run import Run
from regress_gate.text import clip, plural
from regress_gate.vllm.log_signals import LogLine

SMALLER_BY = 0.03
"""Relative loss of KV cache from which it is told: profiling alone moves it by less."""
PREEMPTED_SHARE = 0.01
"""Preemptions for each request from which a server counts as preempting."""
_SPREADS = 3.0
"""Standard errors by which a difference must exceed what server starts of one version differ by."""
_LINE_LENGTH = 200

LINES: Mapping[str, tuple[str, ...]] = {
    "moe_untuned": ("moe_default",),
    "fp8_untuned": ("block_fp8_default",),
    "int8_untuned": ("block_int8_default",),
    "ssm_untuned": ("mamba_default",),
    "lora_untuned": ("lora_default",),
    "async_scheduling_off": ("async_off", "custom_scheduler"),
    "custom_allreduce_off": ("no_custom_all_reduce",),
    "deep_gemm_off": ("deep_gemm_off",),
    "sampler_fallback": ("sampler_fallback",),
    "graphs_skipped": ("capture_skipped", "encoder_capture_skipped"),
    "graphs_overridden": ("graph_mode_overridden",),
    "graphs_capped": ("capture_capped",),
    "hybrid_cache_off": ("hybrid_cache_off", "chunked_local_off"),
    "prefix_caching_off": ("prefix_cache_off",),
}
"""By finding: the signals of the start log that say it, by their names in `log_signals`."""


_FAMILIES = {
    "torch": re.compile(r"torch|triton|pytorch-triton.*|nvidia-.*"),
    "flashinfer-python": re.compile(r"flashinfer-.*"),
    "transformers": re.compile(r"transformers|tokenizers"),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of one side, over its server starts."""

    values: tuple[float, ...]
    """One for each run."""

    @property
    def mean(self) -> float:
        return mean(self.values)

    @property
    def error(self) -> float:
        return stdev(self.values) / sqrt(len(self.values)) if len(self.values) > 1 else 0.0


@dataclass(frozen=True)
class ServerSide:
    """What is kept of the servers of one version. Only runs that count."""

    runs: Sequence[Run]

    @property
    def servers(self) -> list[Mapping[str, Any]]:
        return [run.server for run in self.runs if run.server]

    def fact(self, name: str) -> Measured | None:
        """A number of the start log."""
        values = [float(value) for server in self.servers if isinstance(value := server.get(name), int | float)]
        return Measured(tuple(values)) if values else None

    @cached_property
    def signals(self) -> list[Mapping[str, tuple[LogLine, ...]] | None]:
        """Of each server the lines of its start log; None: no line was kept."""
        return [kept_signals(server) for server in self.servers]

    def lines(self, *signals: str) -> list[str]:
        """The first line of these signals, of each server that printed one."""
        found = []
        for kept in self.signals:
            lines = [line.text for name in signals for line in (kept or {}).get(name, ())]
            found += lines[:1]
        return found

    @property
    def has_lines(self) -> bool:
        return bool(self.signals) and None not in self.signals

    def per(self, name: str, other: str, scenario: str | None = None) -> Measured | None:
        """A counter divided by another, of a scenario or all; runs without both are left out."""
        values = []
        for run in self.runs:
            counts = [t.server_metrics for t in run.trials if scenario in (None, t.scenario) and t.server_metrics]
            over = sum(count.get(other, 0.0) for count in counts)
            if over > 0 and any(name in count for count in counts):
                values.append(sum(count.get(name, 0.0) for count in counts) / over)
        return Measured(tuple(values)) if values else None

    def mean_time(self, name: str, scenario: str) -> Measured | None:
        """Seconds a request, of a histogram."""
        return self.per(f"{name}_sum", f"{name}_count", scenario)

    def largest(self, name: str, scenario: str) -> float | None:
        """The maximum of a gauge, as far as it was read during trials."""
        seen = [
            trial.server_metrics[name]
            for run in self.runs
            for trial in run.trials
            if trial.scenario == scenario and name in trial.server_metrics
        ]
        return max(seen, default=None)

    def requests(self, scenario: str) -> int:
        trials = [trial for run in self.runs for trial in run.trials if trial.scenario == scenario]
        return sum(trial.completed or 0 for trial in trials)


@dataclass(frozen=True, slots=True)
class ServerChange:
    """One finding, with what `causes` needs of it."""

    finding: AuditFindingOut
    before: Any = None
    """What the baseline had, as an argument would take it."""
    after: Any = None
    facts: Mapping[str, float] = field(default_factory=dict)


def is_shown(before: Measured | None, after: Measured | None) -> bool:
    """Whether the difference exceeds what starts of one version differ by."""
    if before is None or after is None:
        return False
    error = sqrt(before.error**2 + after.error**2)
    return abs(after.mean - before.mean) > _SPREADS * error


def find_server_changes(baseline: Sequence[Run], candidate: Sequence[Run]) -> list[ServerChange]:
    """What differs between the servers, new findings first."""
    sides = ServerSide(baseline), ServerSide(candidate)
    found = [
        *_cache_changes(*sides),
        *_graph_changes(*sides),
        *_resolved(*sides),
        *_given(*sides),
        *_libraries(*sides),
        *_lines(*sides),
        *_preemptions(*sides),
        *_shares(*sides),
    ]
    order = list(AuditEffect)
    return sorted(found, key=lambda change: order.index(change.finding.effect))


def _cache_changes(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    had, has = before.fact("kv_cache_tokens"), after.fact("kv_cache_tokens")
    if had is None or has is None or not had.mean or not is_shown(had, has):
        return
    change = has.mean / had.mean - 1
    if abs(change) < SMALLER_BY:
        return
    text = f"KV cache {abs(change):.0%} {'smaller' if change < 0 else 'larger'}"
    evidence = [f"start log: {had.mean:,.0f} → {has.mean:,.0f} tokens ({_starts(had, has)})"]
    held, holds = before.fact("max_concurrency"), after.fact("max_concurrency")
    if held is not None and holds is not None:
        evidence.append(f"start log: holds {held.mean:.1f} → {holds.mean:.1f} requests of full length")
    effect = AuditEffect.NEW if change < 0 else AuditEffect.RESOLVED
    yield ServerChange(
        _finding("kv_cache_smaller", text, effect, f"{had.mean:.0f} tokens", f"{has.mean:.0f} tokens", evidence),
        round(had.mean),
        round(has.mean),
        {"change": change},
    )


def _graph_changes(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    had, has = before.fact("max_capture_size"), after.fact("max_capture_size")
    if had is None or has is None or had.mean == has.mean or not is_shown(had, has):
        return
    text = f"graphs are captured for batches of up to {has.mean:.0f} instead of {had.mean:.0f}"
    effect = AuditEffect.NEW if has.mean < had.mean else AuditEffect.RESOLVED
    evidence = [f"start log: largest captured batch {had.mean:.0f} → {has.mean:.0f} ({_starts(had, has)})"]
    finding = _finding("graphs_smaller", text, effect, f"{had.mean:.0f}", f"{has.mean:.0f}", evidence)
    yield ServerChange(finding, round(had.mean), round(has.mean))


def _resolved(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    """Backends and settings that servers with the same arguments resolved differently."""
    for name, old, new in resolved_changes(before.servers, after.servers):
        if name.startswith("compilation_config.") and "capture_size" in name:
            continue  # said by the graphs
        is_backend = name.endswith(" backend")
        what = name if is_backend else f"setting {name}"
        evidence = [f"start log: {old} → {new} ({_count(before.servers, after.servers)})"]
        yield ServerChange(
            _finding(
                f"{'backend' if is_backend else 'setting'}_changed:{name.removesuffix(' backend')}",
                f"{what} changed: {old} → {new}",
                AuditEffect.NEW,
                old,
                new,
                evidence,
            ),
            old,
            new,
        )


def _given(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    """Arguments that all servers of a side were given, and those of the other were not, or otherwise: a launch line may
    differ by version. An argument that both sides resolved to the same is none: its default has changed."""
    ours, theirs = _arguments(before.servers), _arguments(after.servers)
    if ours is None or theirs is None:
        return
    for name in sorted(ours.keys() | theirs.keys()):
        old, new = ours.get(name), theirs.get(name)
        if old == new or _same_config(name, before.servers, after.servers):
            continue
        shown = ["the default" if value is None else clip(str(value), _LINE_LENGTH) for value in (old, new)]
        evidence = [f"start log, non-default args: {shown[0]} → {shown[1]} ({_count(before.servers, after.servers)})"]
        text = f"started with {name}: {shown[0]} → {shown[1]}"
        finding = _finding(f"argument_changed:{name}", text, AuditEffect.NEW, shown[0], shown[1], evidence)
        yield ServerChange(finding, old, new)


def _arguments(servers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What all servers were given alike, without where and what is served; None if a server did not print it."""
    given = [server.get("non_default_args") for server in servers]
    known = [arguments for arguments in given if isinstance(arguments, Mapping)]
    if not known or len(known) < len(given):
        return None
    names = dict.fromkeys(
        name for arguments in known for name in arguments if name not in LOCATION_ARGUMENTS | NOT_COMPARED
    )
    return {name: known[0][name] for name in names if all(each.get(name) == known[0].get(name) for each in known)}


def _same_config(name: str, ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether servers of both sides printed the same value of a setting, however it came about."""
    printed = [
        {str(config[name]) for server in side if isinstance(config := server.get("config"), Mapping) and name in config}
        for side in (ours, theirs)
    ]
    return bool(printed[0] & printed[1])


def _libraries(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    """Dependencies of builds that the tool has installed itself: it can install one as the other side has it.

    A family moves together, and its first name stands for all of it.
    """
    if any(run.place is None or run.place.way != "venv" for side in (before, after) for run in side.runs):
        return
    had, has = (shared_libraries(side.runs) for side in (before, after))
    changed = {name: (had[name], has[name]) for name in sorted(had.keys() & has.keys()) if had[name] != has[name]}
    families: dict[str, list[str]] = {}
    for name in changed:
        family = next((first for first, names in _FAMILIES.items() if names.fullmatch(name)), name)
        families.setdefault(family, []).append(name)
    for family, names in families.items():
        moves = ", ".join(f"{name} {changed[name][0]} → {changed[name][1]}" for name in names)
        # What a build of torch needs of its own comes with it.
        leading = [name for name in names if name == family] or names
        packages = {name: changed[name][0] for name in (names if family.startswith("flashinfer") else leading)}
        finding = _finding(
            f"library_changed:{family}",
            f"other dependency: {moves}",
            AuditEffect.NEW,
            changed[names[0]][0],
            changed[names[0]][1],
            [f"installed packages: {moves} ({_count(before.runs, after.runs)})"],
        )
        yield ServerChange(finding, packages)


def shared_libraries(runs: Sequence[Run]) -> dict[str, str]:
    """Those that all runs have alike, without the local part of their versions: the variant brings its own."""
    first = runs[0].libraries if runs else {}
    same = {name: text for name, text in first.items() if all(run.libraries.get(name) == text for run in runs)}
    return {name: text.partition("+")[0] for name, text in same.items()}


def _lines(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    """Warnings of the start. A side of which no lines were kept says nothing."""
    if not (before.has_lines and after.has_lines):
        return
    for name, signals in LINES.items():
        had, has = before.lines(*signals), after.lines(*signals)
        if not had and not has:
            continue
        effect = AuditEffect.CARRIED if had and has else AuditEffect.NEW if has else AuditEffect.RESOLVED
        line = clip((has or had)[0], _LINE_LENGTH)
        count = f"{len(had)} of {len(before.servers)} → {len(has)} of {len(after.servers)} server starts"
        yield ServerChange(
            _finding(name, line, effect, had[0] if had else None, has[0] if has else None, [f"start log: {count}"])
        )


def _preemptions(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    had, has = before.per("preemptions", "requests"), after.per("preemptions", "requests")
    if had is None or has is None or max(had.mean, has.mean) < PREEMPTED_SHARE:
        return
    effect = AuditEffect.CARRIED
    if is_shown(had, has) and had.mean < PREEMPTED_SHARE:
        effect = AuditEffect.NEW
    elif is_shown(had, has) and has.mean < PREEMPTED_SHARE:
        effect = AuditEffect.RESOLVED
    text = f"requests are preempted: {had.mean:.2f} → {has.mean:.2f} preemptions a request"
    evidence = [f"/metrics: {text.removeprefix('requests are preempted: ')} ({_starts(had, has)})"]
    finding = _finding("preemptions", text, effect, f"{had.mean:.3f}", f"{has.mean:.3f}", evidence)
    yield ServerChange(finding, facts={"before": had.mean, "after": has.mean})


def _shares(before: ServerSide, after: ServerSide) -> Iterator[ServerChange]:
    """Shares that should be high: tokens found in the prefix cache, drafted tokens that are accepted."""
    for name, text, part, whole in (
        (
            "prefix_cache_misses",
            "of prompt tokens found in the prefix cache",
            "prefix_cache_hits",
            "prefix_cache_queries",
        ),
        ("drafts_rejected", "of drafted tokens accepted", "accepted_draft_tokens", "draft_tokens"),
    ):
        had, has = before.per(part, whole), after.per(part, whole)
        if had is None or has is None or not is_shown(had, has) or abs(has.mean - had.mean) < PREEMPTED_SHARE:
            continue
        effect = AuditEffect.NEW if has.mean < had.mean else AuditEffect.RESOLVED
        line = f"{had.mean:.0%} → {has.mean:.0%} {text}"
        evidence = [f"/metrics: {line} ({_starts(had, has)})"]
        finding = _finding(name, line, effect, f"{had.mean:.3f}", f"{has.mean:.3f}", evidence)
        yield ServerChange(finding, facts={"before": had.mean, "after": has.mean})


def _finding(
    id_: str, text: str, effect: AuditEffect, before: str | None, after: str | None, evidence: Iterable[str]
) -> AuditFindingOut:
    return AuditFindingOut(id=id_, text=text, effect=effect, baseline=before, candidate=after, evidence=list(evidence))


def _starts(before: Measured, after: Measured) -> str:
    return _count(before.values, after.values)


def _count(before: Sequence[object], after: Sequence[object]) -> str:
    if len(before) == len(after):
        return f"{plural(len(before), 'server start')} a side"
    return f"{len(before)} and {len(after)} server starts"
