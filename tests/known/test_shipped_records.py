"""The records that come with the program: they lint clean, and answer what operators ask."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from regress_gate.known.matching.findings import match_issues
from regress_gate.known.records.curation import lint_records
from regress_gate.known.records.loading import load_records
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, Effect, IssueFinding, IssueKind, Severity, Status
from regress_gate.model.suite import Workload
from regress_gate.model.version import Version
from tests.factories.records import ROOT

DOCUMENTATION = (ROOT / "docs" / "curating.md").read_text(encoding="utf-8")
RECORDS = load_records(ROOT / "known_issues")
R1 = {"accelerator": "H200", "model": "deepseek-ai/DeepSeek-R1", "engine_args": {"enable_expert_parallel": True}}
SM120 = {
    "accelerator": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "model": "Qwen/Qwen3.6-35B-A3B-FP8",
    "quantization": "fp8",
}
MIXTRAL = {"accelerator": "H200", "model": "mistralai/Mixtral-8x7B-Instruct-v0.1", "quantization": "none"}
DENSE = {"accelerator": "H100", "model": "meta-llama/Llama-3.1-8B-Instruct", "quantization": "none"}
GEMMA = {"model": "cyankiwi/gemma-4-26B-A4B-it-AWQ-4bit"}
MI300X = {"accelerator": "MI300X", "env": {"VLLM_ROCM_USE_AITER": "1"}}
ULTRA = {"accelerator": "B200", "model": "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "quantization": "bf16"}

RESEARCHED = {
    "vllm": [
        8807, 9413, 11251, 12380, 15664, 15870, 15881, 16158, 17540, 21096, 21334, 21601, 21799, 21852, 22956,
        24082, 24128, 25538, 25738, 26930, 28768, 29657, 29662, 30326, 30521, 30910, 30918, 31014, 31352, 33107,
        33155, 33771, 34377, 34507, 35368, 36117, 36286, 38169, 41603, 42186, 42325, 44022, 44191, 45372, 45943,
        47297, 47436, 49224, 50780, 51663, 53472,
    ],
    "vllm-ascend": [6371, 14327, 15658],
}  # fmt: skip
"""Threads by repository, which were given to the curators: each needs a record, or a reason why it has none."""


def answers(base: str | None, candidate: str, deployment: dict[str, Any]) -> dict[str, IssueFinding]:
    start = Version.parse(base) if base else None
    found = match_issues(RECORDS, Deployment.model_validate(deployment), start, Version.parse(candidate))
    return {finding.issue.id: finding for finding in found}


def test_they_lint_without_a_complaint() -> None:
    newest = max(record.reviewed for record in RECORDS)
    assert [str(one) for one in lint_records(ROOT / "known_issues", today=newest)] == []


def test_whoever_reads_all_of_them_again_parses_none_again() -> None:
    assert all(first is again for first, again in zip(RECORDS, load_records(ROOT / "known_issues"), strict=True))


def test_the_example_of_the_documentation_lints_without_a_complaint(tmp_path: Path) -> None:
    (_, example), *_ = (part.split("```yaml\n") for part in DOCUMENTATION.split("\n```\n") if "```yaml\n" in part)
    (tmp_path / "VLLM-41306.yaml").write_text(example, encoding="utf-8")
    assert lint_records(tmp_path, today=date(2026, 11, 21)) == []


@pytest.mark.parametrize(
    ("move", "deployment", "issue", "applies", "effect", "status"),
    [
        (("0.19.0", "0.19.1"), R1, "VLLM-28882", Applies.YES, Effect.CARRIED, Status.CLOSED_UNFIXED),
        (("0.11.0", "0.11.1"), R1, "VLLM-28882", Applies.YES, Effect.NEW, Status.CLOSED_UNFIXED),
        (("0.19.0", "0.19.1"), GEMMA, "VLLM-40591", Applies.YES, Effect.NEW, Status.FIX_NOT_IN_CANDIDATE),
        (("0.19.1", "0.22.0"), GEMMA, "VLLM-40591", Applies.YES, Effect.RESOLVED, Status.FIX_IN_CANDIDATE),
        (("0.19.1", "0.20.0"), MIXTRAL, "VLLM-41306", Applies.YES, Effect.NEW, Status.FIX_NOT_IN_CANDIDATE),
        (("0.22.1", "0.23.0"), MIXTRAL, "VLLM-41306", Applies.YES, Effect.RESOLVED, Status.FIX_IN_CANDIDATE),
        (("0.23.0", "0.24.0"), SM120, "VLLM-47130", Applies.YES, Effect.NEW, Status.FIX_NOT_IN_CANDIDATE),
        (("0.24.0", "0.25.0"), SM120, "VLLM-47130", Applies.YES, Effect.RESOLVED, Status.FIX_IN_CANDIDATE),
        (("0.26.0", "0.27.1"), SM120, "VLLM-51884", Applies.YES, Effect.NEW, Status.FIX_NOT_IN_CANDIDATE),
        (
            ("0.14.1", "0.15.0"),
            {**MI300X, "model": "deepseek-ai/DeepSeek-V3"},
            "VLLM-34641",
            Applies.YES,
            Effect.NEW,
            Status.FIX_NOT_IN_CANDIDATE,
        ),
        (("0.23.0", "0.26.0"), ULTRA, "VLLM-53472", Applies.YES, Effect.NEW, Status.OPEN),
        (
            (None, "0.26.0"),
            {"accelerator": "RTX 5090", "model": "Qwen/Qwen3.6-27B"},
            "VLLM-50780",
            Applies.YES,
            Effect.CARRIED,
            Status.OPEN,
        ),
    ],
)
def test_the_moves_that_the_records_are_about(
    move: tuple[str | None, str],
    deployment: dict[str, Any],
    issue: str,
    applies: Applies,
    effect: Effect,
    status: Status,
) -> None:
    found = answers(*move, deployment)[issue]
    assert (found.applies, found.effect, found.status) == (applies, effect, status)


@pytest.mark.parametrize(
    ("move", "deployment", "setting", "issue"),
    [
        (("0.23.0", "0.24.0"), SM120, {"env": {"VLLM_USE_DEEP_GEMM": "0"}}, "VLLM-47130"),
        (("0.19.1", "0.20.0"), MIXTRAL, {"engine_args": {"moe-backend": "triton"}}, "VLLM-41306"),
        (("0.23.0", "0.26.0"), ULTRA, {"engine_args": {"moe_backend": "flashinfer_cutlass"}}, "VLLM-53472"),
        (
            ("0.14.1", "0.15.0"),
            {**MI300X, "model": "deepseek-ai/DeepSeek-V3"},
            {"env": {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_USE_AITER_FP4BMM": "False"}},
            "VLLM-34641",
        ),
    ],
)
def test_their_workarounds_mitigate(
    move: tuple[str, str], deployment: dict[str, Any], setting: dict[str, Any], issue: str
) -> None:
    assert answers(*move, {**deployment, **setting})[issue].applies is Applies.MITIGATED


NAMED = {"VLLM-28882", "VLLM-31475", "VLLM-41306", "VLLM-47130", "VLLM-51884"}
VERSIONS = [("0.11.0", "0.33.0"), ("0.19.1", "0.20.0"), ("0.23.0", "0.24.0"), (None, "0.26.0")]


@pytest.mark.parametrize("versions", VERSIONS)
def test_a_dense_unquantized_model_on_h100_has_none_of_the_issues_of_others(versions: tuple[str | None, str]) -> None:
    found = answers(*versions, DENSE)
    assert {found[name].applies for name in NAMED & found.keys()} <= {Applies.NO}


@pytest.mark.parametrize("versions", VERSIONS)
def test_a_whole_launch_line_of_a_plain_deployment_leaves_little_to_read(versions: tuple[str | None, str]) -> None:
    """Records that apply to everybody are records that nobody reads: these are the bounds."""
    plain = {**DENSE, "complete": True, "env": {}, "distribution": "vllm", "kv_cache_dtype": "auto"}
    found = answers(*versions, plain).values()
    defaults = (IssueKind.DEFAULT_CHANGE, IssueKind.REMOVED_FLAG, IssueKind.NOT_A_BUG)
    troubles = [one for one in found if one.issue.kind not in defaults and one.effect is not Effect.RESOLVED]
    assert sum(one.applies is Applies.YES for one in troubles) <= 0.02 * len(RECORDS)
    assert sum(one.applies is Applies.UNKNOWN for one in troubles) <= 0.1 * len(RECORDS)


@pytest.mark.parametrize("versions", [("0.16.0", "0.17.0"), ("0.10.2", "0.11.0")])
def test_nothing_severe_is_open_for_a_whole_launch_line_of_a_plain_deployment(versions: tuple[str, str]) -> None:
    found = answers(*versions, {**DENSE, "complete": True}).values()
    brought = [one for one in found if one.effect is Effect.NEW and one.applies in (Applies.YES, Applies.UNKNOWN)]
    assert [one.issue.id for one in brought if one.issue.severity.rank >= Severity.HIGH.rank] == []


@pytest.mark.parametrize(
    ("model", "applies"),
    [
        ("openai/gpt-oss-120b", Applies.NO),
        ("deepseek-ai/DeepSeek-V3.1", Applies.NO),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", Applies.NO),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", Applies.UNKNOWN),
    ],
)
def test_models_that_are_published_with_quantized_weights_are_not_asked_for_it(model: str, applies: Applies) -> None:
    known = {"accelerator": "H200", "model": model, "complete": True}
    assert answers("0.19.1", "0.20.0", known)["VLLM-41306"].applies is applies


def test_there_are_as_many_as_promised() -> None:
    assert len(RECORDS) >= 150
    assert sum(any(part.change is not None for part in issue.signature) for issue in RECORDS) >= 60
    assert sum(any(work.is_checkable for work in issue.workarounds) for issue in RECORDS) >= 25


def test_every_researched_thread_has_a_record_or_a_reason() -> None:
    referred = {str(reference.url) for record in RECORDS for reference in record.references}
    refused = (ROOT / "known_issues" / "coverage.yaml").read_text(encoding="utf-8")
    for repository, numbers in RESEARCHED.items():
        address = f"https://github.com/vllm-project/{repository}"
        for number in numbers:
            has_record = not referred.isdisjoint({f"{address}/issues/{number}", f"{address}/pull/{number}"})
            assert has_record or re.search(rf"#{number}\b", refused), f"{repository}#{number}"


def test_every_kind_is_among_them() -> None:
    assert {issue.kind for issue in RECORDS} == set(IssueKind)


def test_without_the_expert_parallel_flag_the_missing_fact_is_named() -> None:
    found = answers("0.19.0", "0.19.1", {**R1, "engine_args": {}})["VLLM-28882"]
    assert found.applies is Applies.UNKNOWN
    assert "--engine-arg enable_expert_parallel=…" in found.why


def test_a_dense_distillation_is_not_deepseek_r1() -> None:
    dense = {**R1, "model": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"}
    assert answers("0.19.0", "0.19.1", dense)["VLLM-28882"].applies is Applies.NO


def test_high_concurrency_is_outside_of_28882() -> None:
    moved = match_issues(
        RECORDS,
        Deployment.model_validate(R1),
        Version.parse("0.19.0"),
        Version.parse("0.19.1"),
        [Workload(concurrency=64)],
    )
    assert {one.issue.id: one.applies for one in moved}["VLLM-28882"] is Applies.NO


def test_fp8_on_mi300x_is_a_shortcoming_that_no_move_brings() -> None:
    running = {"accelerator": "MI300X", "model": "zai-org/GLM-4.7-FP8", "quantization": "fp8"}
    for base, candidate in (("0.13.0", "0.14.0"), ("0.32.0", "0.33.0"), (None, "0.33.0")):
        found = answers(base, candidate, running)["VLLM-31475"]
        assert (found.applies, found.effect, found.status) == (Applies.YES, Effect.CARRIED, Status.OPEN)


def test_28882_is_not_called_fixed_in_any_release() -> None:
    for candidate in ("0.19.1", "0.20.0", "0.33.0"):
        assert answers("0.19.0", candidate, R1)["VLLM-28882"].status is Status.CLOSED_UNFIXED
