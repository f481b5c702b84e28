"""Reading what `--format json` wrote, so that it can be shown again in any format.

A document may come from an earlier version of regress-gate, which lacked keys that have a default now, from a later one
of the same schema_version, whose further keys are ignored, or from somebody else: nothing in it is believed before its
types are checked. Not for changing a decision: what was decided is shown as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from regress_gate.errors import InputError
from regress_gate.files import open_regular
from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind
from regress_gate.gate.launch_line import LaunchProblem, LaunchTest, RefusalKind
from regress_gate.model.deployment import Deployment
from regress_gate.model.result import DeploymentOut, Result
from regress_gate.model.version import Version
from regress_gate.report.audit_document import AuditOut, AuditServersOut
from regress_gate.report.document import View
from regress_gate.text import excerpt, quoted

MAX_BYTES = 32 * 1024 * 1024
"""A comparison of 5,000 series has 6 MB."""
SCHEMA_VERSION = "1"
_MOST_SERVERS = 1000

_ModelT = TypeVar("_ModelT", bound=BaseModel)


def read_stored_file(path: Path) -> View:
    """The view behind a JSON file. Raises InputError with the file, and the line or the place in the JSON."""
    try:
        with open_regular(path) as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    return read_stored_view(content, str(path))


def read_stored_view(content: bytes, where: str) -> View:
    """The same of what was read of it. `where` names it in errors."""
    if len(content) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB, more than any result", where=where)
    if not content.strip():
        raise InputError("is empty", where=where)
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        text = f"is not valid JSON, or cut short: {error.msg}"
        raise InputError(excerpt(text), where=where, line=error.lineno, todo=_TODO) from None
    if not isinstance(data, dict):
        raise InputError(f"is {quoted(data)}, not the JSON object of a result", where=where, todo=_TODO)
    for keys, read in _KINDS:
        if keys <= data.keys():
            # Old `calibrate` documents have none.
            if (found := data.get("schema_version", SCHEMA_VERSION)) != SCHEMA_VERSION:
                what = f"has schema_version {quoted(found)}; this regress-gate reads {SCHEMA_VERSION!r}"
                raise InputError(what, where=where, todo="use the regress-gate that wrote it, or a newer one")
            return read(data, where)
    raise InputError("is no result of regress-gate", where=where, todo=_TODO)


_TODO = "give what --format json or --output json:FILE wrote"


def _validated(model: type[_ModelT], data: Any, where: str, at: str = "") -> _ModelT:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = at + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        what = f"{excerpt(place.lstrip('.') or 'the object')}: {first['msg'].lower()}{more}"
        raise InputError(excerpt(what), where=where, todo=_TODO) from None


# compare, check

_FORMER_VERDICTS = {"equivalent": "within_margin", "inconclusive": "undecided"}
"""Before 2026-11-22 the verdicts of a series had other words; all other words are the same."""


class _Change(BaseModel):
    """An entry of a result's `config_changes`, which the result itself does not look into."""

    kind: str
    name: str
    before: Any = None
    after: Any = None
    matters: ChangeRelevance
    why: str | None = None


def _result(data: Any, where: str, at: str = "") -> Result:
    series = data.get("series") if isinstance(data, dict) else None
    for one in series if isinstance(series, list) else ():
        if isinstance(one, dict) and isinstance(verdict := one.get("verdict"), str):
            one["verdict"] = _FORMER_VERDICTS.get(verdict, verdict)
    result = _validated(Result, data, where, at)
    changes = [
        _validated(_Change, change, where, f"{at}.config_changes[{number}]").model_dump(mode="json")
        for number, change in enumerate(result.config_changes)
    ]
    for place, problem in _contradictions(result):
        raise InputError(f"{at}.{place}: {problem}".lstrip("."), where=where, todo=_TODO)
    return result.model_copy(update={"config_changes": changes})


def _contradictions(result: Result) -> Iterator[tuple[str, str]]:
    """What the types allow, and no gate has written."""
    for number, series in enumerate(result.series):
        if series.margin <= 0:
            yield f"series[{number}].margin", "is not positive"
        if series.run_values and len(series.run_values) != len(result.runs):
            yield f"series[{number}].run_values", "are not those of the runs"
    for number, one in enumerate(result.distributions):
        sides = (one.baseline, one.candidate)
        lists = [values for side in sides for values in (side.values, side.lowest, side.highest)]
        lists += [values for side in sides for values in (side.interval_low, side.interval_high) if values]
        if any(len(values) != len(one.levels) for values in lists) or any(
            bool(side.interval_low) != bool(side.interval_high) for side in sides
        ):
            yield f"distributions[{number}]", "has not one value for each level"
        if not all(low < high for low, high in pairwise((0.0, *one.levels, 1.0))):
            yield f"distributions[{number}].levels", "are not rising shares"
    for number, explanation in enumerate(result.explanations):
        if explanation.issue is not None and not explanation.causes:
            yield f"explanations[{number}].causes", "are missing"


def _result_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.views.result_view import ResultView  # as the other views: only the one that is asked for

    return ResultView(_result(data, where))


def _servers_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.views.servers_view import ServersView  # as above

    deployments = data["deployments"]
    if not isinstance(deployments, list) or not 0 < len(deployments) <= _MOST_SERVERS:
        raise InputError("deployments: is no list of results", where=where, todo=_TODO)
    return ServersView([_result(one, where, f"deployments[{number}]") for number, one in enumerate(deployments)])


# calibrate


class _Stored(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


Runs = Mapping[Annotated[str, Field(pattern=r"^\d{1,6}$")], float | None]
"""By runs a side."""


class _Effect(_Stored):
    effect: float
    interval: tuple[float, float]
    p_adjusted: float


class _CalibratedSeries(_Stored):
    scenario: str
    metric: str
    margin: Annotated[float, Field(gt=0)]
    run_cv: float
    noise_runs: int
    detectable_change: Annotated[Runs, Field(min_length=1)]
    shown_within: Runs
    change: float | None = None
    interval: tuple[float | None, float | None] | None = None
    second_in_block: _Effect | None = None
    drift_per_block: _Effect | None = None


class _Calibration(_Stored):
    schema_version: Literal["1"] = "1"
    version: str
    suite: str
    testbed: str
    decision: Literal["pass", "fail", "inconclusive"]
    reasons: list[str]
    runs: int
    void_runs: list[str]
    failed_runs: int
    minutes_a_block: float | None
    series: list[_CalibratedSeries]

    @field_validator("series")
    @classmethod
    def _has_the_same_runs(cls, series: list[_CalibratedSeries]) -> list[_CalibratedSeries]:
        """They are the columns of a table."""
        if len({(tuple(one.detectable_change), tuple(one.shown_within)) for one in series}) > 1:
            raise ValueError("the series have different numbers of runs")
        return series


def _calibration_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.views.planning_view import CalibrationView  # as above

    return CalibrationView(_validated(_Calibration, data, where).model_dump(mode="json"))


# diff-config


class _Side(_Stored):
    version: str


class _ListedChange(_Change):
    kind: ConfigChangeKind


class _ConfigDiff(_Stored):
    baseline: _Side
    candidate: _Side
    deployment: Deployment = Deployment()
    server: DeploymentOut | None = None
    starts: bool
    problems: list[str]
    untested: str | None = "what was not tried of the launch line was not kept"
    config_changes: list[_ListedChange]


def _config_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.views.config_view import ConfigChangesView  # as above

    diff = _validated(_ConfigDiff, data, where)
    # The kind and the key of a problem are not kept; only which build takes the line is shown of them.
    problems = [LaunchProblem(RefusalKind.FLAG, "", text, ignored=diff.starts) for text in diff.problems]
    return ConfigChangesView(
        Version.parse(diff.baseline.version),
        Version.parse(diff.candidate.version),
        diff.deployment,
        LaunchTest(problems, untested=diff.untested or ""),
        [ConfigChange(one.kind, one.name, one.before, one.after, one.matters, one.why) for one in diff.config_changes],
        diff.server,
    )


# history, detect, audit


def _history_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.stored_series import StoredHistory  # as above

    return _validated(StoredHistory, data, where).view()


def _detection_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.stored_series import StoredDetection  # as above

    return _validated(StoredDetection, data, where).view()


def _audit_view(data: dict[str, Any], where: str) -> View:
    from regress_gate.report.views.audit_view import AuditView  # as above

    return AuditView.of([_validated(AuditOut, data, where)])


def _several_view(data: dict[str, Any], where: str) -> View:
    """Of several servers: a check or an audit of each."""
    servers = data["deployments"]
    if not isinstance(servers, list) or not any(isinstance(one, dict) and "rules" in one for one in servers):
        return _servers_view(data, where)
    from regress_gate.report.views.audit_view import AuditView  # as above

    return AuditView.of(_validated(AuditServersOut, data, where).deployments)


# What cannot be shown again


def _refuse(what: str, todo: str) -> Callable[[dict[str, Any], str], View]:
    def refuse(data: dict[str, Any], where: str) -> View:  # noqa: ARG001 - as the readers have it
        raise InputError(f"is the JSON of {what}, which does not hold all that a report shows", where=where, todo=todo)

    return refuse


_KINDS: tuple[tuple[frozenset[str], Callable[[dict[str, Any], str], View]], ...] = (
    (frozenset({"deployments"}), _several_view),
    (frozenset({"decision", "candidate", "reasons"}), _result_view),
    (frozenset({"decision", "minutes_a_block", "series"}), _calibration_view),
    (frozenset({"config_changes", "problems"}), _config_view),
    (frozenset({"decision", "rules", "audit"}), _audit_view),
    (frozenset({"change_points", "lines", "tool_version"}), _history_view),
    (frozenset({"change_points", "series", "source"}), _detection_view),
    (
        frozenset({"change_points", "lines"}),
        _refuse("an earlier `history`", "run regress-gate history again: it reads the store and measures nothing"),
    ),
    (
        frozenset({"change_points", "series", "value"}),
        _refuse("an earlier `detect`", "run regress-gate detect again on the table"),
    ),
    (frozenset({"plan"}), _refuse("`compare --plan`", "run regress-gate compare --plan again")),
    (frozenset({"issues"}), _refuse("`issues`", "run regress-gate issues again")),
)
"""Keys that only this kind of document has, and what reads it."""
