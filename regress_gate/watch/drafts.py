"""Drafts for a person to complete and to send: a known-issue record of a finding, and a report for vLLM's tracker.

Nothing is sent from here. A record draft loads by the schema, and the linter refuses it until every placeholder is
gone. Names of machines stay out of both; text is escaped, and values of variables that name secrets are left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import yaml

from regress_gate.bench.provision.interface import ServeRequest, serve_arguments
from regress_gate.known.matching.names import canonical_args
from regress_gate.known.records.curation import PLACEHOLDER, draft_id
from regress_gate.known.threads import shown_address
from regress_gate.model.issue import VLLM_REPO, IssueKind
from regress_gate.model.metric import Scale
from regress_gate.model.result import SeriesResult, Verdict
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Channel, Version
from regress_gate.redaction import names_secret, redact
from regress_gate.report.document import (
    Block,
    Code,
    Detail,
    Document,
    ItemList,
    Link,
    Pair,
    Pairs,
    Paragraph,
    Section,
    View,
)
from regress_gate.report.render.output_formats import RenderOptions, render
from regress_gate.report.views.series_view import full_table
from regress_gate.text import clip, drop_escapes, one_line, plural, sanitise
from regress_gate.watch.finding import LookSummary, WatchFinding
from regress_gate.watch.finding_view import build_text, commit_range, finding_data

_MOST_SERIES = 12
_REPORT_BYTES = 40_000
_MOST_ENVIRONMENT = 20_000
"""Characters of the output of `vllm collect-env`."""
_PORT = 8000
_KINDS = {
    "peak_memory": IssueKind.MEMORY,
    "kv_cache_tokens": IssueKind.MEMORY,
    "startup_time": IssueKind.STARTUP,
    "failed_requests": IssueKind.CRASH,
}


@dataclass(frozen=True, slots=True)
class MeasuredWith:
    """What the finding was measured with, as the drafts show it."""

    scenarios: Mapping[str, Scenario]
    """Those of the suite, by name."""
    testbed: Testbed
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Versions of libraries beside the newest build."""
    collect_env: str | None = None
    """What `vllm collect-env` printed beside the newest build, if it was run."""

    def of(self, series: Sequence[SeriesResult]) -> list[Scenario]:
        """The scenarios of these series, the worst first."""
        names = dict.fromkeys(one.scenario for one in series)
        return [self.scenarios[name] for name in names if name in self.scenarios]


# A known-issue record


def draft_finding_record(
    finding: WatchFinding, measured: MeasuredWith, *, today: date, thread: str | None = None
) -> tuple[str, str]:
    """Name and text of the file `ID.yaml`. `thread` is the report on GitHub, once there is one.

    Raises InputError for a thread that is none.
    """
    id_ = f"DRAFT-{int(finding.key[:8], 16)}" if thread is None else draft_id(thread)
    url = thread or f"{VLLM_REPO}/issues"
    losses = [one for one in finding.series if one.verdict is Verdict.REGRESSION] or list(finding.series)
    scenarios = measured.of(losses)
    record: dict[str, Any] = {
        "id": id_,
        "summary": _summary(finding, losses, measured),
        "kind": str(_kind(losses)),
        "severity": "medium",
        "references": [{"type": "REPORT", "url": url}],
        "affected": [{"package": {"ecosystem": "PyPI", "name": "vllm"}, "ranges": [_range(finding.first_bad)]}],
        "scope": _scope(scenarios, measured),
        "signature": [_signature(one, measured) for one in losses[:_MOST_SERIES]],
        "workarounds": [],
        "tracker": {"url": url, "state": "unknown", "checked": today},
        "confidence": "low",
        "evidence": _evidence(finding, losses),
        "reviewed": today,
    }
    comments = [
        "A draft from a finding of `regress-gate watch`. To be completed by a person: replace every TODO, then",
        "`regress-gate issues lint DIRECTORY`. severity: critical high medium low, by what it does to users.",
        "scope: as narrow as the evidence; one testbed has shown it, so other hardware is not known to be free of it.",
    ]
    if thread is None:
        comments.append("There is no thread yet: report it, then take its number for the id, and its address twice.")
    if finding.first_bad.channel not in (Channel.RELEASE, Channel.CANDIDATE):
        comments.append("Add a range of type ECOSYSTEM with the first release that has it, once there is one.")
    text = yaml.dump(_clean(record), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return f"{id_}.yaml", "".join(f"# {line}\n" for line in comments) + text


def _summary(finding: WatchFinding, losses: Sequence[SeriesResult], measured: MeasuredWith) -> str:
    worst = f"{losses[0].metric} {losses[0].change_text}" if losses else "what users see"
    since, machine = finding.first_bad.number or "a commit", measured.testbed.accelerator or "this hardware"
    return clip(one_line(f"{PLACEHOLDER} check: {worst}, since {since} on {machine}"), 160)


def _kind(losses: Sequence[SeriesResult]) -> IssueKind:
    name = losses[0].metric if losses else ""
    return _KINDS.get(name, IssueKind.ACCURACY if name.startswith("accuracy") else IssueKind.PERFORMANCE)


def _range(first_bad: Version) -> dict[str, Any]:
    if first_bad.channel not in (Channel.RELEASE, Channel.CANDIDATE) and first_bad.commit is not None:
        return {"type": "GIT", "repo": VLLM_REPO, "events": [{"introduced": first_bad.commit}]}
    # The number of a development build without a commit is that of the tag before it.
    number = re.sub(r"\.dev\d+$", "", first_bad.number or "0")
    return {"type": "ECOSYSTEM", "events": [{"introduced": number}]}


def _scope(scenarios: Sequence[Scenario], measured: MeasuredWith) -> dict[str, Any]:
    """What all scenarios with the loss have in common."""
    accelerator = measured.testbed.accelerator
    scope: dict[str, Any] = {
        "accelerator": [one_line(accelerator).strip("*? ") or PLACEHOLDER] if accelerator else [PLACEHOLDER],
        "model": list(dict.fromkeys(one_line(one.server.model) for one in scenarios)) or [PLACEHOLDER],
    }
    arguments = _common([canonical_args(dict(one.server.engine_args)) for one in scenarios])
    variables = _common([dict(one.server.env) for one in scenarios])
    if arguments:
        scope["engine_args"] = arguments
    if variables := {name: value for name, value in variables.items() if not names_secret(name)}:
        scope["env"] = variables
    return scope


def _common(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = every or [{}]
    return {key: value for key, value in first.items() if all(key in one and one[key] == value for one in others)}


def _signature(one: SeriesResult, measured: MeasuredWith) -> dict[str, Any]:
    """The interval as the size of the loss, where it is a relative one and shown to be one."""
    part: dict[str, Any] = {"metric": one.metric, "direction": "worse"}
    low, high = one.interval or (None, None)
    if one.scale is Scale.RATIO and low is not None and high is not None and round(low, 3) > 0:
        part["change"] = [round(low, 3), round(high, 3)]
    scenario = measured.scenarios.get(one.scenario)
    concurrency = None if scenario is None else scenario.workload.concurrency
    if concurrency is not None:
        part["workload"] = {"concurrency": str(concurrency)}
    return part


def _evidence(finding: WatchFinding, losses: Sequence[SeriesResult]) -> str:
    runs = min((min(one.baseline.runs, one.candidate.runs) for one in losses), default=0)
    before = "" if finding.last_good is None else f", and not in {build_text(finding.last_good)}"
    return one_line(
        f"{PLACEHOLDER}: which change brought it, and who else sees it. "
        f"Seen in {plural(finding.looks, 'weekly look')} since {finding.first_seen} with "
        f"{build_text(finding.first_bad)}{before}; each version with at least {plural(runs, 'server start')}, "
        "in alternating blocks with the pinned one."
    )


def _clean(value: Any) -> Any:
    """Without secrets, and without signs that nobody sees."""
    if isinstance(value, str):
        return sanitise(value)
    if isinstance(value, dict):
        return {sanitise(key): _clean(each) for key, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list) else value


class _Dumper(yaml.SafeDumper):
    """Records have no aliases: a value that stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


# A report for vLLM's tracker


def draft_upstream_report(finding: WatchFinding, look: LookSummary, measured: MeasuredWith) -> tuple[str, str]:
    """Title and Markdown text of a report, for a person to check, complete and send."""
    view = _UpstreamView(finding, look, measured)
    text = render(view, "markdown", RenderOptions(max_bytes=_REPORT_BYTES))
    if measured.collect_env is not None:
        text += _folded("Output of vllm collect-env", measured.collect_env)
    worst = finding.series[0] if finding.series else None
    what = "regression" if worst is None else f"{worst.metric} {worst.change_text}"
    machine = f" on {measured.testbed.accelerator}" if measured.testbed.accelerator else ""
    title = f"[Performance]: {what} since {finding.first_bad.number or finding.first_bad}{machine}"
    return clip(one_line(title), 200), text


@dataclass(frozen=True, slots=True)
class _UpstreamView(View):
    finding: WatchFinding
    look: LookSummary
    measured: MeasuredWith

    def data(self) -> Any:
        return finding_data(self.finding)

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - it is bounded by itself
        shown = self.finding.series[:_MOST_SERIES]
        return Document(
            "",
            (
                Section("Report of performance regression", tuple(self._what(shown))),
                Section("Numbers", (Paragraph(_HOW), *full_table(shown))),
                Section("Commands", tuple(self._commands(shown))),
                Section("Your current environment", (self._environment(),)),
                Section("Before submitting", (ItemList(_CHECKS),)),
            ),
        )

    def _what(self, shown: Sequence[SeriesResult]) -> list[Block]:
        finding = self.finding
        pairs = [Pair("first build that has it", build_text(finding.first_bad))]
        if finding.last_good is not None:
            pairs.append(Pair("last build without it", build_text(finding.last_good)))
        if (url := commit_range(finding.last_good, finding.first_bad)) is not None:
            pairs.append(Pair("commits between them", Link(url)))
        pairs += [Pair("may be related", Link(shown_address(one.url))) for one in finding.known_issues[:5]]
        lead = "; ".join(f"{one.name}: {one.change_text}" for one in shown[:3])
        return [Paragraph(f"{lead}." if lead else PLACEHOLDER), Pairs(tuple(pairs))]

    def _commands(self, shown: Sequence[SeriesResult]) -> list[Block]:
        blocks: list[Block] = []
        for scenario in self.measured.of(shown)[:3]:
            lines = [Code(line) for line in (_serve_line(scenario), _client_line(scenario)) if line]
            blocks += [Paragraph(scenario.name), ItemList(tuple(lines))]
        return blocks or [Paragraph(f"{PLACEHOLDER}: the command that serves, and the one that measures")]

    def _environment(self) -> Block:
        testbed, look = self.measured.testbed, self.look
        facts = {**testbed.facts, **{f"{name} (library)": value for name, value in self.measured.libraries.items()}}
        sides = [("compared with", look.pinned), ("measured", look.candidate)]
        pairs = [Pair(name, build_text(version)) for name, version in sides if version is not None]
        return Pairs((*pairs, *(Pair(name.replace("_", " "), str(value)) for name, value in sorted(facts.items()))))


_HOW = (
    "Each run is a fresh server. The versions were measured in alternating blocks on one machine; values are means "
    "over runs, n their number, with the interval of the change."
)
_CHECKS = (
    "The numbers and commands are those of a machine that others can name: model, GPU, driver.",
    "The first bad commit, if it was found: `regress-gate bisect`.",
    "The output of `vllm collect-env`, looked through for names and addresses that should stay private.",
    "Existing threads were searched.",
)


def _serve_line(scenario: Scenario) -> str:
    server = scenario.server
    request = ServeRequest(server.model, server.model, server.engine_args)
    own = ("--host=", "--served-model-name=")
    words = [word for word in serve_arguments(request, _PORT) if not word.startswith(own)]
    variables = [f"{name}={shlex.quote(value)}" for name, value in server.env.items() if not names_secret(name)]
    return redact(" ".join([*variables, "vllm", "serve", *map(shlex.quote, words)]))


def _client_line(scenario: Scenario) -> str:
    """vLLM's own client with the same load; empty where it has no such load."""
    workload = scenario.workload
    if workload.api != "completions" or workload.dataset != "random" or workload.trace or workload.conversation:
        return ""
    if scenario.together is not None:
        return ""
    given = {
        "model": scenario.server.model,
        "port": _PORT,
        "dataset-name": "random",
        "random-prefix-len": workload.prefix_len or None,
        "random-input-len": None if workload.input_len is None else workload.input_len - workload.prefix_len,
        "random-output-len": workload.output_len,
        "num-prompts": workload.num_requests,
        "max-concurrency": workload.concurrency,
        "request-rate": workload.request_rate,
        "seed": workload.seed,
    }
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    words += ["--ignore-eos"] if workload.ignore_eos else []
    words.append("--percentile-metrics=ttft,tpot,itl,e2el")
    return redact(" ".join(["vllm", "bench", "serve", *map(shlex.quote, words)]))


def _folded(title: str, text: str) -> str:
    """Lines as they are, without colours and without the values of variables that name secrets."""
    lines = []
    for line in drop_escapes(text[:_MOST_ENVIRONMENT]).splitlines():
        name, equals, _ = line.partition("=")
        lines.append(f"{sanitise(name)}=***" if equals and names_secret(name.strip()) else sanitise(line))
    fence = "`" * (max(map(len, re.findall("`+", "\n".join(lines))), default=2) + 1)
    return "\n".join(
        [f"\n<details><summary>{title}</summary>", "", f"{fence}text", *lines, fence, "", "</details>", ""]
    )
