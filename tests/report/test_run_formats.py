"""Stored runs that are written for other programs and read again are the same, to the last bit."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.interface import Context, Reading
from regress_gate.ingest.registry import READERS
from regress_gate.model.metric import DEFINITIONS, DEFINITIONS_KEY, LATENCIES, METRICS, OTHER_LATENCIES, STATISTICS
from regress_gate.model.run import Run, SuiteRef, Trial, TrialSource
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.report import Source, find_format
from regress_gate.report.render import llm_d_report
from tests.report.llm_d_models import Report

ENDINGS = {"llm-d": "json", "long": "csv", "long-json": "json"}
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._+=@ -]{0,20}[A-Za-z0-9])?", fullmatch=True)
POSITIVE = st.floats(1e-6, 1e6)
TEXTS = (
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20)
    .filter(str.isprintable)
    .map(str.strip)
    .filter(bool)
)
PER_RUN = sorted(name for name, metric in METRICS.items() if metric.per_run and metric.unit != "fraction")


@st.composite
def statistics(draw: st.DrawFn, family: str) -> dict[str, float]:
    """Some statistics of a family; percentiles in their order."""
    chosen = draw(st.lists(st.sampled_from(list(STATISTICS)), unique=True, max_size=5))
    values = sorted(draw(st.lists(POSITIVE, min_size=5, max_size=5)))
    return {f"{family}_{name}": value for name, value in zip(STATISTICS, values, strict=True) if name in chosen}


@st.composite
def trials(draw: st.DrawFn, ordinal: int) -> Trial:
    """Of requests whose number is known, the share that failed is; rates are free where the duration is not known."""
    metrics: dict[str, float] = {}
    for family in (*LATENCIES, *OTHER_LATENCIES):
        metrics |= draw(statistics(family))
    for name in ("output_throughput", "total_throughput", "batch_throughput", "warm_start_time"):
        if draw(st.booleans()):
            metrics[name] = draw(POSITIVE)
    if not metrics:
        metrics["ttft_mean"] = draw(POSITIVE)
    completed = draw(st.none() | st.integers(1, 10_000))
    failed = 0
    if completed is not None and draw(st.booleans()):
        failed = draw(st.integers(0, 50))
        metrics["failed_requests"] = failed / (completed + failed)
    workload = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "model": TEXTS,
                "request_rate": st.none() | POSITIVE,
                "max_concurrency": st.none() | st.integers(1, 999),
                "num_prompts": st.integers(1, 999),
                "mean_input_tokens": POSITIVE,
                "input_len": st.integers(1, 999),
                "dataset": TEXTS,
                "kind": TEXTS | st.sampled_from(["8", "true", "null", '"x"', " "]).map(str),
                "seed": st.integers(0, 99) | st.booleans(),
                DEFINITIONS_KEY: st.sampled_from(sorted(DEFINITIONS)),
            },
        )
    )
    return Trial(
        scenario=draw(NAMES),
        ordinal=ordinal,
        completed=completed,
        failed=failed,
        duration=None,
        metrics=metrics,
        workload=workload,
        source=TrialSource(
            "0" * 64, 0, "r.json", "x", datetime(2026, 1, 1, tzinfo=UTC), client_version=draw(st.none() | NAMES)
        ),
        started=draw(st.none() | st.integers(0, 2**31).map(lambda second: datetime.fromtimestamp(second, UTC))),
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    return Run(
        version=Version.parse(draw(st.sampled_from(["0.19.1", "0.20.0rc1", "0.19.0+cpu", "commit:" + "a" * 40]))),
        testbed=Testbed(draw(NAMES), accelerator=draw(st.none() | NAMES)),
        suite=SuiteRef("chat", "1"),
        label=draw(NAMES),
        trials=tuple(draw(trials(ordinal)) for ordinal in range(1, draw(st.integers(1, 3)) + 1)),
        metrics=draw(st.dictionaries(st.sampled_from(PER_RUN), POSITIVE)),
    )


def render_runs(runs, form):
    return find_format(form, Source.RUNS).load().content(runs)


def run_files(runs, form):
    return find_format(form, Source.RUNS).load().files(runs)


def read(form: str, text: str) -> list[Reading]:
    content = parse_content(f"r.{ENDINGS[form]}", text.encode())
    sure = {reader.recognises(content): reader for reader in READERS}
    results = sure[max(sure)].read(content, Context())
    for result in results:
        assert isinstance(result, Reading), result.reason
    return results


@pytest.mark.parametrize("form", sorted(ENDINGS))
@settings(max_examples=30, deadline=None)
@given(run=runs())
def test_what_is_written_reads_back_the_same(form, run):
    for trial, result in zip(run.trials, read(form, render_runs([run], form)), strict=True):
        assert result.metrics == {**trial.metrics, **run.metrics}
        assert result.workload == {name: value for name, value in trial.workload.items() if name != DEFINITIONS_KEY}
        assert result.definitions == trial.workload.get(DEFINITIONS_KEY)
        assert (result.completed, result.failed) == (trial.completed, trial.failed)
        assert (result.trial, result.started) == (trial.ordinal, trial.started)
        said = {
            "vllm_version": str(run.version),
            "testbed": run.testbed.name,
            "accelerator": run.testbed.accelerator,
            "suite": "chat@1",
            "scenario": trial.scenario,
            "run": run.label,
            "client_version": trial.source.client_version,
        }
        assert result.metadata == {name: value for name, value in said.items() if value is not None}


@settings(max_examples=30, deadline=None)
@given(run=runs())
def test_reports_are_as_llm_ds_schema_wants_them(run):
    for trial in run.trials:
        Report.model_validate(json.loads(llm_d_report.render(run, trial)))


def one(**changes) -> Run:
    trial = Trial(
        scenario="short",
        ordinal=1,
        completed=100,
        failed=0,
        duration=20.0,
        metrics={"ttft_mean": 0.05, "ttft_p99": 0.1, "request_throughput": 5.0, "goodput": 4.0, "failed_requests": 0.0},
        workload={"model": "org/tiny", "max_concurrency": 8, "request_rate": None, "mean_input_tokens": 128.0},
        source=TrialSource("0" * 64, 0, "r.json", "vllm-serve", datetime(2026, 1, 1, tzinfo=UTC)),
        started=datetime(2026, 5, 1, 12, tzinfo=UTC),
    )
    run = {
        "version": Version.parse("0.19.1"),
        "testbed": Testbed("lab", accelerator="H100", memory_bytes=2**40),
        "suite": SuiteRef("chat", "1"),
        "label": "a",
        "trials": (trial,),
        "metrics": {"startup_time": 51.25},
    }
    return Run(**{**run, **changes})


@pytest.mark.parametrize("form", sorted(ENDINGS))
def test_duration_and_rates_are_kept(form):
    (result,) = read(form, render_runs([one()], form))
    assert result.duration == 20.0
    assert result.metrics == {**one().trials[0].metrics, "startup_time": 51.25}


def test_a_label_that_an_import_would_not_take_is_made_one():
    (result,) = read("long", render_runs([one(label="2026/block-1/try 3")], "long"))
    assert result.metadata["run"] == "2026-block-1-try-3"


FORMULA_SIGNS = ["=", "+", "-", "@", "'", "''=", "'-"]
formulas = st.tuples(st.sampled_from(FORMULA_SIGNS), st.text("=+-@'1aA(), \"", max_size=8)).map(
    lambda parts: "".join(parts).strip()
)


@given(model=formulas.filter(bool), note=formulas, column=formulas)
def test_a_text_like_a_formula_is_quoted_for_spreadsheets_and_reads_back_the_same(model, note, column):
    trial = one().trials[0]
    trial = replace(trial, workload={**trial.workload, "model": model, "note": note, column: 1})
    text = render_runs([one(trials=(trial,))], "long")
    for row in csv.reader(io.StringIO(text)):
        numbers = [cell for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
        assert [float(cell) for cell in numbers] == []
    (result,) = read("long", text)
    assert (result.workload["model"], result.workload[column]) == (model, 1)
    assert result.workload.get("note", "") == note or column == "note"


def test_raw_tables_hold_texts_as_they_are_and_negative_numbers_are_never_quoted():
    trial = replace(one().trials[0], workload={"model": "=1+1", "offset": -5})
    for form, name in (("long", "workload.offset"), ("csv", "workload.offset")):
        found = find_format(form, Source.RUNS).load()
        for content, model in ((found.content, "'=1+1"), (found.raw.content, "=1+1")):
            (first, *_) = csv.DictReader(io.StringIO(content([one(trials=(trial,))])))
            assert (first["model"], float(first[name])) == (model, -5)
    assert find_format("xlsx", Source.RUNS).load().raw is None


def test_files_have_names_of_their_own():
    names = [name for name, _ in run_files([one(label="a/b"), one(label="a b")], "llm-d")]
    assert names == ["0.19.1-lab-chat-1-a-b-short-t1.json", "0.19.1-lab-chat-1-a-b-short-t1-2.json"]
    tables = dict(run_files([one(), one(version=Version.parse("0.20.0"))], "long"))
    assert list(tables) == ["0.19.1-lab-chat-1.csv", "0.20.0-lab-chat-1.csv"]


def test_the_time_of_a_report_is_from_start_to_end():
    time = llm_d_report.report(one(), one().trials[0])["run"]["time"]
    assert datetime.fromisoformat(time["end"]) - datetime.fromisoformat(time["start"]) == timedelta(seconds=20)
    assert time["duration"] == "PT20.000000S"
