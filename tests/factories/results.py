"""Results made by hand, one for each situation that a report has to tell well. Not for numbers: these are invented."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import NormalDist
from typing import Any

from regress_gate.model.issue import Applies, Effect, IssueKind, Severity, Status
from regress_gate.model.metric import metric
from regress_gate.model.result import (
    AuditEffect,
    AuditFindingOut,
    CauseOut,
    ChangePointOut,
    CostOut,
    CounterTestOut,
    CounterTestOutcome,
    CounterTestSeriesOut,
    CoverageOut,
    Decision,
    DifferenceOut,
    DistributionOut,
    ExplanationOut,
    FailedRun,
    IssueObservation,
    KnownIssueOut,
    LoadCurveOut,
    LoadPointOut,
    MeasuredChangeOut,
    Move,
    ObjectiveSide,
    ObservedCauseOut,
    QuantilesOut,
    Reason,
    ReasonCode,
    Result,
    ReviewDepth,
    RunOut,
    SeriesResult,
    SideSummary,
    SuiteOut,
    TestbedOut,
    Verdict,
    VersionLevelOut,
    VersionSide,
    VoidRun,
    WaiverOut,
    WorkaroundOut,
)
from regress_gate.report import RenderOptions, render
from regress_gate.report.views.result_view import ResultView


def render_result(result: Result, format_: str = "table", options: RenderOptions | None = None) -> str:
    return render(ResultView(result), format_, options)


CREATED = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def a_series(
    scenario: str = "chat-c8",
    name: str = "ttft_p99",
    *,
    means: tuple[float | None, float | None] = (0.1234, 0.1251),
    change: float | None = 0.0138,
    interval: tuple[float | None, float | None] | None = (-0.011, 0.0389),
    verdict: Verdict = Verdict.WITHIN_MARGIN,
    runs: tuple[int, int] = (5, 5),
    cv: tuple[float | None, float | None] = (0.021, 0.018),
    gated: bool = True,
    margin: float = 0.1,
    **more: Any,
) -> SeriesResult:
    known = metric(name)
    return SeriesResult(
        scenario=scenario,
        metric=name,
        unit=known.unit,
        direction=known.direction,
        scale=known.scale,
        gated=gated,
        baseline=SideSummary(mean=means[0], runs=runs[0], cv=cv[0], requests=200 * runs[0]),
        candidate=SideSummary(mean=means[1], runs=runs[1], cv=cv[1], requests=200 * runs[1]),
        change=change,
        interval=interval,
        confidence=0.95,
        p_worse=0.12 if interval else None,
        q_worse=0.3 if interval and gated else None,
        margin=margin,
        verdict=verdict,
        **more,
    )


def an_issue(number: int = 28882, **changes: Any) -> KnownIssueOut:
    return KnownIssueOut(
        **{
            "id": f"VLLM-{number}",
            "summary": "DeepGEMM MoE kernels for small M raise TTFT on H200 expert-parallel DeepSeek-R1",
            "kind": IssueKind.PERFORMANCE,
            "severity": Severity.HIGH,
            "version_regression": True,
            "url": f"https://github.com/vllm-project/vllm/issues/{number}",
            "applies": Applies.YES,
            "why": "accelerator H200, model deepseek-ai/DeepSeek-R1-0528 and enable_expert_parallel=true match",
            "status": Status.CLOSED_UNFIXED,
            "status_why": "closed as stale without a linked change; seen on 2026-11-20",
            "effect": Effect.NEW,
            "effect_why": "introduced in 0.20.0; 0.19.0 is not affected",
            "blocks": False,
            "workarounds": [
                WorkaroundOut(
                    text="Use the Triton kernels for the experts instead of DeepGEMM.",
                    env={"VLLM_MOE_USE_DEEP_GEMM": "0"},
                    cost="about 2 % of throughput at high concurrency",
                )
            ],
            **changes,
        }
    )


def a_failed_run(**changes: Any) -> FailedRun:
    return FailedRun(
        **{
            "side": "candidate",
            "run": "run:17 (20261121T0900Z-1f2e/03-candidate)",
            "kind": "died_at_start",
            "text": "the server died at its start, 12 s after it (exit status 1)",
            "lines": [
                "ValueError: no attention backend supports head size 80 with fp8_e5m2",
                "RuntimeError: Engine core initialization failed",
            ],
            **changes,
        }
    )


def a_cause(**changes: Any) -> ObservedCauseOut:
    cause = ObservedCauseOut(
        finding="kv_cache_smaller",
        text="KV cache 18% smaller",
        evidence=["start log: 174,720 → 143,270 tokens (5 server starts a side)"],
        weight=0.97,
        counter_test=CounterTestOut(
            side="baseline",
            text="0.19.0 with --num-gpu-blocks-override 8954",
            engine_args={"num_gpu_blocks_override": 8954},
            command="regress-gate compare 0.19.0 0.20.0 --measure --suite cpu-tiny",
        ),
    )
    return cause.model_copy(update=changes)


def _measured_test(text: str) -> CounterTestOut:
    """A counter-test that confirmed its cause."""
    restored = MeasuredChangeOut(change=0.004, interval=(-0.01, 0.02), verdict=Verdict.WITHIN_MARGIN, runs=3, text=text)
    lost = MeasuredChangeOut(change=0.5, interval=(0.46, 0.54), verdict=Verdict.REGRESSION, runs=3, text=text)
    outcome = CounterTestOutcome.RESTORES
    series = CounterTestSeriesOut(series=text, outcome=outcome, from_baseline=restored, to_candidate=lost)
    return CounterTestOut(
        side="candidate",
        text=text,
        engine_args={text: text},
        command=text,
        outcome=outcome,
        outcome_text=text,
        measured=[series],
    )


def a_change(name: str = "--swap-space", **changes: Any) -> dict[str, Any]:
    return {
        "kind": "flag_removed",
        "name": name,
        "before": 4,
        "after": None,
        "matters": "blocks",
        "why": "the candidate does not take --swap-space (removed without a successor)",
        **changes,
    }


def a_result(**changes: Any) -> Result:
    return Result(
        **{
            "tool_version": "0.1.0",
            "created": CREATED,
            "decision": Decision.PASS,
            "exit_code": 0,
            "advice": "Move to 0.20.1.",
            "reasons": [],
            "baseline": VersionSide(version="0.19.0", commit="4e1f", variant="cuda", runs=5, origin="shipped"),
            "candidate": VersionSide(version="0.20.1", runs=5, origin="store"),
            "suite": SuiteOut(name="online-small", version="3"),
            "testbed": TestbedOut(name="h200-node"),
            **changes,
        }
    )


def passing() -> Result:
    return a_result(
        series=[
            a_series("chat-c8", "ttft_p99"),
            a_series(
                "chat-c8",
                "tpot_mean",
                means=(0.00821, 0.00807),
                change=-0.017,
                interval=(-0.031, -0.003),
                verdict=Verdict.IMPROVEMENT,
                margin=0.05,
            ),
            a_series(
                "chat-c8",
                "output_throughput",
                means=(912.4, 927.0),
                change=-0.0158,
                interval=(-0.03, -0.001),
                verdict=Verdict.IMPROVEMENT,
                margin=0.05,
            ),
            a_series("chat-c8", "itl_p99", means=(0.0193, 0.0195), change=0.0103, gated=False),
            a_series(
                "chat-c8",
                "failed_requests",
                means=(0.0, 0.0),
                change=0.0,
                interval=(0.0, 0.0),
                cv=(None, None),
                margin=0.005,
            ),
            a_series(
                "batch-c256",
                "output_throughput",
                means=(12345.6, 12290.1),
                change=0.0045,
                interval=(-0.012, 0.021),
                margin=0.05,
            ),
            a_series(
                "batch-c256",
                "peak_memory",
                means=(7.62e10, 7.63e10),
                change=0.0013,
                interval=(-0.001, 0.004),
                margin=0.05,
            ),
            a_series(
                "batch-c256",
                "startup_time",
                means=(41.2, 43.9),
                change=0.0655,
                interval=(0.021, 0.112),
                verdict=Verdict.UNDECIDED,
                gated=False,
                runs_needed=9,
            ),
        ],
        known_issues=[
            an_issue(40111, applies=Applies.NO, why="accelerator is H200, the issue needs MI300X"),
            an_issue(40112, applies=Applies.NO, why="no LoRA adapter is served"),
        ],
        reasons=[
            Reason(code=ReasonCode.ALL_WITHIN_MARGIN, text="all 6 gated series are shown to be within their margins"),
            Reason(code=ReasonCode.NO_BLOCKING_ISSUE, text="none of 2 known issues applies"),
        ],
    )


def with_pictures(result: Result) -> Result:
    """The result with every run, the distributions of its first scenario, and where its first regression came from."""
    hours = iter(range(100))

    def run(block: int, side: str, number: int, state: str = "counted", why: str = "") -> RunOut:
        started = CREATED - timedelta(days=2 if block < 4 else 1) + timedelta(hours=next(hours))
        return RunOut(side=side, run=f"run:{number}", started=started, block=block, state=state, why=why)

    runs = [
        run(block, side, 2 * block + place)
        for block in range(1, 6)
        for place, side in enumerate(("baseline", "candidate") if block % 2 else ("candidate", "baseline"), 1)
    ]
    runs.insert(5, run(3, "candidate", 17, "void", "other processes kept 3.2 CPU cores busy (limit 1)"))
    runs.append(run(6, "candidate", 18, "failed", "the server died at its start"))
    return result.model_copy(
        update={
            "runs": runs,
            "series": [_with_run_values(one, runs) if one.gated else one for one in result.series],
            "distributions": [a_distribution(latency) for latency in ("ttft", "tpot", "e2el")],
            "costs": [a_cost(), a_cost("chat-c1", gpus=1)],
            "load_curves": [a_load_curve("ttft_p95", limit=0.5), a_load_curve("tpot_median")],
            "change_points": [a_change_point()],
        }
    )


def _with_run_values(one: SeriesResult, runs: Sequence[RunOut]) -> SeriesResult:
    values: list[float | None] = []
    for place, made in enumerate(runs):
        mean = (one.baseline if made.side == "baseline" else one.candidate).mean
        ripple = 1 + 0.03 * math.sin(1.7 * place + len(one.metric)) + (0.2 if made.state == "void" else 0)
        values.append(None if made.state == "failed" or mean is None else round(mean * ripple, 6))
    return one.model_copy(update={"run_values": values})


def a_cost(scenario: str = "chat-c8", *, gpus: int = 2, **changes: Any) -> CostOut:
    return CostOut(
        **{
            "scenario": scenario,
            "basis": "output_throughput",
            "gpu_hour": 2.5,
            "gpus": gpus,
            "baseline": ObjectiveSide(level=1.5222, interval=(1.49, 1.555), runs=5),
            "candidate": ObjectiveSide(level=1.6805, interval=(1.645, 1.717), runs=5),
            "change": 0.104,
            "interval": (0.081, 0.127),
            "confidence": 0.9,
            "text": f"{scenario}: the upgrade costs 10.4% [8.1%, 12.7%] more per million output tokens "
            "(5 and 5 server starts)",
            **changes,
        }
    )


def a_load_curve(latency: str = "ttft_p95", *, limit: float | None = None) -> LoadCurveOut:
    """A closed loop in which the candidate is full earlier."""

    def level(value: float, spread: float) -> ObjectiveSide:
        ends = (round(value * (1 - spread), 6), round(value * (1 + spread), 6))
        return ObjectiveSide(level=round(value, 6), interval=ends, runs=5)

    def sides(load: int, most: float) -> tuple[ObjectiveSide, ObjectiveSide]:
        throughput = 110 * load / (1 + 110 * load / most)
        waiting = 0.004 * load * (1 + 110 * load / most) if latency.startswith("ttft") else 0.0
        seconds = waiting + (0.03 if latency.startswith("ttft") else 0.0) + load / throughput
        return level(throughput, 0.03), level(seconds, 0.06)

    points = []
    for load in (1, 8, 32, 64, 128):
        (base, base_latency), (cand, cand_latency) = sides(load, 4000), sides(load, 3500)
        points.append(
            LoadPointOut(
                load=load,
                scenario=f"chat-c{load}",
                baseline_throughput=base,
                baseline_latency=base_latency,
                candidate_throughput=cand,
                candidate_latency=cand_latency,
            )
        )
    return LoadCurveOut(
        load="concurrency",
        throughput="output_throughput",
        latency=latency,
        limit=limit,
        confidence=0.9,
        points=points,
    )


def a_distribution(latency: str = "ttft", **changes: Any) -> DistributionOut:
    levels = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]

    def side(scale: float) -> QuantilesOut:
        values = [round(scale * math.exp(0.4 * NormalDist().inv_cdf(level)), 6) for level in levels]
        spread = [0.04 + 0.1 * level for level in levels]
        return QuantilesOut(
            values=values,
            lowest=[round(value * (1 - share), 6) for value, share in zip(values, spread, strict=True)],
            highest=[round(value * (1 + share), 6) for value, share in zip(values, spread, strict=True)],
            runs=5,
        )

    scale = {"ttft": 0.12, "tpot": 0.008, "e2el": 1.4}[latency]
    return DistributionOut(
        **{
            "scenario": "chat-c8",
            "latency": latency,
            "source": "samples",
            "levels": levels,
            "baseline": side(scale),
            "candidate": side(scale * (1.3 if latency == "ttft" else 1.01)),
            **changes,
        }
    )


def a_change_point(**changes: Any) -> ChangePointOut:
    levels = [
        ("0.18.0", 0.119, "before"), ("0.19.0", 0.1234, "before"), ("0.19.1", 0.1251, "before"),
        ("0.20.0rc1", 0.15, "unknown"), ("0.20.0", 0.181, "after"), ("0.20.1", 0.1832, "after"),
    ]  # fmt: skip
    return ChangePointOut(
        **{
            "series": "chat-c8/ttft_p99",
            "kind": "step",
            "version": "0.20.0",
            "after": "0.19.1",
            "untold": ["0.20.0rc1"],
            "is_candidates": False,
            "before_baseline": None,
            "text": "this step came after 0.19.1 and with 0.20.0 at the latest, not with 0.20.1",
            "versions": [
                VersionLevelOut(
                    version=version, runs=5, mean=mean, lowest=0.96 * mean, highest=1.05 * mean, position=position
                )
                for version, mean, position in levels
            ],
            **changes,
        }
    )


def failing() -> Result:
    return with_pictures(_failing())


def _failing() -> Result:
    thin_tail = "200 requests a run: the p99 of a run rests on its two slowest requests"
    return a_result(
        decision=Decision.FAIL,
        exit_code=1,
        advice="Stay on 0.19.0, or set VLLM_MOE_USE_DEEP_GEMM=0 and measure 0.20.1 again.",
        suite=SuiteOut(name="online-small", version="3", notice="A CPU suite: it says nothing about accelerators."),
        testbed=TestbedOut(
            name="h200-node",
            differences=[DifferenceOut(what="flashinfer", baseline="0.4.1", candidate="0.5.0", blocks=False)],
        ),
        candidate=VersionSide(version="0.20.1", commit="9c3a5d1f00aa", runs=6, origin="store"),
        void_runs=[VoidRun(side="candidate", run="17", reason="other processes kept 3.2 CPU cores busy (limit 1)")],
        series=[
            a_series(
                "chat-c8",
                "ttft_p99",
                means=(0.1234, 0.1832),
                change=0.485,
                interval=(0.402, 0.574),
                verdict=Verdict.REGRESSION,
                notes=[thin_tail],
                runs=(5, 6),
            ),
            a_series(
                "chat-c8",
                "ttft_mean",
                means=(0.0612, 0.0655),
                change=0.070,
                interval=(-0.012, 0.158),
                verdict=Verdict.UNDECIDED,
                margin=0.05,
                runs_needed=12,
                runs=(5, 6),
            ),
            a_series(
                "chat-c8",
                "tpot_mean",
                means=(0.00821, 0.00823),
                change=0.002,
                interval=(-0.011, 0.016),
                margin=0.05,
                runs=(5, 6),
            ),
            a_series(
                "chat-c8",
                "e2el_p99",
                means=(9.91, 10.52),
                change=0.0616,
                interval=(-0.02, 0.15),
                gated=False,
                verdict=Verdict.UNDECIDED,
                notes=[thin_tail],
                runs=(5, 6),
            ),
            a_series(
                "chat-c8",
                "itl_p99",
                means=(0.0193, 0.0241),
                change=0.249,
                interval=(0.18, 0.32),
                gated=False,
                verdict=Verdict.REGRESSION,
                runs=(5, 6),
            ),
            a_series(
                "batch-c256",
                "output_throughput",
                means=(12345.6, 11020.3),
                change=0.1203,
                interval=(0.091, 0.151),
                verdict=Verdict.REGRESSION,
                margin=0.05,
                runs=(5, 6),
            ),
            a_series(
                "batch-c256",
                "failed_requests",
                means=(0.0, 0.0105),
                change=0.0105,
                interval=(-0.002, 0.023),
                verdict=Verdict.UNDECIDED,
                margin=0.005,
                cv=(None, 0.4),
                runs=(5, 6),
            ),
        ],
        explanations=[
            ExplanationOut(
                series=["chat-c8/ttft_p99"],
                issue="VLLM-28882",
                causes=[CauseOut(issue="VLLM-28882", probability=0.91)],
            ),
            ExplanationOut(
                series=["chat-c8/itl_p99"],
                issue=None,
                causes=[CauseOut(issue="VLLM-28882", probability=0.31), CauseOut(issue="VLLM-30101", probability=0.05)],
            ),
            ExplanationOut(
                series=["batch-c256/output_throughput"],
                issue=None,
                breakdown=["waiting: 12 ms → 87 ms a request (at least 5120 requests and 5 server starts a side)"],
                observed=[a_cause()],
            ),
        ],
        audit=[
            AuditFindingOut(
                id="kv_cache_smaller",
                text="KV cache 18% smaller",
                effect=AuditEffect.NEW,
                baseline="174720 tokens",
                candidate="143270 tokens",
                evidence=["start log: 174,720 → 143,270 tokens (5 server starts a side)"],
            ),
            AuditFindingOut(
                id="moe_untuned",
                text="Using default MoE config. Performance might be sub-optimal!",
                effect=AuditEffect.NEW,
                candidate="Using default MoE config. Performance might be sub-optimal!",
                evidence=["start log: 0 of 5 → 5 of 5 server starts"],
            ),
            AuditFindingOut(
                id="MOE001",
                text="No tuned MoE configuration: vLLM found no tuned MoE configuration for this model on this "
                "accelerator",
                effect=AuditEffect.NEW,
                baseline="a tuned MoE configuration is used",
                candidate="vLLM found no tuned MoE configuration for this model on this accelerator",
                evidence=[
                    "log, line 212: Using default MoE config. Performance might be sub-optimal!",
                    "does not fire at 5 server starts of the baseline, fires at 5 server starts of the candidate",
                ],
                severity="medium",
                costs="The Triton kernels of the experts run with block sizes that were not chosen for these shapes.",
                remedy="tune once with benchmarks/kernels/benchmark_moe.py --tune",
                url="https://github.com/vllm-project/vllm/tree/main/vllm/model_executor/layers/fused_moe/configs",
                same_as=["moe_untuned"],
            ),
            AuditFindingOut(
                id="SCHED005",
                text="The time to the first token is spent in the queue: 71% of the time to the first token is spent "
                "in the queue (chat-c8)",
                effect=AuditEffect.RESOLVED,
                baseline="71% of the time to the first token is spent in the queue",
                candidate="the queue is the smaller part of the time to the first token",
                evidence=["metrics: mean TTFT 140 ms, of it queue 99 ms, during chat-c8"],
                severity="medium",
            ),
        ],
        known_issues=[
            an_issue(
                28882,
                blocks=True,
                measured=IssueObservation.EXPLAINS,
                measured_why="chat-c8/ttft_p99 +48.5% [+40.2%, +57.4%]",
                matched_series=["chat-c8/ttft_p99"],
                score=0.91,
            ),
            an_issue(
                30101,
                kind=IssueKind.DEFAULT_CHANGE,
                severity=Severity.MEDIUM,
                applies=Applies.UNKNOWN,
                summary="Prefix caching hashes with SHA-256 by default and costs time with long prompts",
                why="the engine argument max_model_len is not known (--engine-arg max_model_len)",
                missing=["--engine-arg max_model_len"],
                status=Status.OPEN,
                status_why="open on 2026-11-20",
                workarounds=[
                    WorkaroundOut(text="Choose the built-in hash.", engine_args={"prefix_caching_hash_algo": "builtin"})
                ],
            ),
            an_issue(
                27007,
                kind=IssueKind.MEMORY,
                severity=Severity.LOW,
                applies=Applies.MITIGATED,
                version_regression=False,
                summary="Memory profiling overestimates with tensor parallelism",
                effect=Effect.CARRIED,
                effect_why="both versions are affected",
                why="gpu_memory_utilization=0.85 is set",
                status=Status.FIX_NOT_IN_CANDIDATE,
                status_why="merged on 2026-11-18, after 0.20.1 was cut",
                workarounds=[
                    WorkaroundOut(
                        text="Leave more memory free and run eagerly.",
                        engine_args={"gpu_memory_utilization": 0.85, "enforce_eager": True},
                    )
                ],
            ),
            an_issue(
                25555,
                kind=IssueKind.CRASH,
                severity=Severity.CRITICAL,
                effect=Effect.RESOLVED,
                summary="Engine core dies when a request is aborted during speculative decoding",
                effect_why="0.19.0 is affected, 0.20.1 is not",
                status=Status.FIX_IN_CANDIDATE,
                why="speculative_config is set",
                status_why="the fix is an ancestor of 0.20.1",
            ),
            an_issue(40111, applies=Applies.NO, why="accelerator is H200, the issue needs MI300X"),
        ],
        failed_runs=[a_failed_run()],
        config_changes=[
            a_change(),
            a_change(
                "enable_chunked_prefill",
                kind="resolved_changed",
                before=False,
                after=True,
                matters="affects",
                why=None,
            ),
            a_change("--new-flag", kind="flag_added", before=None, after="auto", matters="informs", why=None),
        ],
        waivers=[
            WaiverOut(
                finding="batch-c256/output_throughput",
                until=date(2026, 12, 31),
                max_change=0.08,
                owner="ml-infra",
                reason="kernel update under way",
                state="exceeded",
                detail="measured +12.0 %, allowed +8 %",
            ),
            WaiverOut(
                finding="VLLM-20002",
                until=date(2027, 1, 31),
                max_change=0.0,
                owner="ml-infra",
                reason="we do not use LoRA",
                state="unused",
                detail="no such finding in this comparison",
            ),
        ],
        warnings=["5 runs against 6: the comparison has unequal sides"],
        reasons=[
            Reason(
                code=ReasonCode.SERVER_FAILED,
                text="1 of 6 server starts of 0.20.1 failed, where all 5 of 0.19.0 served: the server died "
                "at its start, 12 s after it (exit status 1): ValueError: no attention backend supports head size 80 "
                "with fp8_e5m2",
            ),
            Reason(code=ReasonCode.FLAG_REMOVED, text="the candidate does not take --swap-space"),
            Reason(
                code=ReasonCode.REGRESSION,
                series="chat-c8/ttft_p99",
                text="chat-c8/ttft_p99 is 48.5 % worse (95 % interval +40.2 % to +57.4 %, margin 10 %)",
            ),
            Reason(code=ReasonCode.REGRESSION, series="batch-c256/output_throughput", text="12.0 % worse, margin 5 %"),
            Reason(code=ReasonCode.KNOWN_ISSUE, issue="VLLM-28882", text="VLLM-28882 applies to you and blocks"),
            Reason(code=ReasonCode.UNDECIDED, text="2 gated series are undecided"),
        ],
    )


def inconclusive_one_run_a_side() -> Result:
    unknown: dict[str, Any] = {"runs": (1, 1), "cv": (None, None), "interval": None, "verdict": Verdict.UNDECIDED}
    return a_result(
        decision=Decision.INCONCLUSIVE,
        exit_code=3,
        advice="Run 4 more blocks (about 36 minutes) to decide it.",
        baseline=VersionSide(version="0.19.0", runs=1, origin="store"),
        candidate=VersionSide(version="0.20.1", runs=1, origin="store"),
        series=[
            a_series("chat-c8", "ttft_p99", **unknown),
            a_series(
                "chat-c8",
                "request_throughput",
                means=(3.41, 3.38),
                change=0.0089,
                margin=0.05,
                runs_needed=5,
                **unknown,
            ),
            a_series("chat-c8", "kv_cache_tokens", means=(412345, None), change=None, margin=0.05, **unknown),
        ],
        warnings=["one run a side: the spread between runs cannot be estimated"],
        reasons=[Reason(code=ReasonCode.UNDECIDED, text="3 of 3 gated series are undecided: one run a side")],
    )


def incomparable() -> Result:
    return a_result(
        decision=Decision.INCONCLUSIVE,
        exit_code=3,
        advice="Measure 0.19.0 on h100-node as well.",
        testbed=TestbedOut(
            name="h100-node",
            comparable=False,
            differences=[
                DifferenceOut(what="accelerator", baseline="8 x H200", candidate="8 x H100", blocks=True),
                DifferenceOut(what="driver", baseline="580.82", candidate="575.57", blocks=False),
            ],
        ),
        reasons=[Reason(code=ReasonCode.INCOMPARABLE, text="the runs were made on different accelerators")],
    )


def coverage(**changes: Any) -> CoverageOut:
    return CoverageOut(
        **{
            "platform": "cuda",
            "reviewed_through": "0.29.0",
            "records_in_interval": 12,
            "covered": True,
            "depth": ReviewDepth.SWEEP,
            "reviewed": date(2026, 11, 21),
            **changes,
        }
    )


def checked() -> Result:
    return a_result(
        command="check",
        decision=Decision.FAIL,
        exit_code=1,
        advice="Set VLLM_MOE_USE_DEEP_GEMM=0 before you move to 0.20.1.",
        baseline=None,
        candidate=VersionSide(version="0.20.1"),
        suite=None,
        testbed=None,
        known_issues=failing().known_issues,
        coverage=coverage(),
        reasons=[Reason(code=ReasonCode.KNOWN_ISSUE, issue="VLLM-28882", text="applies to you and blocks")],
    )


UNKNOWN_PLATFORM = "the platform is not known (--accelerator), so no review can be said to count"


def unsettled() -> Result:
    """A check of a deployment of which little is told: most known issues wait for a fact."""
    model, accelerator = "the model is not known (--model)", "the platform is not known (--accelerator or --platform)"
    waiting = [
        an_issue(
            60000 + number,
            applies=Applies.UNKNOWN,
            effect=Effect.NEW if number % 5 == 0 else Effect.CARRIED,
            severity=Severity.CRITICAL if number % 4 == 0 else Severity.HIGH if number % 4 == 1 else Severity.LOW,
            why=model if number % 3 else f"{accelerator}; {model}",
            missing=["--model"] if number % 3 else ["--accelerator", "--model"],
        )
        for number in range(23)
    ]
    return a_result(
        command="check",
        decision=Decision.INCONCLUSIVE,
        exit_code=3,
        advice="Say more about the deployment, and check again.",
        suite=None,
        testbed=None,
        known_issues=[
            an_issue(27007, effect=Effect.CARRIED, version_regression=False, severity=Severity.LOW),
            an_issue(27008, effect=Effect.CARRIED, applies=Applies.MITIGATED),
            an_issue(38576, kind=IssueKind.NOT_A_BUG, applies=Applies.UNKNOWN, why=model),
            *waiting,
            an_issue(40111, applies=Applies.NO, why="accelerator is H200, the issue needs MI300X"),
        ],
        move=Move.UPGRADE,
        coverage=coverage(
            platform=None, reviewed_through=None, covered=False, depth=None, reviewed=None, why=UNKNOWN_PLATFORM
        ),
        reasons=[
            Reason(code=ReasonCode.NOT_COVERED, text=UNKNOWN_PLATFORM),
            *(
                Reason(code=ReasonCode.UNDECIDED, issue=one.id, text=f"{one.id} would block if it applies: {one.why}")
                for one in waiting
                if one.effect is Effect.NEW
            ),
        ],
    )


def crowded(scenarios: int = 40) -> Result:
    """Five series for each scenario; in every tenth scenario one is worse and one undecided."""
    series = []
    for number in range(scenarios):
        name = f"sweep-input{2 ** (number % 8 + 5)}-output128-concurrency{number}"
        bad = number % 10 == 3
        series += [
            a_series(name, "ttft_p99", verdict=Verdict.REGRESSION if bad else Verdict.WITHIN_MARGIN),
            a_series(
                name,
                "tpot_mean",
                means=(0.008, 0.0081),
                verdict=Verdict.UNDECIDED if bad else Verdict.WITHIN_MARGIN,
                runs_needed=7 if bad else None,
            ),
            a_series(name, "output_throughput", means=(4321.0, 4300.0)),
            a_series(name, "ttft_mean", gated=False),
            a_series(name, "e2el_p99", means=(2.5, 2.51), gated=False),
        ]
    return a_result(
        decision=Decision.FAIL,
        exit_code=1,
        advice="Stay on 0.19.0.",
        series=series,
        known_issues=[an_issue(50000 + number) for number in range(30)],
        reasons=[Reason(code=ReasonCode.REGRESSION, text="4 gated series are worse than their margins")],
    )


def filled_with(text: str, url: str | None = None) -> Result:
    """A result in which every free text is this one."""
    url = text if url is None else url
    made = with_pictures(_failing())
    return a_result(
        decision=Decision.FAIL,
        exit_code=1,
        tool_version=text,
        advice=text,
        baseline=VersionSide(version=text, commit=text, variant=text, runs=5, origin=text),
        candidate=VersionSide(version=text, commit=text, variant=text, runs=5, origin=text),
        suite=SuiteOut(name=text, version=text, file=text, notice=text),
        testbed=TestbedOut(
            name=text, differences=[DifferenceOut(what=text, baseline=text, candidate=text, blocks=True)]
        ),
        failed_runs=[FailedRun(side="candidate", run=text, kind=text, text=text, lines=[text, text])],
        config_changes=[a_change(text, kind=text, before=text, after={text: text}, matters="affects", why=None)],
        void_runs=[VoidRun(side="baseline", run=text, reason=text)],
        runs=[run.model_copy(update={"run": text, "why": text}) for run in made.runs],
        distributions=[one.model_copy(update={"scenario": text, "latency": text}) for one in made.distributions],
        costs=[a_cost(text, text=text, basis=text)],
        load_curves=[
            one.model_copy(
                update={
                    "latency": text,
                    "points": [point.model_copy(update={"scenario": text}) for point in one.points],
                }
            )
            for one in made.load_curves
        ],
        change_points=[
            a_change_point(
                series=f"{text}/ttft_p99",
                version=text,
                after=text,
                untold=[text],
                before_baseline=text,
                text=text,
                versions=[one.model_copy(update={"version": text}) for one in made.change_points[0].versions],
            )
        ],
        series=[
            _with_run_values(a_series(scenario=text, notes=[text, text + "2"], verdict=Verdict.REGRESSION), made.runs),
            a_series(scenario=text, gated=False).model_copy(update={"metric": text, "unit": text}),
            a_series(scenario="plain", notes=[text], verdict=Verdict.UNDECIDED),
        ],
        known_issues=[
            an_issue(
                effect=effect,
                id=text,
                summary=text,
                why=text,
                status_why=text,
                effect_why=text,
                url=url,
                blocks=True,
                measured=IssueObservation.EXPLAINS,
                measured_why=text,
                matched_series=[text, text],
                workarounds=[WorkaroundOut(text=text, env={text: text}, engine_args={text: text}, cost=text)],
            )
            for effect in Effect
        ],
        audit=[
            AuditFindingOut(
                id=text,
                text=text,
                effect=AuditEffect.NEW,
                baseline=text,
                candidate=text,
                evidence=[text],
                severity="high",
                costs=text,
                remedy=text,
                url=text,
                same_as=[text + "x"],
            ),
        ],
        explanations=[
            ExplanationOut(series=[text, text], issue=text, causes=[CauseOut(issue=text, probability=0.9)]),
            ExplanationOut(
                series=[text],
                issue=None,
                causes=[CauseOut(issue=text, probability=0.2)],
                breakdown=[text],
                observed=[
                    a_cause(
                        finding=text,
                        text=text,
                        evidence=[text, text],
                        counter_test=CounterTestOut(
                            side="candidate",
                            text=text,
                            engine_args={text: text},
                            env={text: text},
                            command=text,
                        ),
                    ),
                ],
            ),
            ExplanationOut(
                series=[text],
                issue=None,
                observed=[a_cause(text=text, evidence=[text], counter_test=_measured_test(text))],
                measured=True,
            ),
        ],
        waivers=[
            WaiverOut(
                finding=text,
                until=date(2026, 12, 31),
                max_change=0.08,
                owner=text,
                reason=text,
                state="used",
                detail=text,
            )
        ],
        warnings=[text],
        reasons=[Reason(code=ReasonCode.REGRESSION, text=text, series=text, issue=text)],
    )


HOSTILE = (
    "a|b `code` **bold** <script>alert(1)</script> <!-- x --> ![i](https://evil.example/i.png) [l](javascript:x) "
    "@octocat #1234 GH-12 www.evil.example https://evil.example/?a=1&b=2 me@evil.example [red]red[/red] "
    "\x1b[31mANSI\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \u202eRTL\u202c zero\u200bwidth\r\n"
    "# heading\n\n| a | b |\n|---|---|\n- item :tada: $x^2$ ~~gone~~ \\ tab\there \x00\x07\x9b2J &lt;b&gt; 中文"
)


def hostile() -> Result:
    return filled_with(HOSTILE)


EVERY_KIND = {
    "pass": passing,
    "fail": failing,
    "inconclusive": inconclusive_one_run_a_side,
    "incomparable": incomparable,
    "check": checked,
    "unsettled": unsettled,
    "crowded": crowded,
    "hostile": hostile,
}
