"""One small example of every view in which something passes or fails."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind
from regress_gate.gate.history import HistoryFilter, history_lines
from regress_gate.gate.history_changes import ChangeMethod, HistoryChange, HistoryChanges
from regress_gate.gate.launch_line import LaunchProblem, LaunchTest, RefusalKind
from regress_gate.gate.sides import sides_by_version
from regress_gate.gate.table_changes import DetectedChanges, DetectionReport, DetectionRequest
from regress_gate.ingest.table_series import Layout, TableSeries
from regress_gate.model.deployment import Deployment
from regress_gate.model.metric import Direction, Scale
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, DeploymentOut
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.report.document import View
from regress_gate.report.views.config_view import ConfigChangesView
from regress_gate.report.views.detection_view import DetectionView
from regress_gate.report.views.history_view import HistoryView
from regress_gate.report.views.history_words import LineView
from regress_gate.report.views.planning_view import CalibrationView
from regress_gate.report.views.result_view import ResultView
from regress_gate.report.views.servers_view import ServersView
from regress_gate.stats.changepoints import ChangePoint
from tests.factories.results import EVERY_KIND, a_result, failing, passing
from tests.factories.runs import make_run, make_trial
from tests.factories.views import EVERY_VIEW


def a_deployed_result(where: str = "compose.yaml:7", name: str = "chat", **changes: Any) -> ResultView:
    return ResultView(failing().model_copy(update={"deployment": DeploymentOut(name=name, where=where), **changes}))


def some_servers() -> ServersView:
    first, second = (DeploymentOut(name=name, where="compose.yaml:7") for name in ("chat", "embed"))
    inconclusive = a_result(decision=Decision.INCONCLUSIVE, exit_code=3, deployment=second)
    return ServersView([passing().model_copy(update={"deployment": first}), inconclusive])


LEVELS = {"0.19.0": 0.1, "0.19.1": 0.1, "0.24.0": 0.134, "0.32.0": 0.134}
STEP = HistoryChange("c8", "ttft_median", Scale.RATIO, "step", 2, (1, 2), 0.34, (0.31, 0.371), None)
BETTER = HistoryChange("c8", "output_throughput", Scale.RATIO, "ramp", 2, (0, 3), -0.1, (-0.12, None), 0.97)


def a_history(*changes: HistoryChange, searched: bool = True) -> View:
    runs = [
        make_run(
            str(number),
            version,
            make_trial("c8", ttft_median=level * (1 + 0.01 * number), tpot_median=level / 10, output_throughput=123.0),
            started=datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day),
        )
        for day, (version, level) in enumerate(LEVELS.items())
        for number in (-1, 1)
    ]
    wanted = HistoryFilter(("ttft_median", "tpot_median", "output_throughput"), ())
    (line,) = history_lines(sides_by_version(runs, ConditionLimits()), Policy(), wanted)
    found = HistoryChanges(ChangeMethod.NEIGHBOURS, 3, 3, changes, ()) if searched else None
    return HistoryView("chat@1", "bench-1", [LineView(line, found)])


RISE = ChangePoint(4, (3, 5), "step", 0.34, (0.31, 0.371), 0.991, True)


def a_detection(direction: Direction | None = Direction.LOWER) -> DetectionView:
    def series(name: str, values: tuple[float, ...]) -> TableSeries:
        days = tuple(f"2026-03-{day:02}" for day in range(1, len(values) + 1))
        return TableSeries((name,), np.array(values, dtype=float), None, days, 1)

    found = (
        DetectedChanges(series("h100", (100, 101, 99, 100, 134, 133, 135, 134)), (RISE,), 0),
        DetectedChanges(series("h100-steady", (100, 101, 99, 100, 100, 101, 99, 100)), (), 0),
        DetectedChanges(series("h100-short", (100, 101)), (), 0),
    )
    layout = Layout("ttft_ms", "date", ("gpu",))
    return DetectionView(DetectionReport("nightly.csv", layout, DetectionRequest(direction), found))


def some_config_changes(problem: str | None = "0.20.0 has no --gone", untested: str = "") -> ConfigChangesView:
    blocks, affects, informs = ChangeRelevance.BLOCKS, ChangeRelevance.AFFECTS, ChangeRelevance.INFORMS
    gone = ConfigChange(ConfigChangeKind.FLAG_REMOVED, "--gone", 2, None, blocks, problem)
    changes = [
        *([gone] if problem else []),
        ConfigChange(ConfigChangeKind.DEFAULT_CHANGED, "--max-num-seqs", 256, 512, affects),
        ConfigChange(ConfigChangeKind.FLAG_ADDED, "--shiny", None, problem, informs),
    ]
    launch = LaunchTest([LaunchProblem(RefusalKind.FLAG, "gone", problem)] if problem else [], untested=untested)
    deployment = Deployment(engine_args={"gone": 2})
    return ConfigChangesView(Version.parse("0.19.1"), Version.parse("0.20.0"), deployment, launch, changes)


def a_calibration(**changes: Any) -> CalibrationView:
    series = {
        "scenario": "c4",
        "metric": "ttft_median",
        "margin": 0.05,
        "run_cv": 0.02,
        "noise_runs": 6,
        "detectable_change": {"3": None, "5": 0.06, "10": 0.04},
        "shown_within": {"3": None, "5": 0.04, "10": 0.03},
        "change": 0.01,
        "interval": [-0.01, 0.03],
        "second_in_block": {"effect": 0.04, "interval": [0.01, 0.07], "p_adjusted": 0.01},
        "drift_per_block": None,
    }
    noisy = {**series, "scenario": "c8", "run_cv": 0.2, "shown_within": {"3": None, "5": 0.3, "10": 0.2}}
    return CalibrationView(
        {
            "schema_version": "1",
            "version": "0.19.1",
            "suite": "small@1",
            "testbed": "lab",
            "decision": "pass",
            "reasons": ["all gated series are within their margins"],
            "runs": 6,
            "void_runs": [],
            "failed_runs": 0,
            "minutes_a_block": 5.25,
            "series": [series, noisy],
            **changes,
        }
    )


VIEWS_WITH_FINDINGS: dict[str, Callable[[], View]] = {
    **{kind: (lambda build=build: ResultView(build())) for kind, build in EVERY_KIND.items()},  # type: ignore[misc]
    "deployed": a_deployed_result,
    "servers": some_servers,
    "history": lambda: a_history(STEP, BETTER),
    "history-not-searched": lambda: a_history(searched=False),
    "detect": a_detection,
    "detect-without-direction": lambda: a_detection(None),
    "diff-config": some_config_changes,
    "diff-config-without-line": lambda: some_config_changes(None, untested="the build is not known"),
    "calibrate": a_calibration,
}


WITH_FINDINGS = (
    "comparison",
    "check",
    "servers",
    "audit",
    "history",
    "detection",
    "configuration",
    "calibration",
    "watch",
)
"""Of `views.EVERY_VIEW`: those in which something passes or fails."""


def views_filled_with(text: str) -> list[View]:
    """Every view with findings, with this text in every place that takes any."""
    return [*(EVERY_VIEW[name](text) for name in WITH_FINDINGS), a_deployed_result(where=f"{text}:7", name=text)]
