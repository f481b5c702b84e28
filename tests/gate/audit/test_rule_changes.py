"""Which rules fire on the servers of one side alone, by what is kept with their runs."""

from dataclasses import replace

import pytest

from regress_gate.gate.audit.rule_changes import SAID_BY, find_rule_changes
from regress_gate.gate.audit.server_changes import LINES
from regress_gate.model.result import AuditEffect
from regress_gate.model.run import BlockPosition
from tests.factories.audits import BY_ID
from tests.factories.runs import make_run, make_trial

MOE = [[212, "Using default MoE config. Performance might be sub-optimal! Config file not found at /x.json"]]
SLOW_COMPILATION = [[90, "torch.compile took 48.21 s in total"]]
PREEMPTING = {"preemptions": 40.0, "requests": 200.0, "kv_cache_usage_max": 1.0}
QUIET = {"preemptions": 0.0, "requests": 200.0, "kv_cache_usage_max": 0.4}


def run(label="1", *, counted=None, scenarios=("c8",), concurrency=8, cold=False, signals=(), **server):
    """A start whose log has these lines of signals; `counted`: what /metrics counted, by scenario or for all."""
    counted = counted or {}
    trials = [
        replace(
            make_trial(name, workload={"max_concurrency": concurrency}),
            server_metrics=counted.get(name, counted if "requests" in counted else {}),
        )
        for name in scenarios
    ]
    place = BlockPosition("e", 1, 1, "baseline", cold=cold)
    facts = {"non_default_args": {}, "signals": dict(signals), **server}
    return make_run(label, "0.24.0", *trials, server=facts, place=place)


def effects(baseline, candidate):
    return {one.id: one.effect.value for one in find_rule_changes(baseline, candidate)}


def test_a_line_that_only_the_candidate_prints_is_new_with_its_evidence() -> None:
    (found,) = find_rule_changes([run()] * 3, [run(signals={"moe_default": MOE})] * 3)
    assert (found.id, found.effect, found.severity) == ("MOE001", AuditEffect.NEW, "medium")
    assert found.evidence[0].startswith("log, line 212: Using default MoE config.")
    assert found.evidence[-1] == (
        "does not fire at 3 server starts of the baseline, fires at 3 server starts of the candidate"
    )
    assert "--tune" in found.remedy
    assert found.costs == BY_ID["MOE001"].why
    assert found.same_as == ["moe_untuned"]


def test_a_line_that_only_the_baseline_prints_is_gone() -> None:
    assert effects([run(signals={"moe_default": MOE})], [run()]) == {"MOE001": "resolved"}


def test_what_both_print_is_carried() -> None:
    untuned = [run(signals={"moe_default": MOE})]
    assert effects(untuned, untuned) == {"MOE001": "carried"}


def test_a_side_whose_log_lacks_its_start_says_nothing() -> None:
    untuned = [run(signals={"moe_default": MOE})]
    for unknown in (run(server={}), run()):
        nothing = replace(unknown, server={"lines": [], "signals": None, "non_default_args": {}})
        assert effects([nothing], untuned) == effects(untuned, [nothing]) == {}
    assert effects([replace(run(), server={})], untuned) == {}


def test_lines_that_an_older_tool_kept_show_what_was_printed_and_not_what_was_not() -> None:
    older = [replace(run(), server={"lines": [MOE[0][1]], "non_default_args": {}})]
    assert effects([run()], older) == {"MOE001": "new"}
    assert effects(older, older) == {"MOE001": "carried"}
    without = [replace(run(), server={"lines": ["Loading weights took 2 s"], "non_default_args": {}})]
    assert effects(without, older) == {}


def test_starts_of_one_side_that_differ_say_nothing() -> None:
    mixed = [run("1", signals={"moe_default": MOE}), run("2")]
    assert effects([run()], mixed) == {}
    assert effects(mixed, [run(signals={"moe_default": MOE})]) == {}


def test_what_the_server_counted_under_load_is_audited_by_scenario() -> None:
    scenarios = ("c8", "c64")
    before = [run(str(n), scenarios=scenarios, counted={"c8": QUIET, "c64": QUIET}) for n in range(3)]
    after = [run(str(n), scenarios=scenarios, counted={"c8": QUIET, "c64": PREEMPTING}) for n in range(3)]
    (found,) = find_rule_changes(before, after)
    assert (found.id, found.effect, found.severity) == ("KV003", AuditEffect.NEW, "high")
    assert found.text.endswith("(c64)")
    assert found.evidence[0] == "metrics: 40 preemptions, 200 finished requests, KV cache 100%, during c64"


def test_a_trial_too_short_for_a_gauge_shows_its_counters() -> None:
    short = [{name: count for name, count in counts.items() if "usage" not in name} for counts in (QUIET, PREEMPTING)]
    assert effects([run(counted=short[0])], [run(counted=short[1])]) == {"KV003": "new"}


def test_a_run_without_counters_does_not_tell_and_the_others_do() -> None:
    after = [run("1", counted=PREEMPTING), run("2"), run("3", counted=PREEMPTING)]
    (found,) = find_rule_changes([run(counted=QUIET)], after)
    assert found.evidence[-1].endswith("fires at 2 server starts of the candidate")
    assert effects([run()], after) == {}


def test_a_cache_that_holds_fewer_requests_than_a_scenario_sends_is_new() -> None:
    fits = [[300, "Maximum concurrency for 4,096 tokens per request: 9.50x"]]
    fewer = [[300, "Maximum concurrency for 4,096 tokens per request: 7.75x"]]
    before, after = [run(signals={"concurrency": fits})], [run(signals={"concurrency": fewer})]
    assert effects(before, after) == {"KV001": "new"}
    unlimited = [run(signals={"concurrency": fewer}, concurrency=None)]
    assert effects(before, unlimited) == {}


def test_a_batch_beyond_the_graphs_is_seen_in_the_gauges_of_a_single_engine() -> None:
    running = {"requests": 200.0, "running_max": 300.0, "running_mean": 250.0}
    before, after = ([run(counted=running, max_capture_size=size)] for size in (512, 256))
    assert effects(before, after) == {"CG003": "new"}
    several = {**running, "engines": 2.0}
    assert effects(*([run(counted=several, max_capture_size=size)] for size in (512, 256))) == {}


def test_the_first_start_of_a_version_compiles_its_graphs_without_a_finding() -> None:
    warm = [run()]
    assert effects(warm, [run(signals={"compiled": SLOW_COMPILATION}, cold=True)]) == {}
    assert effects(warm, [run(signals={"compiled": SLOW_COMPILATION})]) == {"COMP001": "new"}


@pytest.mark.parametrize(
    "server",
    [
        {"signals": {"moe_default": [7, [1], ["x", 3], [1, None]]}},
        {"signals": {"moe_default": "x"}, "non_default_args": {"model": [1], "seed": {"z": None}}},
        {"signals": [], "lines": 7, "config": 3, "backends": [1], "max_capture_size": "x", "architecture": 5},
        {"lines": [None, {"x": 1}], "non_default_args": "x"},
    ],
)
def test_facts_in_another_form_than_the_tool_writes_are_unknown(server) -> None:
    strange = replace(run(), server=server)
    assert effects([strange], [strange]) == {}


def test_every_line_that_differences_read_is_said_by_a_rule_that_reads_it() -> None:
    assert SAID_BY.keys() == {*LINES, "preemptions"}
    assert set(SAID_BY.values()) <= BY_ID.keys()
