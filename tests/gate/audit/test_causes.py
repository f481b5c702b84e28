"""The triage tree: where the loss lies, and which change of the servers comes first."""

from dataclasses import replace

import pytest

from regress_gate.gate.audit.causes import explain_regressions
from regress_gate.gate.audit.server_changes import find_server_changes
from regress_gate.model.result import ExplanationOut, SuiteOut
from regress_gate.model.run import BlockPosition
from tests.factories.results import a_series
from tests.factories.runs import make_run, make_side_of, make_trial

REQUESTS = 100


def counted(n, *, queue=0.001, prefill=0.02, decode=0.5, preemptions=0.0, **more):
    times = {"queue_time": queue, "prefill_time": prefill, "decode_time": decode}
    metrics = {"requests": REQUESTS, "preemptions": preemptions * REQUESTS, **more}
    for name, seconds in times.items():
        metrics |= {f"{name}_sum": seconds * REQUESTS * (1 + n / 1000), f"{name}_count": REQUESTS}
    return {name: float(value) for name, value in metrics.items()}


def side(version, *, server=None, concurrency=16, counts=True, **times):
    runs = []
    for n in range(1, 5):
        metrics = counted(n, **times) if counts else {}
        trial = replace(make_trial("c16", workload={"max_concurrency": concurrency}), server_metrics=metrics)
        runs.append(make_run(str(n), version, trial, server={"non_default_args": {}, **(server or {})}))
    return make_side_of(version, *runs)


def explained(baseline, candidate, metric="ttft_median"):
    series = [a_series("c16", metric)]
    changes = find_server_changes(baseline.counted, candidate.counted)
    given = [ExplanationOut(series=[f"c16/{metric}"], issue=None)]
    suite = SuiteOut(name="chat", version="1")
    (one,) = explain_regressions(given, series, changes, (baseline, candidate), suite)
    return one


def names(explanation):
    return [cause.finding for cause in explanation.observed]


def test_a_smaller_cache_is_the_cause_where_requests_wait_longer() -> None:
    before = side("0.19.0", server={"kv_cache_tokens": 1600})
    after = side("0.19.1", server={"kv_cache_tokens": 1280}, queue=0.08)
    explanation = explained(before, after)
    assert names(explanation)[0] == "kv_cache_smaller"
    (queue, prefill) = explanation.breakdown
    assert queue.startswith("waiting: 1 ms → 80.2 ms a request")
    assert prefill.startswith("prefill: 20 ms → 20 ms a request")
    test = explanation.observed[0].counter_test
    assert test is not None
    assert (test.side, test.engine_args) == ("baseline", {"num_gpu_blocks_override": 80})


def test_the_same_smaller_cache_is_not_the_first_cause_of_slow_prefill() -> None:
    before = side("0.19.0", server={"kv_cache_tokens": 1600, "backends": {"attention": "FLASH_ATTN"}})
    after = side("0.19.1", server={"kv_cache_tokens": 1280, "backends": {"attention": "FLASHINFER"}}, prefill=0.04)
    assert names(explained(before, after))[0] == "backend_changed:attention"


def test_a_part_that_is_slower_by_itself_is_named() -> None:
    assert names(explained(side("0.19.0"), side("0.19.1", prefill=0.04))) == ["prefill_slower"]


@pytest.mark.parametrize(("concurrency", "first"), [(400, "graphs_smaller"), (16, "decode_slower")])
def test_smaller_graphs_are_the_cause_only_of_batches_beyond_them(concurrency, first) -> None:
    before = side("0.19.0", server={"max_capture_size": 512}, concurrency=concurrency)
    after = side("0.19.1", server={"max_capture_size": 256}, concurrency=concurrency, decode=0.7)
    explanation = explained(before, after, "tpot_median")
    assert names(explanation)[0] == first
    (graphs,) = [cause for cause in explanation.observed if cause.finding == "graphs_smaller"]
    assert graphs.counter_test is not None
    assert graphs.counter_test.text.startswith("0.19.1 with --")
    assert "512" in graphs.counter_test.text


@pytest.mark.parametrize(
    ("before", "after", "tested", "setting"),
    [
        ({}, {"enforce_eager": True}, "candidate", {"enforce_eager": False}),  # the candidate's default
        ({"max_num_seqs": 64}, {"max_num_seqs": 2}, "candidate", {"max_num_seqs": 64}),
        ({}, {"max_num_seqs": 2}, "baseline", {"max_num_seqs": 2}),  # whose default depends on the machine
        ({}, {"limit_mm_per_prompt": {"image": 1}}, None, None),
        ({}, {"api_key": "***"}, None, None),
    ],
)
def test_an_argument_that_differs_is_tested_with_the_value_of_the_other_side(before, after, tested, setting) -> None:
    sides = (
        side(version, server={"non_default_args": given}) for version, given in (("0.19.0", before), ("0.19.1", after))
    )
    (cause,) = [one for one in explained(*sides).observed if one.finding.startswith("argument_changed")]
    test = cause.counter_test
    assert (test and test.side, test and test.engine_args) == (tested, setting)


def test_another_dependency_comes_after_the_part_that_is_slower_and_can_be_tested() -> None:
    place = BlockPosition("e", 1, 1, "baseline", way="venv")
    sides = [
        make_side_of(version, *(replace(run, libraries={"torch": torch}, place=place) for run in made.runs))
        for version, torch, made in (
            ("0.19.0", "2.9.1", side("0.19.0")),
            ("0.19.1", "2.10.0", side("0.19.1", prefill=0.04)),
        )
    ]
    explanation = explained(*sides)
    assert names(explanation) == ["prefill_slower", "library_changed:torch"]
    test = explanation.observed[1].counter_test
    assert (test.side, test.packages) == ("candidate", {"torch": "2.9.1"})
    assert test.command == "regress-gate compare 0.19.0 0.19.1 --measure --suite chat --attribute"


def test_what_no_installer_of_packages_knows_has_no_counter_test() -> None:
    place = BlockPosition("e", 1, 1, "baseline", way="venv")
    sides = [
        make_side_of(version, *(replace(run, libraries={"cuda of torch": cuda}, place=place) for run in made.runs))
        for version, cuda, made in (
            ("0.19.0", "12.8", side("0.19.0")),
            ("0.19.1", "13.0", side("0.19.1", prefill=0.04)),
        )
    ]
    (cause,) = [one for one in explained(*sides).observed if one.finding.startswith("library_changed")]
    assert (cause.finding, cause.counter_test) == ("library_changed:cuda of torch", None)


def test_preemptions_that_a_smaller_cache_brings_come_after_it() -> None:
    before = side("0.19.0", server={"kv_cache_tokens": 1600})
    after = side("0.19.1", server={"kv_cache_tokens": 800}, queue=0.3, decode=0.55, preemptions=0.5)
    assert names(explained(before, after, "output_throughput"))[:2] == ["kv_cache_smaller", "preemptions"]


def test_without_metrics_a_change_of_a_backend_is_still_a_cause() -> None:
    before = side("0.19.0", server={"backends": {"moe": "TRITON"}}, counts=False)
    after = side("0.19.1", server={"backends": {"moe": "CUTLASS"}}, counts=False)
    explanation = explained(before, after)
    assert names(explanation) == ["backend_changed:moe"]
    assert explanation.breakdown == []


def test_without_anything_kept_there_is_no_cause() -> None:
    before, after = (make_side_of(version, make_run("1", version)) for version in ("0.19.0", "0.19.1"))
    assert explained(before, after).observed == []


def test_every_cause_has_numbers_of_both_sides_and_how_many_server_starts() -> None:
    before = side("0.19.0", server={"kv_cache_tokens": 1600})
    after = side("0.19.1", server={"kv_cache_tokens": 1280}, queue=0.08)
    for cause in explained(before, after).observed:
        assert any("→" in line and "server starts" in line for line in cause.evidence)
