"""Why a regression came: the triage tree over what the servers counted, with the changes of the servers as leaves.

The loss of a request is split into waiting (queue), prefill and decoding. Of each part, changes that act on it are
causes; a part that is slower without such a change is named itself. Causes are ranked by the share of the loss that
lies in the parts on which they act, times how directly the evidence shows that they act. This is a ranking for people
and for the order of counter-tests, no probability. Not for known issues, which `known.joining` weighs.

A counter-test is the one flag or variable that would take a cause away: if the candidate with the baseline's setting is
no slower, that setting was the cause. Where the candidate cannot be given what the baseline had (a larger KV cache),
the baseline is given what the candidate has. The command gives both sides the same. Not for measuring it.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regress_gate.gate.audit.server_changes import ServerChange, ServerSide, is_shown
from regress_gate.gate.sides import ComparisonSide
from regress_gate.model.deployment import ArgValue
from regress_gate.model.result import (
    AuditEffect,
    CounterTestOut,
    ExplanationOut,
    ObservedCauseOut,
    SeriesResult,
    SuiteOut,
)
from regress_gate.model.run import IMPORTED_SUITE
from regress_gate.model.version import Version
from regress_gate.redaction import MASK
from regress_gate.text import plural
from regress_gate.vllm import release_tables
from regress_gate.vllm.collect_env import SYSTEM_LIBRARIES

QUEUE, PREFILL, DECODE = "queue", "prefill", "decode"
_PHASES = {QUEUE: "waiting", PREFILL: "prefill", DECODE: "decoding"}

ACTS_ON: Mapping[str, Mapping[str, float]] = {
    "kv_cache_smaller": {QUEUE: 1.0, DECODE: 0.2},
    "preemptions": {DECODE: 1.0, QUEUE: 0.5, PREFILL: 0.2},
    "graphs_smaller": {DECODE: 1.0},
    "graphs_skipped": {DECODE: 1.0},
    "graphs_overridden": {DECODE: 0.8},
    "async_scheduling_off": {DECODE: 0.8},
    "custom_allreduce_off": {DECODE: 0.8, PREFILL: 0.6},
    "prefix_cache_misses": {PREFILL: 1.0, QUEUE: 0.5},
    "prefix_caching_off": {PREFILL: 1.0, QUEUE: 0.5},
    "drafts_rejected": {DECODE: 1.0},
    "moe_untuned": {PREFILL: 0.8, DECODE: 0.8},
    "fp8_untuned": {PREFILL: 0.8, DECODE: 0.8},
    "int8_untuned": {PREFILL: 0.8, DECODE: 0.8},
    "ssm_untuned": {PREFILL: 0.8, DECODE: 0.8},
    "lora_untuned": {PREFILL: 0.5, DECODE: 0.5},
    "sampler_fallback": {DECODE: 0.6},
    "graphs_capped": {DECODE: 0.8},
    "hybrid_cache_off": {QUEUE: 0.8, DECODE: 0.2},
    "deep_gemm_off": {PREFILL: 0.8, DECODE: 0.6},
    "backend_changed:attention": {PREFILL: 0.7, DECODE: 0.7},
    "backend_changed:attention_mla_prefill": {PREFILL: 0.9},
    "backend_changed:moe": {PREFILL: 0.75, DECODE: 0.75},
    "backend_changed:linear": {PREFILL: 0.7, DECODE: 0.7},
    "backend_changed:sampler": {DECODE: 0.6},
    "backend_changed:model_runner": {PREFILL: 0.5, DECODE: 0.6},
    "setting_changed:enforce_eager": {DECODE: 1.0, PREFILL: 0.3},
    "setting_changed:enable_prefix_caching": {PREFILL: 0.9, QUEUE: 0.4},
    "setting_changed:enable_chunked_prefill": {PREFILL: 0.8, DECODE: 0.5},
    "setting_changed:kv_cache_dtype": {PREFILL: 0.4, DECODE: 0.6},
    "setting_changed:dtype": {PREFILL: 0.8, DECODE: 0.8},
}
"""By finding: the parts of a request on which it acts, and how surely (1: what was counted shows it)."""
_OTHER_SETTING = {QUEUE: 0.1, PREFILL: 0.2, DECODE: 0.2}
_OTHER_ARGUMENT = {QUEUE: 0.4, PREFILL: 0.4, DECODE: 0.4}
"""Of an argument that only one side was given: somebody meant it to have an effect."""
_OTHER_LIBRARY = {PREFILL: 0.1, DECODE: 0.1}
"""Of a dependency: most do nothing, and nothing that was counted shows that one does."""
_PART_ITSELF = 0.35
"""Of a part that is slower, where nothing that acts on it has changed."""
_NAMED = 0.02
"""A cause of a smaller weight is not named."""
MOST_CAUSES = 4


@dataclass(frozen=True, slots=True)
class LossSplit:
    """Where the loss of a scenario's requests lies."""

    shares: Mapping[str, float]
    """By part; they add up to 1. Equal where nothing was counted."""
    evidence: Mapping[str, str]
    """Of each part that was counted."""
    slower: frozenset[str]
    """Parts that are shown to take longer."""


def explain_regressions(
    explanations: Sequence[ExplanationOut],
    series: Sequence[SeriesResult],
    changes: Sequence[ServerChange],
    sides: tuple[ComparisonSide, ComparisonSide],
    suite: SuiteOut,
) -> list[ExplanationOut]:
    """The explanations with the parts of the loss and the causes in the servers, the most likely first."""
    by_name = {one.name: one for one in series}
    servers = ServerSide(sides[0].counted), ServerSide(sides[1].counted)
    explained = []
    for explanation in explanations:
        regressions = [by_name[name] for name in explanation.series if name in by_name]
        if not regressions:
            explained.append(explanation)
            continue
        split = _split(regressions, servers)
        causes = _causes(regressions[0], split, changes, servers, sides, suite)
        update = {"breakdown": list(split.evidence.values()), "observed": causes[:MOST_CAUSES]}
        explained.append(explanation.model_copy(update=update))
    return explained


def _split(regressions: Sequence[SeriesResult], servers: tuple[ServerSide, ServerSide]) -> LossSplit:
    scenario, metric = regressions[0].scenario, regressions[0].metric
    parts = _parts_of(metric)
    losses, evidence, slower = {}, {}, set()
    for part in parts:
        before, after = (side.mean_time(f"{part}_time", scenario) for side in servers)
        if before is None or after is None:
            continue
        losses[part] = max(0.0, after.mean - before.mean)
        size = plural(min(side.requests(scenario) for side in servers), "request")
        starts = plural(min(len(before.values), len(after.values)), "server start")
        evidence[part] = (
            f"{_PHASES[part]}: {_milliseconds(before.mean)} → {_milliseconds(after.mean)} a request "
            f"(at least {size} and {starts} a side)"
        )
        if is_shown(before, after) and losses[part] > 0:
            slower.add(part)
    total = sum(losses.values())
    if not total:
        return LossSplit({part: 1 / len(parts) for part in parts}, evidence, frozenset(slower))
    return LossSplit({part: loss / total for part, loss in losses.items()}, evidence, frozenset(slower))


def _parts_of(metric: str) -> tuple[str, ...]:
    if metric.startswith("ttft"):
        return QUEUE, PREFILL
    if metric.startswith(("tpot", "itl")):
        return (DECODE,)
    return QUEUE, PREFILL, DECODE


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 10 else f"{seconds:.1f} s"


def _causes(
    regression: SeriesResult,
    split: LossSplit,
    changes: Sequence[ServerChange],
    servers: tuple[ServerSide, ServerSide],
    sides: tuple[ComparisonSide, ComparisonSide],
    suite: SuiteOut,
) -> list[ObservedCauseOut]:
    weighed: list[tuple[float, ObservedCauseOut]] = []
    acted_on: set[str] = set()
    for change in changes:
        if change.finding.effect is not AuditEffect.NEW:
            continue
        directness, more = _directness(change, regression.scenario, servers)
        acts = {part: split.shares.get(part, 0.0) * size * directness for part, size in _acts_on(change).items()}
        weight = sum(acts.values())
        if weight < _NAMED:
            continue
        acted_on |= {part for part, size in acts.items() if size > _PART_ITSELF * split.shares.get(part, 0.0)}
        part = max(acts, key=lambda name: acts[name])
        evidence = [*change.finding.evidence, *more]
        if part in split.evidence:
            evidence.append(split.evidence[part])
        cause = ObservedCauseOut(
            finding=change.finding.id,
            text=change.finding.text,
            evidence=evidence,
            weight=round(weight, 3),
            counter_test=_counter_test(change, sides, suite),
        )
        weighed.append((weight, cause))
    for part in split.slower - acted_on:
        share = split.shares[part]
        cause = ObservedCauseOut(
            finding=f"{part}_slower",
            text=f"{_PHASES[part]} itself takes longer; no setting that the servers print explains it",
            evidence=[split.evidence[part]],
            weight=round(_PART_ITSELF * share, 3),
        )
        weighed.append((_PART_ITSELF * share, cause))
    return [cause for _, cause in sorted(weighed, key=lambda each: -each[0])]


def _acts_on(change: ServerChange) -> Mapping[str, float]:
    """An argument acts as the setting of its name does."""
    if change.finding.id.startswith("library_changed:"):
        return _OTHER_LIBRARY
    id_ = change.finding.id.replace("argument_changed:", "setting_changed:")
    return ACTS_ON.get(id_, _OTHER_ARGUMENT if id_ != change.finding.id else _OTHER_SETTING)


def _directness(change: ServerChange, scenario: str, servers: tuple[ServerSide, ServerSide]) -> tuple[float, list[str]]:
    """How directly what was counted in the scenario shows that the change acts, 0 to 1, with the evidence."""
    check = _DIRECTNESS.get(change.finding.id)
    return (1.0, []) if check is None else check(change, scenario, servers)


def _of_cache(change: ServerChange, scenario: str, servers: tuple[ServerSide, ServerSide]) -> tuple[float, list[str]]:
    """A smaller cache costs time only where requests wait for it or are preempted."""
    del change
    waits, preempts = (
        [side.per(name, "requests", scenario) for side in servers] for name in ("queue_time_sum", "preemptions")
    )
    if all(each is None for each in (*waits, *preempts)):
        return 0.6, []
    grown = any(
        before is not None and after is not None and is_shown(before, after) and after.mean > before.mean
        for before, after in (waits, preempts)
    )
    usage = servers[1].largest("kv_cache_usage_max", scenario)
    return (1.0 if grown else 0.2), ([] if usage is None else [f"/metrics: KV cache filled up to {usage:.0%}"])


def _of_preemptions(
    change: ServerChange, scenario: str, servers: tuple[ServerSide, ServerSide]
) -> tuple[float, list[str]]:
    """A consequence of a smaller cache is named after it."""
    del change
    counted = servers[1].per("preemptions", "requests", scenario)
    if counted is None or counted.mean <= 0:
        return 0.0, []
    return 0.9, [f"/metrics: {counted.mean:.2f} preemptions a request in {scenario}"]


def _of_graphs(change: ServerChange, scenario: str, servers: tuple[ServerSide, ServerSide]) -> tuple[float, list[str]]:
    """Batches beyond the largest graph of the candidate that the baseline had graphs for."""
    running = servers[1].largest("running_max", scenario)
    sent = [
        float(limit)
        for run in servers[1].runs
        for trial in run.trials
        if trial.scenario == scenario and isinstance(limit := trial.workload.get("max_concurrency"), int | float)
    ]
    batch = max(running or 0.0, max(sent, default=0.0))
    if not batch:
        return 0.5, []
    seen = f"batches of up to {batch:.0f} requests in {scenario}"
    return (1.0 if change.after < batch else 0.1), [seen]


_Directness = Callable[[ServerChange, str, tuple[ServerSide, ServerSide]], tuple[float, list[str]]]
_DIRECTNESS: Mapping[str, _Directness] = {
    "kv_cache_smaller": _of_cache,
    "preemptions": _of_preemptions,
    "graphs_smaller": _of_graphs,
}


BLOCK_SIZE = 16
"""Tokens in a block of the KV cache, if the server does not print it."""

_SWITCHES = {"enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "async_scheduling"}


def _counter_test(
    change: ServerChange, sides: tuple[ComparisonSide, ComparisonSide], suite: SuiteOut
) -> CounterTestOut | None:
    """None where no flag or variable is known that undoes the change."""
    side, setting = "candidate", _setting(change, sides[1].version)
    kind, _, name = change.finding.id.partition(":")
    if setting is None and kind == "argument_changed":
        side, setting = "baseline", _as_setting(name, change.after)
    if kind == "kv_cache_smaller":
        side, setting = "baseline", _args(num_gpu_blocks_override=max(1, int(change.after) // _block_size(sides[0])))
    if kind == "library_changed":
        packages: dict[str, str] = change.before
        if not SYSTEM_LIBRARIES.isdisjoint(packages):
            return None
        words = [f"{each} {number}" for each, number in packages.items()]
        text = f"{sides[1].version} with {' and '.join(words)}"
        return CounterTestOut(side="candidate", text=text, packages=packages, command=_attribute_command(sides, suite))
    if setting is None:
        return None
    arguments, env = setting
    words = [_flag(name, value) for name, value in arguments.items()]
    words += [f"{name}={value}" for name, value in env.items()]
    return CounterTestOut(
        side=side,
        text=f"{sides[side == 'candidate'].version} with {' '.join(words)}",
        engine_args=dict(arguments),
        env=dict(env),
        command=_command(sides, suite, words),
    )


_Setting = tuple[Mapping[str, ArgValue], Mapping[str, str]]


def _args(**arguments: ArgValue) -> _Setting:
    return arguments, {}


def _setting(change: ServerChange, candidate: Version) -> _Setting | None:
    kind, _, name = change.finding.id.partition(":")
    before = change.before
    match kind:
        case "graphs_smaller":
            if _knows(candidate, "max_cudagraph_capture_size"):
                return _args(max_cudagraph_capture_size=before)
            return _args(compilation_config=json.dumps({"max_cudagraph_capture_size": before}))
        case "backend_changed" if "/" not in str(before):
            return _backend(name, str(before), candidate)
        case "setting_changed" if "." not in name and _knows(candidate, name) and "/" not in str(before):
            return _resolved_setting(name, str(before))
        case "argument_changed":
            return _given_setting(name, before, candidate)
        case "async_scheduling_off" if _knows(candidate, "async_scheduling"):
            return _args(async_scheduling=True)
        case "prefix_caching_off" if _knows(candidate, "enable_prefix_caching"):
            return _args(enable_prefix_caching=True)
    return None


def _backend(part: str, before: str, candidate: Version) -> _Setting | None:
    match part:
        case "attention" if _knows(candidate, "attention_backend"):
            return _args(attention_backend=before)
        case "attention":
            return {}, {"VLLM_ATTENTION_BACKEND": before}
        case "moe" if _knows(candidate, "moe_backend"):
            return _args(moe_backend=before.lower().replace(" ", "_"))
        case "sampler":
            return {}, {"VLLM_USE_FLASHINFER_SAMPLER": "1" if "flashinfer" in before.lower() else "0"}
        case "model_runner":
            return {}, {"VLLM_USE_V2_MODEL_RUNNER": "1" if before == "V2" else "0"}
    return None


def _resolved_setting(name: str, before: str) -> _Setting | None:
    """A printed value as an argument takes it."""
    value = before.strip("'\"")
    if name in _SWITCHES or value in ("True", "False"):
        return _args(**{name: value == "True"})
    if value in ("None", "") or "<" in before or "(" in before:
        return None
    return _args(**{name: value.removeprefix("torch.")})


def _given_setting(name: str, before: Any, candidate: Version) -> _Setting | None:
    """What the baseline was given, or the default of the candidate where it was given nothing."""
    if before is None:
        build = release_tables.build_config(candidate)
        before = build.arguments[name].default if build is not None and name in build.arguments else None
    return _as_setting(name, before)


def _as_setting(name: str, value: Any) -> _Setting | None:
    """None for what is no value of a command line: unknown, a list, masked, or an object of vLLM's own."""
    if not isinstance(value, ArgValue) or (isinstance(value, str) and (MASK in value or value.startswith("<"))):
        return None
    return _args(**{name: value})


def _knows(version: Version, argument: str) -> bool:
    """Whether the build takes an argument; a build that is not known is taken for a new one."""
    build = release_tables.build_config(version)
    return build is None or argument in build.arguments


def _block_size(side: ComparisonSide) -> int:
    for run in side.counted:
        config: Any = run.server.get("config")
        size = config.get("block_size") if isinstance(config, Mapping) else None
        if isinstance(size, str) and size.isdecimal() and 0 < int(size) < 10_000:
            return int(size)
    return BLOCK_SIZE


def _flag(name: str, value: ArgValue) -> str:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return flag
    if value is False:
        return "--no-" + name.replace("_", "-")
    return f"{flag} {shlex.quote(str(value))}"


def _command(sides: tuple[ComparisonSide, ComparisonSide], suite: SuiteOut, words: Sequence[str]) -> str:
    """Both sides with the same setting, in a store of its own: the regression is gone if the setting was its cause.

    Imported results have no suite that could be measured again: the command then leaves the place for one.
    """
    line = "uv run --no-project --with vllm=={version} vllm serve {model} --port {port} "
    line += "--served-model-name {served_model_name} {engine_args}"
    # A brace that is no placeholder is doubled in a launch line.
    flags = [word.replace("{", "{{").replace("}", "}}") for word in words if word.startswith("--")]
    env = [word for word in words if not word.startswith("--")]
    launch = " ".join([*(["env", *env] if env else []), line, *flags])
    return shlex.join([*_measure_words(sides, suite), "--store", "counter-test.db", "--serve-command", launch])


def _attribute_command(sides: tuple[ComparisonSide, ComparisonSide], suite: SuiteOut) -> str:
    """For what no launch line can set."""
    return shlex.join([*_measure_words(sides, suite), "--attribute"])


def _measure_words(sides: tuple[ComparisonSide, ComparisonSide], suite: SuiteOut) -> list[str]:
    command = ["regress-gate", "compare", str(sides[0].version), str(sides[1].version), "--measure"]
    return [*command, "--suite", "SUITE" if suite.name == IMPORTED_SUITE.name else suite.argument]
