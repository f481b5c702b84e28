"""The Python API: `import regress_gate as rg`. Thin: it makes settings from arguments and wraps results.

Everything here reads; measuring is the command line's. Documented in docs/python.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regress_gate.app.settings import Settings
from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import Document, validate
from regress_gate.model.result import Result
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Ref, Version
from regress_gate.report import render
from regress_gate.report.views.result_view import ResultView
from regress_gate.store.combined import open_combined_store
from regress_gate.store.store_interface import StoreLocation
from regress_gate.suites import find_shipped_suite

if TYPE_CHECKING:
    import pandas as pd

    from regress_gate.gate.audit.engine import Audit
    from regress_gate.gate.table_changes import DetectionReport
    from regress_gate.model.run import Run
    from regress_gate.report.views.audit_view import AuditView

DeploymentLike = Deployment | Mapping[str, Any]
"""What known issues are matched against: `{"accelerator": "H200", "model": …, "engine_args": {…}, "env": {…}}`."""


class Store:
    """The user's store over the shipped baselines, read-only. Every call opens and closes it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def url(self) -> str:
        return str(self._settings.store_url.value)

    def __repr__(self) -> str:
        return f"<Store {StoreLocation.parse(self.url).shown}>"

    def versions(self) -> "pd.DataFrame":
        """What is stored: one row for each version, testbed and suite."""
        import pandas as pd  # slow to import, and only frames need it

        with open_combined_store(self.url) as store:
            held = store.inventory()
        rows = [
            (str(h.version), h.testbed, str(h.suite), h.runs, h.trials, h.scenarios, h.origin.value, h.pinned)
            for h in held
        ]
        columns = ["version", "testbed", "suite", "runs", "trials", "scenarios", "origin", "pinned"]
        return pd.DataFrame(rows, columns=columns)

    def runs(
        self,
        version: str | None = None,
        *,
        suite: str | None = None,
        testbed: str | None = None,
        metrics: Sequence[str] = (),
        counted_only: bool = False,
    ) -> "pd.DataFrame":
        """The values of the stored runs, one row for each: run, version, testbed, suite, started, counted, scenario,
        trial, metric, value.

        `suite` is NAME or NAME@VERSION. `counted`: whether a comparison counts the run; void and failed runs are
        left out with `counted_only`. Raises InputError for an invalid version.
        """
        from regress_gate.app.frames import runs_frame  # with pandas

        runs, counted = self._load(version, suite, testbed, counted_only=counted_only, with_samples=False)
        return runs_frame(runs, counted, metrics)

    def samples(
        self,
        version: str | None = None,
        *,
        suite: str | None = None,
        testbed: str | None = None,
        counted_only: bool = False,
    ) -> "pd.DataFrame":
        """The single requests of the stored runs, one row for each: run, version, …, scenario, trial, request, start,
        ttft, tpot, e2el, input_tokens, output_tokens, ok.

        Requests are no replicates: those of one run share its luck. Aggregate by `run` before comparing versions.
        """
        from regress_gate.app.frames import samples_frame  # with pandas

        runs, counted = self._load(version, suite, testbed, counted_only=counted_only, with_samples=True)
        return samples_frame(runs, counted)

    def compare(self, baseline: str, candidate: str, **options: Any) -> "GateResult":
        """`regress_gate.compare` on this store."""
        return compare(baseline, candidate, store=self, **options)

    def _load(
        self, version: str | None, suite: str | None, testbed: str | None, *, counted_only: bool, with_samples: bool
    ) -> "tuple[list[Run], set[int]]":
        """The runs, and the positions of those that count."""
        from regress_gate.gate.sides import make_side  # with the statistics

        wanted = None if version is None else Version.parse(version)
        with open_combined_store(self.url) as store:
            stored = store.runs(version=wanted, testbed=testbed, with_samples=with_samples)
        runs = [run for run in stored if suite in (None, run.suite.name, str(run.suite))]
        groups: dict[Any, list[Run]] = {}
        for run in runs:
            groups.setdefault((run.version, run.testbed.name, run.suite), []).append(run)
        suites = {ref: find_shipped_suite(ref) for ref in {run.suite for run in runs}}
        counted = set()
        for (build, _, ref), same in groups.items():
            suite_found = suites[ref]
            limits = suite_found.conditions if suite_found else ConditionLimits()
            counted |= {id(run) for run in make_side(build, same, limits).counted}
        if counted_only:
            runs = [run for run in runs if id(run) in counted]
        return runs, {position for position, run in enumerate(runs) if id(run) in counted}


@dataclass(frozen=True)
class GateResult:
    """What `compare` and `check` found."""

    result: Result
    """The whole result: the object that `--format json` prints."""

    @property
    def decision(self) -> str:
        """`pass`, `fail` or `inconclusive`."""
        return self.result.decision.value

    @property
    def exit_code(self) -> int:
        """What the command would exit with."""
        return self.result.exit_code

    @property
    def reasons(self) -> list[str]:
        return [reason.text for reason in self.result.reasons]

    def known_issues(self) -> "pd.DataFrame":
        """The known issues of the move, one row each."""
        from regress_gate.app.frames import issues_frame  # with pandas

        return issues_frame(self.result)

    def to_frame(self) -> "pd.DataFrame":
        """One row for each series of a comparison; for each known issue of a check."""
        from regress_gate.app.frames import series_frame  # with pandas

        return self.known_issues() if self.result.command == "check" else series_frame(self.result)

    def to_json(self) -> str:
        """As `--format json` prints it."""
        return render(ResultView(self.result), "json")

    def to_markdown(self) -> str:
        """As `--format markdown` prints it."""
        return render(ResultView(self.result), "markdown")

    def to_html(self) -> str:
        """As `--format html` prints it: a page of its own."""
        return render(ResultView(self.result), "html")

    def __repr__(self) -> str:
        return f"<{self.result.command}: {self.decision}>"

    def _repr_html_(self) -> str:
        return _notebook_html(self.decision.upper(), self.result.advice, self.reasons, self.to_frame())


@dataclass(frozen=True)
class DetectionResult:
    """What `detect` found."""

    report: "DetectionReport"

    @property
    def decision(self) -> str:
        """`changed`, or `no_change_found`, which does not show that there is none."""
        return "changed" if any(series.changes for series in self.report.series) else "no_change_found"

    def to_frame(self) -> "pd.DataFrame":
        """One row for each change point."""
        import pandas as pd  # slow to import, and only frames need it

        columns = ["index", "time", "change", "relative", "kind", "probability", "worse"]
        rows = [
            {**dict(zip(self.report.layout.groups, point.pop("group", {}).values(), strict=False)), **point}
            for point in self._data()["change_points"]
        ]
        return pd.DataFrame(rows, columns=[*self.report.layout.groups, *columns])

    def to_json(self) -> str:
        """As `detect --format json` prints it."""
        from regress_gate.report.views.detection_view import DetectionView  # with numpy

        return render(DetectionView(self.report), "json")

    def _data(self) -> dict[str, Any]:
        from regress_gate.report.views.detection_view import DetectionView  # with numpy

        return DetectionView(self.report).data()

    def __repr__(self) -> str:
        return f"<detect: {self.decision}>"

    def _repr_html_(self) -> str:
        return _notebook_html(self.decision, "", [], self.to_frame())


@dataclass(frozen=True)
class AuditResult:
    """What `audit` found."""

    audits: "list[Audit]"
    """One for each server of a deployment file, else one."""

    @property
    def decision(self) -> str:
        """`pass`, `fail` or `inconclusive`: the worst of all servers."""
        return self._view().decision.value

    @property
    def exit_code(self) -> int:
        """What the command would exit with."""
        return self._view().exit_code

    def to_frame(self) -> "pd.DataFrame":
        """One row for each rule and server."""
        import pandas as pd  # slow to import, and only frames need it

        from regress_gate.report.views.audit_view import rule_out  # with the rules

        rows = [
            {
                "server": None if audit.deployment is None else audit.deployment.name,
                **rule_out(one, blocks=one.rule.id in audit.blocking).model_dump(mode="json"),
            }
            for audit in self.audits
            for one in audit.results
        ]
        return pd.DataFrame(rows)

    def to_json(self) -> str:
        """As `audit --format json` prints it."""
        return render(self._view(), "json")

    def _view(self) -> "AuditView":
        from regress_gate.report.views.audit_view import AuditView  # with the rules

        return AuditView(self.audits)

    def __repr__(self) -> str:
        return f"<audit: {self.decision}>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        return _notebook_html(self.decision.upper(), "", [], frame.loc[frame["answer"] == "fires"])


def _notebook_html(decision: str, advice: str, reasons: Sequence[str], frame: "pd.DataFrame") -> str:
    """What a notebook shows of a result. Texts come from result files and from GitHub, so all of them are escaped."""
    from markupsafe import Markup  # with the templates: only notebooks need them

    from regress_gate.report.render.pages import environment  # as above

    table = Markup(frame.to_html(index=False, border=0, escape=True))  # nosec B704 # noqa: S704 - pandas has escaped the cells
    template = environment().get_template("notebook.html")
    return template.render(decision=decision, advice=advice, reasons=reasons, table=table)


def open_store(url: str | Path | None = None, *, config: str | Path | None = None) -> Store:
    """The store at an SQLAlchemy URL or a path; without one, the store of the command line.

    A store that does not exist yet is not made: only the shipped baselines are read then. Raises InputError for an
    invalid URL or configuration file.
    """
    store = Store(_settings(url=None if url is None else str(url), config=config))
    _ = store.url  # an invalid configuration fails here
    return store


def compare(
    baseline: str,
    candidate: str,
    *,
    store: Store | str | Path | None = None,
    suite: str | None = None,
    testbed: str | Sequence[str] | None = None,
    deployment: DeploymentLike | None = None,
    config: str | Path | None = None,
    gate: Sequence[str] = (),
    allow_incomparable: bool = False,
) -> GateResult:
    """Decide from stored runs whether to move from `baseline` to `candidate`. Measures nothing.

    `testbed` may be a pattern, or several names, of hosts of one class.
    `gate` names the metrics that gate, or patterns of them, in place of those of the configuration.
    Raises NoDataError for a version without runs, InputError if `suite` or `testbed` must be given.
    """
    # With the statistics: `import regress_gate` stays fast.
    from regress_gate.app.compare import ComparisonScope, compare_stored

    url = store.url if isinstance(store, Store) else None if store is None else str(store)
    settings = _settings(url=url, config=config, suite=suite, testbed=testbed, deployment=deployment, gate=gate)
    scope = ComparisonScope(Ref.parse(baseline), Ref.parse(candidate), settings.suite.value, settings.testbeds.value)
    return GateResult(compare_stored(settings, scope, allow_incomparable=allow_incomparable))


def check(
    version: str,
    *,
    baseline: str | None = None,
    deployment: DeploymentLike | None = None,
    serve_command: str | None = None,
    deployment_file: str | Path | None = None,
    config: str | Path | None = None,
) -> GateResult:
    """The known issues of a move to `version` for a deployment. Needs neither store nor network.

    Raises InputError for a `deployment_file` with several servers: FILE#NAME is one of them.
    """
    from regress_gate.app.check import check_version  # with the matching of records, as above

    settings = _settings(
        config=config, deployment=deployment, launch_line=serve_command, deployment_file=deployment_file
    )
    return GateResult(check_version(settings, version, baseline=baseline, offline=True).result)


def audit(
    version: str | None = None,
    *,
    deployment: DeploymentLike | None = None,
    serve_command: str | None = None,
    deployment_file: str | Path | None = None,
    server_log: str | Path | None = None,
    metrics: Sequence[str | Path] = (),
    model_config: str | Path | None = None,
    config: str | Path | None = None,
) -> AuditResult:
    """What costs a deployment its speed; see `regress-gate audit --help`. `metrics` are at most two files or addresses.

    Raises InputError for what cannot be read.
    """
    from regress_gate.app.audit import audit_servers  # with the rules

    settings = _settings(
        config=config, deployment=deployment, launch_line=serve_command, deployment_file=deployment_file
    )
    if server_log is not None:
        settings = replace(settings, server_log=Path(server_log))
    directory = None if model_config is None else Path(model_config)
    sources = [str(source) for source in metrics]
    return AuditResult(audit_servers(settings, version=version, metrics=sources, model_config=directory))


def detect(
    source: "pd.DataFrame | str | Path",
    *,
    value: str | None = None,
    time: str | None = None,
    groups: Sequence[str] = (),
    min_change: str | float | None = None,
    direction: str | None = None,
    improvements: bool = False,
) -> DetectionResult:
    """The change points of a frame, or of a CSV, JSON, Parquet or Excel file; see `regress-gate detect --help`."""
    from regress_gate.app.detect import detect_in_table, frame_table, read_table_file  # with the statistics, as above

    table = read_table_file(Path(source)) if isinstance(source, (str, Path)) else frame_table(source)
    return DetectionResult(
        detect_in_table(
            table,
            value=value,
            time=time,
            groups=groups,
            min_change=min_change,
            direction=direction,
            improvements=improvements,
        )
    )


def _settings(
    *,
    url: str | None = None,
    config: str | Path | None = None,
    suite: str | None = None,
    testbed: str | Sequence[str] | None = None,
    deployment: DeploymentLike | None = None,
    launch_line: str | None = None,
    deployment_file: str | Path | None = None,
    gate: Sequence[str] = (),
) -> Settings:
    if deployment is not None and not isinstance(deployment, Deployment):
        deployment = validate(Deployment, Document(dict(deployment), "deployment", {}))
    return Settings(
        store_flag=url,
        config_flag=None if config is None else Path(config),
        suite_flag=suite,
        testbed_flag=testbed if testbed is None or isinstance(testbed, str) else tuple(testbed),
        deployment_flag=deployment,
        launch_line=launch_line,
        deployment_target=None if deployment_file is None else str(deployment_file),
        gate_flags=tuple(gate),
    )


__all__ = [
    "AuditResult",
    "DetectionResult",
    "GateResult",
    "InputError",
    "Store",
    "audit",
    "check",
    "compare",
    "detect",
    "open_store",
]
