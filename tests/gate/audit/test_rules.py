"""Each rule on deployments of several releases: where it fires, where it is clear, and what it cannot tell."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from regress_gate.gate.audit.engine import RULES
from regress_gate.gate.audit.observations import Observations
from regress_gate.gate.audit.rule import Answer
from tests.factories.audits import a_log, a_window, ask, observed, statistics_line

FIRES, CLEAR, UNKNOWN, NOT_HERE = Answer.FIRES, Answer.CLEAR, Answer.CANNOT_TELL, Answer.NOT_APPLICABLE
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 131072,
}
MOE_LINE = "Using default MoE config. Performance might be sub-optimal! Config file not found at "
MOE_FILE = "/x/E=8,N=14336,device_name=NVIDIA_H200.json"


class Case(NamedTuple):
    rule: str
    name: str
    seen: Observations
    expected: Answer


def every_case() -> Iterator[Case]:
    yield from kernels()
    yield from cache()
    yield from parallelism()


def kernels() -> Iterator[Case]:
    for version, files in (("0.19.1", f"['{MOE_FILE}']"), ("0.32.0", f"{MOE_FILE}, /y/{MOE_FILE}")):
        yield Case("MOE001", version, observed(version, log=a_log(MOE_LINE + files, version=version)), FIRES)
        tuned = f"Using configuration from {MOE_FILE} for MoE layer."
        yield Case("MOE001", f"{version} tuned", observed(version, log=a_log(tuned, version=version)), CLEAR)
        yield Case("MOE001", f"{version} silent", observed(version, log=a_log(version=version)), CLEAR)
    yield Case("MOE001", "dense", observed(log=a_log(), config=LLAMA), NOT_HERE)
    yield Case("MOE001", "no log", observed(), UNKNOWN)


def cache() -> Iterator[Case]:
    busy = {"vllm:kv_cache_usage_perc": 0.99, "vllm:request_success_total": 100.0}
    for version in ("0.15.0", "0.32.0"):
        window = a_window({**busy, "vllm:num_preemptions_total": 30.0}, {})
        yield Case("KV003", f"{version} metrics", observed(version, metrics=window), FIRES)
        calm = a_window({**busy, "vllm:num_preemptions_total": 7.0}, {"vllm:num_preemptions_total": 7.0})
        yield Case("KV003", f"{version} calm since the first scrape", observed(version, metrics=calm), CLEAR)
        log = a_log(*[statistics_line(usage=99.0, preemptions=3)] * 6, version=version)
        yield Case("KV003", f"{version} log", observed(version, log=log), FIRES)
        log = a_log(*[statistics_line(usage=70.0)] * 6, version=version)
        yield Case("KV003", f"{version} calm log", observed(version, log=log), CLEAR)
    once = a_window({**busy, "vllm:num_preemptions_total": 30.0})
    yield Case("KV003", "counters since the start", observed(metrics=once), UNKNOWN)
    idle = {"vllm:kv_cache_usage_perc": 0.0, "vllm:request_success_total": 5.0, "vllm:num_preemptions_total": 2.0}
    yield Case("KV003", "no load", observed(metrics=a_window(idle, idle)), UNKNOWN)
    restarted = a_window({**busy, "vllm:num_preemptions_total": 1.0}, {"vllm:num_preemptions_total": 30.0})
    yield Case("KV003", "started again", observed(metrics=restarted), UNKNOWN)


def parallelism() -> Iterator[Case]:
    for version in ("0.19.1", "0.32.0"):
        for size, expected in ((6, FIRES), (8, CLEAR), (1, CLEAR)):
            seen = observed(version, config=LLAMA, engine_args={"tensor_parallel_size": size})
            yield Case("TP002", f"{version} {size}", seen, expected)
    yield Case("TP002", "unknown model", observed(engine_args={"tensor_parallel_size": 6}), UNKNOWN)


CASES = list(every_case())


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule} {case.name}" for case in CASES])
def test_a_rule_answers(case: Case) -> None:
    outcome = ask(case.rule, case.seen)
    assert outcome.answer is case.expected, outcome
    assert (outcome.answer is UNKNOWN) == bool(outcome.needs)
    assert outcome.evidence or outcome.answer is not FIRES


@pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])
def test_every_rule_fires_and_is_clear_on_two_releases(rule: object) -> None:
    for answer in (FIRES, CLEAR):
        versions = {
            case.seen.version
            for case in CASES
            if case.rule == rule.id and case.expected is answer  # type: ignore[attr-defined]
        }
        assert len(versions) >= 2, (answer, versions)
