"""Exported baselines: a canonical text that a person can read and diff, and that gives the same runs back."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.run import BlockPosition, Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import baseline_file
from regress_gate.store.repository import open_store
from tests.factories.stored_runs import (
    LAB,
    NAMES,
    SUITE,
    SUITES,
    VERSIONS,
    baselines,
    make_run,
    make_samples,
    make_source,
    make_trial,
    plain_samples,
)

EXPORTED = """\
{
  "schema": "regress-gate-baseline/1",
  "note": "Made by `regress-gate baseline export 0.19.0+cpu --testbed lab --suite imported`. \
Make it again rather than edit it.",
  "version": {
    "number": "0.19.0",
    "variant": "cpu"
  },
  "testbed": {
    "name": "lab",
    "accelerator": "cpu",
    "cpu_count": 2
  },
  "suite": {
    "name": "imported",
    "version": "1"
  },
  "runs": [
    {
      "label": "run1",
      "libraries": {
        "torch": "2.9.0"
      },
      "metrics": {
        "startup_time": 28.82
      },
      "trials": [
        {
          "scenario": "c1",
          "ordinal": 1,
          "completed": 32,
          "failed": 0,
          "duration": 9.5,
          "workload": {
            "max_concurrency": 1,
            "model": "tiny",
            "request_rate": null
          },
          "metrics": {
            "output_throughput": 168.8,
            "ttft_median": 0.125
          },
          "source": {
            "sha256": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
            "position": 0,
            "path": "a.json",
            "format": "vllm-serve",
            "imported_at": "2026-07-24T10:00:00Z",
            "tool": "vllm bench serve"
          },
          "samples": {
            "columns": ["ok","start_us","input_tokens","output_tokens","ttft_us","itl_us"],
            "requests": [
              [1,0,128,3,100000,[10000,20000]],
              [1,10000,128,2,200000,[15000]]
            ]
          }
        }
      ]
    }
  ]
}
"""


def example() -> Run:
    trial = make_trial("a", source=make_source("a", tool="vllm bench serve"), samples=make_samples(start=True))
    return make_run("run1", trial, libraries={"torch": "2.9.0"}, metrics={"startup_time": 28.82})


def exported() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(baseline_file.dump_baseline([example()]))
    return data


def test_an_export_is_made_to_be_read() -> None:
    assert baseline_file.dump_baseline([example()]) == EXPORTED


def test_what_was_looked_at_once_is_written_as_it_was_before_looking_often_was_possible() -> None:
    """So that what is exported, shipped and stored already stays the same text."""
    once = replace(example(), place=BlockPosition("e1", 1, 1, "baseline"))
    assert "most_blocks" not in baseline_file.dump_baseline([once])
    assert "locked_clock_mhz" not in baseline_file.dump_baseline([once])
    often = replace(example(), place=BlockPosition("e1", 1, 1, "baseline", most_blocks=6, locked_clock_mhz=1410))
    [read] = baseline_file.load_baseline(baseline_file.dump_baseline([often]), "x.json")
    assert read.place == often.place


def test_an_export_gives_the_runs_back() -> None:
    [run] = baseline_file.load_baseline(EXPORTED, "x.json")
    expected = example()
    assert plain_samples(run.trials[0].samples) == plain_samples(expected.trials[0].samples)
    without = replace(expected, trials=(replace(expected.trials[0], samples=None),))
    assert baseline_file.load_baseline(EXPORTED.encode(), "x.json", with_samples=False) == [without]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=baselines())
def test_export_import_export_gives_the_same_bytes(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> None:
    urls = [f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db" for _ in range(2)]
    with open_store(urls[0], create=True) as store:
        store.add_runs(runs)
        first = baseline_file.dump_baseline(store.runs(with_samples=True))
    loaded = baseline_file.load_baseline(first, "first.json")
    with open_store(urls[1], create=True) as store:
        store.add_runs(loaded)
        assert baseline_file.dump_baseline(store.runs(with_samples=True)) == first
    assert baseline_file.dump_baseline(runs) == baseline_file.dump_baseline(loaded) == first
    without = baseline_file.load_baseline(first, "first.json", with_samples=False)
    assert without == [
        replace(run, trials=tuple(replace(trial, samples=None) for trial in run.trials)) for run in loaded
    ]


def test_negative_zero_is_zero_in_files_as_in_the_database() -> None:
    run = make_run("a", make_trial("a", duration=-0.0, metrics={"failed_requests": -0.0}))
    assert "-0.0" not in baseline_file.dump_baseline([run])


@given(baselines(), st.randoms())
def test_the_order_in_which_things_come_makes_no_difference(runs: list[Run], random: Any) -> None:
    def shuffled(values: Any) -> Any:
        items = list(values.items() if isinstance(values, dict) else values)
        random.shuffle(items)
        return dict(items) if isinstance(values, dict) else items

    again = [
        replace(
            run,
            trials=tuple(shuffled([replace(trial, metrics=shuffled(trial.metrics)) for trial in run.trials])),
            libraries=shuffled(run.libraries),
        )
        for run in shuffled(runs)
    ]
    assert baseline_file.dump_baseline(again) == baseline_file.dump_baseline(runs)


def test_runs_stand_in_the_order_of_their_numbers() -> None:
    text = baseline_file.dump_baseline([make_run("run10"), make_run("run2"), make_run("run1")])
    assert [run.label for run in baseline_file.load_baseline(text, "x")] == ["run1", "run2", "run10"]


def test_runs_of_two_baselines_do_not_go_into_one_file() -> None:
    with pytest.raises(ValueError, match="one version"):
        baseline_file.dump_baseline([make_run("a"), make_run("b", version="0.20.0")])


def test_values_that_json_cannot_express_are_refused() -> None:
    with pytest.raises(InputError, match="ttft_mean is nan"):
        baseline_file.dump_baseline([make_run("a", make_trial("a", metrics={"ttft_mean": math.nan}))])


def changed(path: str, value: Any) -> str:
    """The export with one place changed, as somebody's editor would leave it. `...` deletes."""
    data = exported()
    place: Any = data
    *parents, last = (int(step) if step.isdecimal() else step for step in path.split("/"))
    for step in parents:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(data, indent=2)


TRIAL = "runs/0/trials/0"


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("testbed/acelerator", "x", r"x\.json:\d+: unknown key 'acelerator' in testbed \(did you mean 'accelerator'"),
        (f"{TRIAL}/scenrio", "x", r"x\.json:\d+: unknown key 'scenrio' in runs\.0\.trials\.0 .*'scenario'"),
        ("suite", ..., r"x\.json(:1)?: key 'suite' is missing"),
        (f"{TRIAL}/source/sha256", ..., r"key 'runs\.0\.trials\.0\.source\.sha256' is missing"),
        (f"{TRIAL}/completed", "32", r"x\.json:\d+: .*completed: .*integer"),
        (f"{TRIAL}/completed", -1, r"completed: .*greater than or equal to 0"),
        (f"{TRIAL}/metrics/ttft_median", None, r"ttft_median: .*number"),
        (f"{TRIAL}/source/imported_at", "yesterday", r"imported_at: .*yesterday"),
        (f"{TRIAL}/started", "2026-13-01T00:00:00Z", r"started: .*month"),
        ("version/number", "nineteen", r"number: .*not a vLLM version"),
        ("version/number", "v0.19.0", r"number: .*normal form \(0\.19\.0\)"),
        ("version/commit", "HEAD", r"commit: "),
        ("version", {}, r"neither number nor commit"),
        ("schema", "regress-gate-baseline/2", r"newer than .*upgrade regress-gate"),
        ("schema", "somebody-else/1", r"not an exported baseline"),
        ("schema", 1, r"not an exported baseline"),
        ("runs", [], None),
        ("runs/1", ..., None),
        ("runs", {"a": 1}, r"runs: .*list"),
        (f"{TRIAL}/samples/columns", ["ok"], r"samples of c1 1: the columns are not"),
        (f"{TRIAL}/samples/requests", [[1, 0, 128, 3, 100000]], r"request 1 is not a list of 6"),
        (f"{TRIAL}/samples/requests", [[1, 0, 128, 3, 0.1, [1]]], r"request 1 is not"),
        (f"{TRIAL}/samples/requests", [[1, 0, 128, 3, 1, ["1"]]], r"request 1 is not"),
        (f"{TRIAL}/samples/requests", [[1, 0, None, 3, 1, [1]]], r"missing or out of range"),
        (f"{TRIAL}/samples/requests", [[1, 0, 2**63, 3, 1, [1]]], r"missing or out of range"),
    ],
)
def test_an_edited_file_is_refused_with_the_place(path: str, value: Any, complaint: str | None) -> None:
    if path == "runs/1":
        data = exported()
        data["runs"].append(data["runs"][0])
        text, complaint = json.dumps(data), "run 'run1' appears twice"
    else:
        text = changed(path, value)
    if complaint is None:
        assert baseline_file.load_baseline(text, "x.json") == []
        return
    with pytest.raises(InputError, match=complaint) as failure:
        baseline_file.load_baseline(text, "x.json")
    assert str(failure.value).startswith("x.json")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("text", ["", " ", "{", "[]", "null", "5", '"schema"', "{}", "\ufeff{}", "schema: yaml", "\0"])
def test_a_text_that_is_not_an_export_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^x\.json"):
        baseline_file.load_baseline(text, "x.json")


@given(st.integers(0, len(EXPORTED) - 3))
def test_a_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(InputError, match=r"^x\.json:?\d*: not valid JSON"):
        baseline_file.load_baseline(EXPORTED[:length], "x.json")


def test_nan_is_not_json() -> None:
    with pytest.raises(InputError, match=r"x\.json:\d+: not valid JSON"):
        baseline_file.load_baseline(EXPORTED.replace("28.82", "NaN"), "x.json")


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(InputError, match=r"x\.json"):
        baseline_file.load_baseline(EXPORTED.encode().replace(b"run1", b"run\xff"), "x.json")


def test_a_time_that_was_not_measured_is_null() -> None:
    samples = replace(make_samples(), ttft=np.array([math.nan, 0.25]))
    text = baseline_file.dump_baseline([make_run("a", make_trial("a", samples=samples))])
    assert "[1,128,3,null,[10000,20000]]" in text
    [run] = baseline_file.load_baseline(text, "x")
    assert plain_samples(run.trials[0].samples) == plain_samples(samples)


def test_a_file_is_named_after_what_it_holds() -> None:
    name = baseline_file.baseline_file_name(Version.parse("0.19.0+cpu"), "lab", SuiteRef("cpu-smoke", "1"))
    assert name == "0.19.0+cpu__lab__cpu-smoke@1.json"


@pytest.mark.parametrize(
    "hostile", ["../../etc/passwd", "", ".", "..", "a__b", "_", "a" * 100_000, "\0", "\ud800", "COM1:", "مرحبا", "~"]
)
def test_a_hostile_name_stays_in_its_directory(hostile: str, tmp_path: Path) -> None:
    name = baseline_file.baseline_file_name(Version.parse("0.19.0"), hostile, SuiteRef(hostile, hostile))
    assert len(name.encode()) <= 255
    (tmp_path / name).write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert baseline_file.may_hold_runs(name, version=None, testbed=hostile, suite=SuiteRef(hostile, hostile))


@given(VERSIONS, NAMES, SUITES, VERSIONS, NAMES, SUITES)
def test_different_baselines_have_different_file_names(
    version: Version, testbed: str, suite: SuiteRef, version2: Version, testbed2: str, suite2: SuiteRef
) -> None:
    assume((version, testbed, suite) != (version2, testbed2, suite2))
    assert baseline_file.baseline_file_name(version, testbed, suite) != baseline_file.baseline_file_name(
        version2, testbed2, suite2
    )


def test_the_parts_of_a_file_name_are_distinct() -> None:
    version = Version.parse("0.19.0")
    places = [("a__b", "c"), ("a", "b__c"), ("a_", "_c"), ("a", "c"), ("a", "c@1"), ("a%", "c"), ("A", "c")]
    names = {baseline_file.baseline_file_name(version, testbed, SuiteRef(suite, "2")) for testbed, suite in places}
    names |= {
        baseline_file.baseline_file_name(version, "a", SuiteRef("c", "1@2")),
        baseline_file.baseline_file_name(version, "a", SuiteRef("", "")),
    }
    assert len(names) == len(places) + 2


@given(VERSIONS, NAMES, SUITES, VERSIONS)
def test_a_file_that_holds_what_is_wanted_is_never_passed_over(
    version: Version, testbed: str, suite: SuiteRef, wanted: Version
) -> None:
    name = baseline_file.baseline_file_name(version, testbed, suite)
    assert baseline_file.may_hold_runs(name, version=version, testbed=testbed, suite=suite)
    if version.matches(wanted):
        assert baseline_file.may_hold_runs(name, version=wanted, testbed=None, suite=None)


def test_a_file_that_holds_something_else_is_passed_over() -> None:
    name = baseline_file.baseline_file_name(Version.parse("0.19.0+cpu"), LAB.name, SUITE)
    assert baseline_file.may_hold_runs(name, version=Version.parse("0.19.0"), testbed=None, suite=None)
    assert not baseline_file.may_hold_runs(name, version=Version.parse("0.19.1"), testbed=None, suite=None)
    assert not baseline_file.may_hold_runs(name, version=None, testbed="attic", suite=None)
    assert not baseline_file.may_hold_runs(name, version=None, testbed=None, suite=SuiteRef("imported", "2"))
    assert baseline_file.may_hold_runs("renamed.json", version=Version.parse("0.19.1"), testbed="attic", suite=SUITE)


def test_a_testbed_with_hostile_facts_is_exported(store: Any) -> None:
    run = make_run("a", testbed=Testbed("lab", os='"\\\n\u2028'))
    store.add_runs([run])
    assert baseline_file.load_baseline(baseline_file.dump_baseline(store.runs()), "x") == [run]
