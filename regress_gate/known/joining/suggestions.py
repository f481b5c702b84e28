"""Suggests scenarios for known issues that apply and that no scenario of the suite can show, also as a suite file.

Pure: findings and a deployment in, scenarios out. Issues that need requests which no workload of a suite can send are
named and left out. Not for: how long a scenario takes, or whether the machine is large enough for it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from regress_gate.known.matching.findings import ExclusionReason
from regress_gate.known.matching.scope import in_region
from regress_gate.known.matching.signature import is_measurable_in
from regress_gate.model.deployment import ArgValue, Deployment
from regress_gate.model.issue import Applies, Effect, IssueFinding, KnownIssue, Scope, SignaturePart, WorkloadRegion
from regress_gate.model.suite import Scenario, ServerConfig, Suite, Workload

_CONCURRENCY, _INPUT_LEN, _OUTPUT_LEN = 8, 1024, 128
"""Used if a record does not limit them."""
_REQUESTS = 100
"""The smallest number that supports a p99."""
_WARMUP = 64
"""The largest useful number of warm-up requests."""
_DOCUMENTS = 10
_UNSUPPORTED_FEATURES = ("lora", "multimodal", "disaggregated_prefill", "structured_output")
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Suggestions:
    scenarios: tuple[Scenario, ...]
    impossible: tuple[str, ...]
    """Issues that apply and that no scenario can show, each with the reason."""


def suggest_scenarios(
    findings: Sequence[IssueFinding],
    deployment: Deployment,
    testable: Callable[[KnownIssue], bool],
    *,
    has_baseline: bool,
) -> Suggestions:
    """One scenario for each issue that applies, claims a loss, comes with the move and is not `testable` already.

    With a baseline, what both versions have is left out: no comparison of them can show it.
    """
    made: list[tuple[KnownIssue, Scenario]] = []
    impossible = []
    for finding in findings:
        issue = finding.issue
        comes = finding.effect is Effect.NEW or (finding.effect is Effect.CARRIED and not has_baseline)
        losses = [part for part in issue.signature if part.direction == "worse"]
        if finding.applies is not Applies.YES or not comes or not losses or testable(issue):
            continue
        scenario = _scenario(issue, losses, deployment)
        if isinstance(scenario, str):
            impossible.append(f"{issue.id}: {scenario}")
        else:
            made.append((issue, scenario))
    return Suggestions(_merge_scenarios(made), tuple(impossible))


def _merge_scenarios(made: Sequence[tuple[KnownIssue, Scenario]]) -> tuple[Scenario, ...]:
    """As few scenarios as possible: those for a workload region first, then issues that an existing one shows too."""
    merged: list[Scenario] = []
    for issue, scenario in sorted(made, key=lambda one: not _has_region(one[0])):
        for at, other in enumerate(merged):
            if other.server == scenario.server and is_measurable_in(issue, other.workload):
                sees = [*other.sees, issue.id]
                merged[at] = other.model_copy(update={"sees": sees, "why": f"{', '.join(sees)} would show here"})
                break
        else:
            merged.append(scenario)
    return tuple(merged)


def _has_region(issue: KnownIssue) -> bool:
    return any(region is not None for region in (issue.scope.workload, *(part.workload for part in issue.signature)))


def is_testable(issue: KnownIssue, scenarios: Sequence[Scenario], excluded: ExclusionReason) -> bool:
    """Whether a scenario measures a claimed loss, on a server in the scope of the issue."""
    return any(is_measurable_in(issue, each.workload) and excluded(issue, each.name) is None for each in scenarios)


def _scenario(issue: KnownIssue, losses: Sequence[SignaturePart], deployment: Deployment) -> Scenario | str:
    """The scenario, or the reason for none."""
    server = _server(issue.scope, deployment)
    if isinstance(server, str):
        return server
    features = _features(issue.scope)
    api = next((name for name in ("embeddings", "rerank") if name.removesuffix("s") in features), "completions")
    api = "rerank" if "rerank" in features and not deployment.features.get("embedding") else api
    why = "its regions contradict each other"
    for part in losses:
        workload = _workload([issue.scope.workload, part.workload], api, server.engine_args.get("max_model_len"))
        if isinstance(workload, str):
            why = workload
        elif is_measurable_in(issue, workload):
            why = f"{issue.id}: {' '.join(issue.summary.split())}"
            return Scenario(name=issue.id.lower(), why=why, sees=[issue.id], server=server, workload=workload)
    return why


def _features(scope: Scope) -> list[str]:
    return [*(scope.features or []), *(scope.all_features or [])]


def _server(scope: Scope, deployment: Deployment) -> ServerConfig | str:
    """The deployment's server with the settings of the scope."""
    model = deployment.model or next((name for name in scope.model or [] if not _GLOB.search(name)), None)
    if model is None:
        return "the model is not known (--model)"
    args: dict[str, ArgValue] = dict(deployment.engine_args)
    if unsent := [name for name in _features(scope) if name in _UNSUPPORTED_FEATURES]:
        return f"it needs {unsent[0].replace('_', ' ')}, which no workload of a suite can send"
    speculates = any(key.startswith("speculative") for key in args)
    if "speculative_decoding" in _features(scope) and not speculates:
        return "it needs speculative decoding (--engine-arg speculative_config=…)"
    args |= _parallel(scope, args)
    args |= {key: _first(value) for key, value in (scope.engine_args or {}).items() if key not in args}
    env = {key: str(_first(value)) for key, value in (scope.env or {}).items()} | deployment.env
    return ServerConfig(model=model, engine_args=args, env=env)


def _parallel(scope: Scope, args: Mapping[str, ArgValue]) -> dict[str, ArgValue]:
    if scope.parallel is None:
        return {}
    sizes: dict[str, ArgValue] = {}
    for size, condition in scope.parallel:
        if size == "expert":
            if condition is not None:
                sizes["enable_expert_parallel"] = condition
        elif condition is not None and (key := f"{size}_parallel_size") not in args:
            sizes[key] = int(_boundary_value(condition))
    return {key: value for key, value in sizes.items() if key not in args}


def _workload(regions: Sequence[WorkloadRegion | None], api: str, longest: Any) -> Workload | str:
    """A workload with numbers at the boundary of the regions, and usual numbers where they give none."""
    given = [region for region in regions if region is not None]
    numbers: dict[str, float] = {}
    for field in WorkloadRegion.model_fields:
        conditions = [condition for region in given if (condition := getattr(region, field)) is not None]
        if conditions:
            numbers[field] = next(
                (edge for edge in map(_boundary_value, conditions) if _fits(given, field, edge)),
                _boundary_value(conditions[0]),
            )
    rate = numbers.get("request_rate")
    concurrency = int(numbers["concurrency"]) if "concurrency" in numbers else None if rate else _CONCURRENCY
    data: dict[str, Any] = {
        "api": api,
        "input_len": int(numbers.get("input_len", _INPUT_LEN)),
        "concurrency": concurrency,
        "request_rate": rate,
        "num_requests": max(_REQUESTS, 4 * (concurrency or 0)),
        "warmup_requests": min(_WARMUP, concurrency or _CONCURRENCY),
    }
    if api == "completions":
        data["output_len"] = int(numbers.get("output_len", _OUTPUT_LEN))
    if api == "rerank":
        data["documents"] = _DOCUMENTS
    if type(longest) is int and data["input_len"] + data.get("output_len", 0) > longest:
        if "input_len" not in numbers and longest > data.get("output_len", 0):
            data["input_len"] = longest - data.get("output_len", 0)
        else:
            return f"its prompt and answer are longer than max_model_len ({longest})"
    try:
        return Workload.model_validate({key: value for key, value in data.items() if value is not None})
    except ValidationError:
        return "its regions contradict each other"


def _fits(regions: Sequence[WorkloadRegion], field: str, value: float) -> bool:
    trial = Workload().model_copy(update={field: value})
    return all(in_region(WorkloadRegion(**{field: getattr(one, field)}), trial) for one in regions)


def _boundary_value(condition: str) -> float:
    """The number nearest to the bound that satisfies it: 8 for `<=8`, 7 for `<8`, 9 for `>8`."""
    match = re.fullmatch(r"(<=|>=|<|>|==)?\s*(\d+(?:\.\d+)?)", condition.strip())
    if match is None:
        raise ValueError(f"{condition!r} is not a condition on a number")
    return float(match[2]) + {"<": -1, ">": 1}.get(match[1] or "", 0)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


SUGGESTED_SUITE = "suggested"


def suite_text(suggestions: Suggestions, deployment: Deployment, candidate: str) -> str:
    """The text of a suite file; without a scenario only comments."""
    lines = [
        f"# {text}"
        for text in (*_header_lines(suggestions), *(f"No scenario for {why}" for why in suggestions.impossible))
    ]
    if not suggestions.scenarios:
        return "\n".join(lines) + "\n"
    suite = Suite(
        name=SUGGESTED_SUITE,
        version="1",
        description=f"Scenarios in which known issues of {candidate} would show on this deployment.",
        accelerator=deployment.accelerator,
        scenarios=list(suggestions.scenarios),
    )
    data = suite.model_dump(mode="json", exclude_defaults=True)
    return "\n".join(lines) + "\n" + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)


def _header_lines(suggestions: Suggestions) -> list[str]:
    if not suggestions.scenarios:
        return ["No further scenario: the suite measures every loss that an applicable known issue claims."] * (
            not suggestions.impossible
        )
    return ["Made from the records and never run: check sizes and times first."]
