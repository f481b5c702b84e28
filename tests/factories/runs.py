"""Runs, sides and findings made to order, so that a test shows only what it is about."""

from dataclasses import replace
from datetime import UTC, date, datetime

from regress_gate.gate.sides import ComparisonSide, make_side
from regress_gate.model.documents import Document, validate
from regress_gate.model.issue import Applies, Effect, IssueFinding, KnownIssue, Status
from regress_gate.model.run import Conditions, Run, SuiteRef, Trial, TrialSource
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TODAY = NOW.date()
TESTBED = Testbed("bench-1", accelerator="H200", accelerator_count=1, cpu="x86-64", cpu_count=16, memory_bytes=2**37)
SUITE = SuiteRef("chat", "1")


def make_trial(scenario="c8", ordinal=1, *, completed=200, failed=0, workload=None, client=None, **metrics) -> Trial:
    values = {"ttft_median": 0.1, "output_throughput": 1000.0, **metrics}
    values.setdefault("failed_requests", failed / (completed + failed))
    return Trial(
        scenario=scenario,
        ordinal=ordinal,
        completed=completed,
        failed=failed,
        duration=10.0,
        metrics={name: value for name, value in values.items() if value is not None},
        workload={"model": "m/tiny", "request_rate": None, "max_concurrency": 8, **(workload or {})},
        source=TrialSource("0" * 64, 0, "made-up.json", "vllm-serve", NOW, client_version=client),
    )


def make_run(label="1", version="0.19.0", *trials, load=None, metrics=None, **changes) -> Run:
    run = Run(
        version=Version.parse(version),
        testbed=TESTBED,
        suite=SUITE,
        label=label,
        trials=trials or (make_trial(),),
        conditions=Conditions(outside_cpu_cores=load),
        metrics=metrics or {},
    )
    return replace(run, **changes)


def make_side_of(version, *runs, limits=None, origin="store") -> ComparisonSide:
    return make_side(Version.parse(version), runs, limits or ConditionLimits(), origin=origin)


def side_with(version, ttft, *, scenario="c8", limits=None, **metrics) -> ComparisonSide:
    """A side of one run per value of ttft_median; other metrics stay the same in all runs but for a ripple."""
    runs = [
        make_run(str(n), version, make_trial(scenario, ttft_median=value, output_throughput=1000 + n % 3, **metrics))
        for n, value in enumerate(ttft, 1)
    ]
    return make_side_of(version, *runs, limits=limits)


def make_issue(id_="VLLM-1", *, severity="high", **changes) -> KnownIssue:
    number = id_.rpartition("-")[2]
    url = f"https://github.com/vllm-project/vllm/issues/{number}"
    data = {
        "id": id_,
        "summary": "A made-up issue for the tests",
        "kind": "performance",
        "severity": severity,
        "references": [{"type": "REPORT", "url": url}],
        "affected": [{"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0.19.1"}]}]}],
        "tracker": {"url": url, "state": "open", "checked": date(2026, 11, 1)},
        "confidence": "high",
        "evidence": "made up",
        "reviewed": date(2026, 11, 21),
        **changes,
    }
    return validate(KnownIssue, Document(data, "made-up.yaml", {}))


def make_finding(
    id_="VLLM-1", *, applies="yes", effect="new", status="open", severity="high", **changes
) -> IssueFinding:
    return IssueFinding(
        issue=make_issue(id_, severity=severity, **changes),
        applies=Applies(applies),
        why="because the test says so",
        status=Status(status),
        status_why="made up",
        effect=Effect(effect),
        effect_why="made up",
    )
