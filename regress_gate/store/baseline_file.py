"""Exported baselines: one readable JSON file per version, testbed and suite, to be diffed and reviewed.

The form is canonical: the same runs always give the same bytes, so a diff of two exports shows only measurements.
Times of requests are whole microseconds, as in the store (see `sample_codec`); everything else is exact.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

from regress_gate.errors import InputError
from regress_gate.model.documents import Document, parse_yaml, validate
from regress_gate.model.run import Conditions, Outputs, Run, SuiteRef, Trial, TrialSource
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import stored_values
from regress_gate.store.baseline_model import BaselineFile, RunPart, SamplesPart, TrialPart
from regress_gate.text import natural_key, plural

if TYPE_CHECKING:
    from regress_gate.model.samples import Samples

SCHEMA = "regress-gate-baseline/1"

_COLUMNS = ["ok", "start_us", "input_tokens", "output_tokens", "ttft_us", "itl_us"]
"""The columns of a request; `start_us` is left out if the source has no start times."""

_MAX_PART = 55
"""Most bytes of a version, testbed, suite or suite version in a file name; file systems allow 255 in all."""


@dataclass(frozen=True, slots=True)
class _OneLine:
    """A value that is written on one line, whatever its length."""

    value: Any


def baseline_file_name(version: Version, testbed: str, suite: SuiteRef) -> str:
    """`0.19.0+cpu__testbed__suite@1.json`. Different baselines have different names."""
    return "__".join((_part(str(version)), _part(testbed), _suite_part(suite))) + ".json"


def may_hold_runs(name: str, *, version: Version | None, testbed: str | None, suite: SuiteRef | None) -> bool:
    """Whether a file of that name may contain such runs. The file's content decides, not its name."""
    parts = name.removesuffix(".json").split("__")
    if len(parts) != 3:
        return True
    if (testbed is not None and parts[1] != _part(testbed)) or (suite is not None and parts[2] != _suite_part(suite)):
        return False
    if version is None:
        return True
    try:
        exported = Version.parse(unquote(parts[0]))
    except InputError:
        return True
    return _part(str(exported)) != parts[0] or exported.matches(version)


def dump_baseline(runs: Sequence[Run]) -> str:
    """The text of the file for at least one run; all runs must be of one version, testbed and suite.

    Raises InputError for values that cannot be stored.
    """
    if len({(run.version, run.testbed, run.suite) for run in runs}) != 1:
        raise ValueError("an export holds the runs of one version, testbed and suite")
    version, testbed, suite = runs[0].version, runs[0].testbed, runs[0].suite
    command = ["regress-gate", "baseline", "export", str(version), "--testbed", testbed.name, "--suite", suite.name]
    baseline = {
        "schema": SCHEMA,
        "note": f"Made by `{shlex.join(command)}`. Make it again rather than edit it.",
        "version": _given(
            number=version.number and stored_values.name("version", version.number),
            commit=version.commit and stored_values.name("commit", version.commit),
            variant=version.variant and stored_values.name("variant", version.variant),
        ),
        "testbed": {
            "name": stored_values.name("testbed", testbed.name),
            **stored_values.json_values("testbed fact", testbed.facts),
        },
        "suite": {
            "name": stored_values.name("suite", suite.name),
            "version": stored_values.name("suite", suite.version),
        },
        "runs": [_run(run) for run in sorted(runs, key=lambda run: natural_key(run.label))],
    }
    return _render(baseline, "") + "\n"


def load_baseline(text: str | bytes, where: str | Path, *, with_samples: bool = True) -> list[Run]:
    """The runs of a file, in its order. Raises InputError for text that `dump_baseline` did not write."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        what = f"not valid JSON ({error.msg}): cut short, or not an exported baseline"
        raise InputError(what, where=where, line=error.lineno, todo="export it again") from None
    return read_baseline(data, where, text=text, with_samples=with_samples)


def read_baseline(
    data: Any, where: str | Path, *, text: str | bytes | None = None, with_samples: bool = True
) -> list[Run]:
    """The same of JSON that was parsed already. `text`, if it is at hand, gives errors their line."""
    stated = data.get("schema") if isinstance(data, dict) else None
    if stated != SCHEMA:
        if isinstance(stated, str) and stated.startswith(SCHEMA.rpartition("/")[0]):
            raise InputError(
                f"the schema {stated!r} is newer than {SCHEMA!r}", where=where, todo="upgrade regress-gate"
            )
        raise InputError(f"not an exported baseline (no schema {SCHEMA!r})", where=where)
    try:
        baseline = validate(BaselineFile, Document(data, where, {}))
    except InputError:
        # Reading with line numbers is a hundred times slower, so only an invalid file is read again.
        if text is not None:
            validate(BaselineFile, _with_lines(text, data, where))
        raise
    version = Version(baseline.version.number, baseline.version.commit, baseline.version.variant)
    if version.number is None and version.commit is None:
        raise InputError("version: neither number nor commit is given", where=where)
    testbed = Testbed(**baseline.testbed.model_dump())
    suite = SuiteRef(baseline.suite.name, baseline.suite.version)
    labels = [run.label for run in baseline.runs]
    if len(set(labels)) != len(labels):
        raise InputError(f"run {max(labels, key=labels.count)!r} appears twice", where=where)
    return [_read_run(run, version, testbed, suite, where, with_samples) for run in baseline.runs]


def _run(run: Run) -> dict[str, Any]:
    trials = sorted(run.trials, key=lambda trial: (natural_key(trial.scenario), trial.ordinal))
    return _given(
        label=stored_values.name("label", run.label),
        started=stored_values.time_text(run.started),
        conditions=stored_values.conditions(run.conditions) or None,
        libraries=stored_values.texts("library", run.libraries),
        metrics=stored_values.numbers("metric", run.metrics),
        measured=stored_values.run_details(run) or None,
        outputs=_outputs(run),
        trials=[_trial(trial) for trial in trials],
    )


def _trial(trial: Trial) -> dict[str, Any]:
    source = trial.source
    return _given(
        scenario=stored_values.name("scenario", trial.scenario),
        ordinal=stored_values.count("ordinal", trial.ordinal),
        completed=None if trial.completed is None else stored_values.count("completed", trial.completed),
        failed=stored_values.count("failed", trial.failed),
        duration=None if trial.duration is None else stored_values.number("duration", trial.duration),
        started=stored_values.time_text(trial.started),
        conditions=stored_values.conditions(trial.conditions) or None,
        workload=stored_values.json_values("workload", trial.workload),
        metrics=stored_values.numbers("metric", trial.metrics),
        server_metrics=stored_values.numbers("server metric", trial.server_metrics) or None,
        source=_given(
            sha256=stored_values.name("source hash", source.sha256),
            position=stored_values.count("position", source.position),
            path=stored_values.storable_text(source.path),
            format=stored_values.name("format", source.format),
            imported_at=stored_values.time_text(source.imported_at),
            tool=stored_values.storable_text(source.tool),
            client_version=stored_values.storable_text(source.client_version),
            command=stored_values.storable_text(source.command),
        ),
        samples=None if trial.samples is None else _samples(trial.samples),
    )


def _outputs(run: Run) -> dict[str, Any] | None:
    """Each value of an answer on one line."""
    outputs = stored_values.outputs(run)
    if outputs is None:
        return None
    answers = [{key: _OneLine(value) for key, value in answer.items()} for answer in outputs["answers"]]
    return {**outputs, "answers": answers}


def _samples(samples: "Samples") -> dict[str, Any]:
    from regress_gate.store import sample_codec  # with numpy; most baselines have no samples

    sample_codec.check_samples(samples)

    def times(values: Any) -> list[int | None]:
        return [None if time == sample_codec.UNKNOWN else time for time in sample_codec.microseconds(values).tolist()]

    columns = [samples.ok.astype(int).tolist(), samples.input_tokens.tolist(), samples.output_tokens.tolist()]
    columns.append(times(samples.ttft))
    gaps, bounds = times(samples.itl), samples.itl_start.tolist()
    columns.append([gaps[start:end] for start, end in pairwise(bounds)])
    names = [name for name in _COLUMNS if name != "start_us"]
    if samples.start is not None:
        columns.insert(1, times(samples.start))
        names = _COLUMNS
    return {"columns": _OneLine(names), "requests": [_OneLine(row) for row in zip(*columns, strict=True)]}


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _render(value: Any, indent: str) -> str:
    """JSON with one key or item per line and two spaces per level; numbers and texts as orjson writes them."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{orjson.dumps(key).decode()}: {_render(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(deeper + line for line in lines) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(deeper + _render(item, deeper) for item in value) + f"\n{indent}]"
    return orjson.dumps(value.value if isinstance(value, _OneLine) else value).decode()


def _suite_part(suite: SuiteRef) -> str:
    return f"{_part(suite.name)}@{_part(suite.version)}"


def _part(text: str) -> str:
    """The text as a part of a file name: percent-encoded, without the separator in it or at its ends."""
    encoded = quote(text, safe="+", errors="surrogatepass").replace("~", "%7E").replace("__", "%5F%5F")
    encoded = re.sub(r"^[_.]|_$", lambda match: f"%{ord(match[0]):02X}", encoded)
    if len(encoded) > _MAX_PART:
        encoded = (
            encoded[: _MAX_PART - 20].rstrip("_%")
            + "~"
            + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        )
    return encoded or "~"


def _with_lines(text: str | bytes, data: Any, where: str | Path) -> Document:
    try:
        return parse_yaml(text.decode() if isinstance(text, bytes) else text, where)
    except (InputError, UnicodeDecodeError):
        return Document(data, where, {})  # JSON that YAML cannot read: the message has no line


def _read_run(
    run: RunPart, version: Version, testbed: Testbed, suite: SuiteRef, where: str | Path, with_samples: bool
) -> Run:
    return Run(
        version=version,
        testbed=testbed,
        suite=suite,
        label=run.label,
        trials=tuple(_read_trial(trial, where, with_samples) for trial in run.trials),
        started=run.started,
        conditions=Conditions(**run.conditions.model_dump()),
        libraries=run.libraries,
        metrics=run.metrics,
        outputs=None if run.outputs is None else _read_outputs(run.label, run.outputs, where),
        **stored_values.run_details_from(run.measured.model_dump()),
    )


def _read_outputs(label: str, data: dict[str, Any], where: str | Path) -> Outputs:
    try:
        return Outputs.from_document(data)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"run {label!r}: outputs cannot be read ({error})", where=where, todo="export it again"
        ) from None


def _read_trial(trial: TrialPart, where: str | Path, with_samples: bool) -> Trial:
    source = trial.source
    return Trial(
        scenario=trial.scenario,
        ordinal=trial.ordinal,
        completed=trial.completed,
        failed=trial.failed,
        duration=trial.duration,
        metrics=trial.metrics,
        workload=trial.workload,
        source=TrialSource(**{field.name: getattr(source, field.name) for field in fields(TrialSource)}),
        conditions=Conditions(**trial.conditions.model_dump()),
        started=trial.started,
        server_metrics=trial.server_metrics,
        samples=_read_samples(trial, trial.samples, where) if with_samples and trial.samples else None,
    )


def _read_samples(trial: TrialPart, part: SamplesPart, where: str | Path) -> "Samples":
    import numpy as np  # as above

    from regress_gate.model.samples import Samples
    from regress_gate.store import sample_codec

    def times(values: Sequence[Any]) -> Any:
        return sample_codec.seconds(
            np.array([sample_codec.UNKNOWN if time is None else time for time in values], dtype=np.int64)
        )

    def wrong(what: str) -> InputError:
        return InputError(f"samples of {trial.scenario} {trial.ordinal}: {what}", where=where, todo="export it again")

    with_start = part.columns == _COLUMNS
    if not with_start and part.columns != [name for name in _COLUMNS if name != "start_us"]:
        raise wrong(f"the columns are not {_COLUMNS}")
    for number, row in enumerate(part.requests, 1):
        if not (
            isinstance(row, list)
            and len(row) == len(part.columns)
            and isinstance(row[-1], list)
            and all(type(item) is int or item is None for item in (*row[:-1], *row[-1]))
        ):
            raise wrong(
                f"request {number} is not a list of {plural(len(part.columns), 'value')}, whole numbers and one list"
            )
    try:
        ok, *rest = zip(*part.requests, strict=True) if part.requests else ((),) * len(part.columns)
        start = times(rest.pop(0)) if with_start else None
        input_tokens, output_tokens, ttft, itl = rest
        return Samples(
            ttft=times(ttft),
            itl=times([gap for gaps in itl for gap in gaps]),
            itl_start=np.cumsum([0, *(len(gaps) for gaps in itl)], dtype=np.int64),
            input_tokens=np.array(input_tokens, dtype=np.int64),
            output_tokens=np.array(output_tokens, dtype=np.int64),
            ok=np.array(ok, dtype=np.int64).astype(np.bool_),
            start=start,
        )
    except (TypeError, OverflowError):
        raise wrong("a value is missing or out of range") from None
