"""Matching a record with a deployment (four answers) and with a move (three effects)."""

from typing import Any

import pytest

from regress_gate.known.matching.findings import match_issues, match_scope
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, Effect
from regress_gate.model.suite import Workload
from regress_gate.model.version import Version
from tests.factories.records import IN_SCOPE, affected, record

FULL = {
    "accelerator": ["H200", "B200"],
    "model": ["org/Model*"],
    "quantization": ["*fp8*"],
    "engine_args": {"tensor_parallel_size": [4, 8], "enable_expert_parallel": True},
    "env": {"VLLM_X": "1"},
}
FITS = {
    "accelerator": "NVIDIA H200",
    "model": "org/Model-8B",
    "quantization": "FP8",
    "engine_args": {"tensor-parallel-size": "8", "enable_expert_parallel": "True"},
    "env": {"VLLM_X": "true"},
}


def deployment(**changes: Any) -> Deployment:
    return Deployment.model_validate({**FITS, **changes})


def test_a_deployment_that_every_key_fits_is_affected() -> None:
    applies, why = match_scope(record(scope=FULL), deployment())
    assert applies is Applies.YES
    assert why.startswith("accelerator NVIDIA H200; model org/Model-8B; quantization FP8; engine argument tensor_")


SERVER_CODE = [{"file": "vllm/entrypoints/openai/api_server.py", "present": "some_route"}]
MODEL_CODE = [{"file": "vllm/model_executor/models/qwen3_omni_moe_thinker.py", "present": "some_line"}]
ENGINE_CODE = [{"file": "vllm/v1/core/sched/scheduler.py", "present": "some_line"}]


@pytest.mark.parametrize(
    ("changes", "distribution", "expected"),
    [
        ({"kind": "default-change"}, "rayproject/ray-llm:2.55.0", Applies.UNKNOWN),
        ({"kind": "default-change"}, "vllm/vllm-openai:v0.26.0", Applies.YES),
        ({"kind": "default-change"}, None, Applies.YES),
        ({"kind": "default-change", "scope": {"distribution": ["*ray-llm*"]}}, "ray-llm", Applies.YES),
        ({"kind": "crash", "code": SERVER_CODE}, "kserve/huggingfaceserver:v0.17", Applies.UNKNOWN),
        ({"kind": "crash", "code": ENGINE_CODE}, "kserve/huggingfaceserver:v0.17", Applies.YES),
        ({"kind": "accuracy", "code": MODEL_CODE}, "vllm-omni", Applies.UNKNOWN),
        ({"kind": "accuracy", "code": MODEL_CODE}, "rayproject/ray-llm:2.55.0", Applies.YES),
        ({"kind": "default-change"}, "ghcr.io/opendatahub/llmisvc", Applies.YES),
    ],
)
def test_a_program_around_vllm_may_bring_defaults_a_server_and_models_of_its_own(
    changes: dict[str, Any], distribution: str | None, expected: Applies
) -> None:
    applies, why = match_scope(record(**{"scope": {}, **changes}), Deployment(distribution=distribution))
    assert (applies, "may differ here" in why) == (expected, expected is Applies.UNKNOWN)


def test_a_server_that_is_started_with_omni_is_one_of_vllm_omni() -> None:
    changed = record(scope={}, kind="default-change")
    applies, why = match_scope(changed, Deployment(engine_args={"omni": True}, complete=True))
    assert (applies, why) == (Applies.UNKNOWN, "vllm-omni may differ here")


def test_a_record_without_scope_applies_to_every_deployment() -> None:
    assert match_scope(record(scope={}), Deployment()) == (Applies.YES, "the record applies to every deployment")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"accelerator": "H100"}, "accelerator H100 is not H200 or B200"),
        ({"model": "org/Other"}, "model org/Other is not org/Model*"),
        ({"quantization": "none"}, "quantization none is not *fp8*"),
        ({"quantization": "BF16"}, "quantization BF16 is not *fp8*"),
        ({"engine_args": {"tensor_parallel_size": 2}}, "engine argument tensor_parallel_size 2 is not 4 or 8"),
        ({"engine_args": {"no_enable_expert_parallel": True}}, "engine argument enable_expert_parallel false is not"),
        ({"env": {"VLLM_X": "0"}}, "variable VLLM_X 0 is not 1"),
    ],
)
def test_one_key_that_does_not_hold_decides_and_is_named_with_both_values(changes: dict[str, Any], why: str) -> None:
    applies, found = match_scope(record(scope=FULL), deployment(**changes))
    assert applies is Applies.NO
    assert found.startswith(why)


def test_a_key_that_does_not_hold_outweighs_every_fact_that_is_missing() -> None:
    applies, why = match_scope(record(scope=FULL), Deployment(model="org/Other"))
    assert (applies, why) == (Applies.NO, "model org/Other is not org/Model*")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"accelerator": None}, "the accelerator is not known (--accelerator)"),
        ({"model": None}, "the model is not known (--model)"),
        ({"quantization": None}, "the quantization is not known (--quantization)"),
        (
            {"engine_args": {"tensor_parallel_size": 8}},
            "the engine argument enable_expert_parallel is not known (--engine-arg enable_expert_parallel=…)",
        ),
        ({"env": {}}, "the variable VLLM_X is not known (--env VLLM_X=…)"),
        (
            {"model": "other/Model-8B"},
            "model other/Model-8B may be org/Model*, but its publisher is another or not given (--model)",
        ),
        (
            {"quantization": "compressed-tensors"},
            "quantization compressed-tensors does not say whether it is *fp8* (--quantization)",
        ),
    ],
)
def test_a_missing_fact_is_named_with_the_flag_that_gives_it(changes: dict[str, Any], why: str) -> None:
    assert match_scope(record(scope=FULL), deployment(**changes)) == (Applies.UNKNOWN, why)


def test_all_missing_facts_are_named_at_once() -> None:
    applies, why = match_scope(record(), Deployment())
    assert applies is Applies.UNKNOWN
    assert why == "the accelerator is not known (--accelerator); the model is not known (--model)"


@pytest.mark.parametrize(
    ("stated", "argument", "applies"),
    [
        (None, "fp8", Applies.YES),
        ("fp8", "compressed-tensors", Applies.YES),
        ("awq", "compressed-tensors", Applies.NO),
        (None, "compressed-tensors", Applies.UNKNOWN),
        (None, "awq", Applies.NO),
    ],
)
def test_the_quantization_argument_is_a_fact_too(stated: str | None, argument: str, applies: Applies) -> None:
    issue = record(scope={"quantization": ["*fp8*"]})
    assert match_scope(issue, Deployment(quantization=stated, engine_args={"quantization": argument}))[0] is applies


def test_a_models_name_is_no_fact_about_its_quantization() -> None:
    issue = record(scope={"quantization": ["*fp8*"]})
    assert match_scope(issue, Deployment(model="org/Model-FP8"))[0] is Applies.UNKNOWN


@pytest.mark.parametrize(
    ("workloads", "applies", "why"),
    [
        ([], Applies.YES, "affects workloads with concurrency <=8, input_len >1024; no workload is given"),
        (
            [Workload(concurrency=64, input_len=2048)],
            Applies.NO,
            "affects workloads with concurrency <=8, input_len >1024, as none of the given ones",
        ),
        ([Workload(concurrency=8, input_len=1024)], Applies.NO, "as none of the given ones"),
        ([Workload(concurrency=64), Workload(concurrency=8, input_len=1025)], Applies.YES, "as one of the given ones"),
        ([Workload(concurrency=4)], Applies.YES, "as one of the given ones"),
        ([Workload()], Applies.YES, "as one of the given ones"),
    ],
)
def test_a_workload_region_limits_the_workloads(workloads: list[Workload], applies: Applies, why: str) -> None:
    issue = record(scope={"workload": {"concurrency": "<=8", "input_len": ">1024"}})
    found, found_why = match_scope(issue, Deployment(), workloads)
    assert found is applies
    assert why in found_why


@pytest.mark.parametrize(
    ("condition", "inside", "outside"),
    [("<=8", 8, 9), ("<8", 7, 8), (">=8", 8, 7), (">8", 9, 8), ("8", 8, 9), ("== 8", 8, 7)],
)
def test_conditions_on_numbers(condition: str, inside: int, outside: int) -> None:
    issue = record(scope={"workload": {"concurrency": condition}})
    assert match_scope(issue, Deployment(), [Workload(concurrency=inside)])[0] is Applies.YES
    assert match_scope(issue, Deployment(), [Workload(concurrency=outside)])[0] is Applies.NO


BOTH = {"text": "Both are needed.", "engine_args": {"moe_backend": "triton"}, "env": {"VLLM_Y": "0"}}


@pytest.mark.parametrize(
    ("engine_args", "env", "applies"),
    [
        ({"moe-backend": "Triton"}, {"VLLM_Y": "False"}, Applies.MITIGATED),
        ({"moe_backend": "triton"}, {}, Applies.YES),
        ({}, {"VLLM_Y": "0"}, Applies.YES),
        ({"moe_backend": "triton"}, {"VLLM_Y": "1"}, Applies.YES),
    ],
)
def test_a_workaround_counts_when_all_of_it_is_active(
    engine_args: dict[str, Any], env: dict[str, str], applies: Applies
) -> None:
    running = IN_SCOPE.model_copy(update={"engine_args": engine_args, "env": env})
    found, why = match_scope(record(workarounds=[BOTH]), running)
    assert found is applies
    if applies is Applies.MITIGATED:
        assert why == "a workaround is active: moe_backend=triton, VLLM_Y=0"


def test_one_of_several_workarounds_is_enough_and_plain_advice_is_never_active() -> None:
    advice, one = {"text": "Measure."}, {"text": "Off.", "env": {"VLLM_Y": "0"}}
    running = IN_SCOPE.model_copy(update={"env": {"VLLM_Y": "0"}})
    assert match_scope(record(workarounds=[advice]), running)[0] is Applies.YES
    assert match_scope(record(workarounds=[advice, BOTH, one]), running)[0] is Applies.MITIGATED


def test_an_active_workaround_is_named_beside_a_missing_fact() -> None:
    running = Deployment(accelerator="H200", engine_args={"moe_backend": "triton"})
    applies, why = match_scope(record(), running)
    assert applies is Applies.UNKNOWN
    assert why.endswith("if it applies, a workaround is active: moe_backend=triton")


def one_finding(base: str | None, candidate: str, **changes: Any) -> tuple[Applies, Effect, str] | None:
    found = match_issues([record(**changes)], IN_SCOPE, Version.parse(base) if base else None, Version.parse(candidate))
    return (found[0].applies, found[0].effect, found[0].effect_why) if found else None


@pytest.mark.parametrize(
    ("base", "candidate", "effect"),
    [
        ("0.19.1", "0.20.0", Effect.NEW),
        ("0.20.0", "0.22.0", Effect.CARRIED),
        ("0.22.0", "0.23.0", Effect.RESOLVED),
        ("0.20.0", "0.19.1", Effect.RESOLVED),
        ("0.23.0", "0.22.0", Effect.NEW),
        ("0.19.0", "0.19.1", None),
        ("0.19.0", "0.23.0", None),
        (None, "0.22.0", Effect.CARRIED),
        (None, "0.23.0", None),
    ],
)
def test_what_the_move_does(base: str | None, candidate: str, effect: Effect | None) -> None:
    found = one_finding(base, candidate)
    assert (found and found[1]) == effect
    if found:
        assert found[0] is Applies.YES


def test_without_a_base_nothing_is_called_new() -> None:
    found = one_finding(None, "0.20.0")
    assert found is not None
    assert found[1:] == (
        Effect.CARRIED,
        "no base version given: 0.20.0 has it (affected: 0.20.0 to before 0.23.0)",
    )


NIGHTLY = "0.23.1rc1.dev1403+g4080263bb"


@pytest.mark.parametrize(
    ("base", "candidate", "worst"),
    [
        ("0.19.1", NIGHTLY, Effect.NEW),
        ("0.22.0", NIGHTLY, Effect.CARRIED),
        (NIGHTLY, "0.22.0", Effect.NEW),
        (NIGHTLY, "0.23.0", Effect.RESOLVED),
        (NIGHTLY, f"{NIGHTLY}.cu129", Effect.NEW),
        (None, NIGHTLY, Effect.CARRIED),
    ],
)
def test_a_build_without_an_order_keeps_the_finding_as_unknown(base: str | None, candidate: str, worst: Effect) -> None:
    found = one_finding(base, candidate)
    assert found is not None
    applies, effect, why = found
    assert (applies, effect) == (Applies.UNKNOWN, worst)
    assert "has it is not known" in why


def test_a_deployment_out_of_scope_stays_out_whatever_the_build() -> None:
    (found,) = match_issues([record()], Deployment(accelerator="H100"), None, Version.parse(NIGHTLY))
    assert found.applies is Applies.NO


@pytest.mark.parametrize("kind", ["default-change", "removed-flag"])
def test_changes_before_the_move_are_left_out(kind: str) -> None:
    assert one_finding("0.20.0", "0.21.0", kind=kind) is None
    crossed = one_finding("0.19.0", "0.21.0", kind=kind)
    assert crossed is not None
    assert crossed[1] is Effect.NEW


@pytest.mark.parametrize("kind", ["default-change", "removed-flag"])
def test_without_a_base_only_what_changed_in_that_series_is_news(kind: str) -> None:
    assert one_finding(None, "0.20.0", kind=kind) is not None
    assert one_finding(None, "0.20.2", kind=kind) is not None
    unset = {"scope": {"env": {"VLLM_GONE": ["1"]}}, "workarounds": []}
    assert one_finding(None, "0.21.0", kind=kind, **unset) is None
    assert one_finding(None, "0.21.0", **unset) is not None


def test_a_flag_removed_long_ago_matters_if_it_is_set() -> None:
    gone = record(kind="removed-flag", scope={"env": {"VLLM_GONE": ["1"]}}, workarounds=[])
    setting, other = (Deployment(env={"VLLM_GONE": value}) for value in ("1", "0"))
    assert match_issues([gone], setting, None, Version.parse("0.22.0"))[0].applies is Applies.YES
    assert match_issues([gone], other, None, Version.parse("0.22.0")) == []


@pytest.mark.parametrize(
    ("base", "kind", "applies"),
    [
        ("0.20.0", "startup", Applies.NO),
        ("0.19.1", "startup", Applies.UNKNOWN),  # the move would bring it
        (None, "startup", Applies.UNKNOWN),
        (NIGHTLY, "startup", Applies.UNKNOWN),  # whether it has the issue is not known
        ("0.20.0", "performance", Applies.UNKNOWN),
    ],
)
def test_a_failed_start_that_the_running_version_has_too_is_none_of_this_server(
    base: str | None, kind: str, applies: Applies
) -> None:
    running = None if base is None else Version.parse(base)
    (found,) = match_issues([record(kind=kind)], Deployment(), running, Version.parse("0.21.0"))
    assert found.applies is applies
    if applies is Applies.NO:
        assert found.why == "0.20.0 has it too, and the server that runs now did start"
    assert match_issues([record(kind=kind)], IN_SCOPE, running, Version.parse("0.21.0"))[0].applies is not Applies.NO


def test_a_slow_start_that_the_running_version_has_too_still_may_concern_it() -> None:
    slow = record(kind="startup", signature=[{"metric": "startup_time", "direction": "worse", "change": None}])
    (found,) = match_issues([slow], Deployment(), Version.parse("0.20.0"), Version.parse("0.21.0"))
    assert found.applies is Applies.UNKNOWN


def test_a_finding_names_the_flags_that_it_waits_for() -> None:
    (found,) = match_issues([record()], Deployment(), None, Version.parse("0.21.0"))
    assert found.missing == ("--accelerator", "--model")
    (found,) = match_issues([record()], IN_SCOPE, None, Version.parse("0.21.0"))
    assert found.missing == ()


def test_findings_are_ordered_by_what_matters() -> None:
    resolved = [affected({"introduced": "0.18.0"}, {"fixed": "0.20.0"})]
    carried = [affected({"introduced": "0.18.0"})]
    issues = [
        record(id="VLLM-9", scope={"accelerator": ["H100"]}),
        record(id="VLLM-8", affected=resolved),
        record(id="VLLM-7", affected=carried),
        record(id="VLLM-6", scope={"quantization": ["fp8"]}, severity="critical"),
        record(id="VLLM-5", severity="low"),
        record(id="VLLM-4", severity="critical"),
        record(id="VLLM-3", severity="low"),
        record(id="VLLM-2", workarounds=[{"text": "On.", "engine_args": {"block_size": 16}}]),
    ]
    running = IN_SCOPE.model_copy(update={"engine_args": {"block_size": 16}})
    found = match_issues(issues, running, Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert [(one.issue.id, one.applies.value, one.effect.value) for one in found] == [
        ("VLLM-4", "yes", "new"),
        ("VLLM-3", "yes", "new"),
        ("VLLM-5", "yes", "new"),
        ("VLLM-7", "yes", "carried"),
        ("VLLM-8", "yes", "resolved"),
        ("VLLM-6", "unknown", "new"),
        ("VLLM-2", "mitigated", "new"),
        ("VLLM-9", "no", "new"),
    ]
