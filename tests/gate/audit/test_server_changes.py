"""What servers of two versions did differently, by what is kept with their runs."""

from dataclasses import replace

import pytest

from regress_gate.gate.audit.causes import ACTS_ON
from regress_gate.gate.audit.server_changes import LINES, find_server_changes
from regress_gate.model.result import AuditEffect
from regress_gate.model.run import BlockPosition
from regress_gate.vllm.log_signals import SIGNALS
from tests.factories.runs import make_run, make_trial


def runs(version="0.19.0", number=3, *, counted=None, **server):
    """Server starts with these facts of the log; `counted` is what /metrics counted, a function of the number."""
    made = []
    for n in range(1, number + 1):
        metrics = {} if counted is None else counted(n)
        trial = replace(make_trial(), server_metrics=metrics)
        facts = {name: value(n) if callable(value) else value for name, value in server.items()}
        made.append(make_run(str(n), version, trial, server={"non_default_args": {}, **facts}))
    return made


def findings(baseline, candidate):
    return {change.finding.id: change.finding for change in find_server_changes(baseline, candidate)}


def test_a_smaller_cache_is_new_and_says_both_sizes() -> None:
    found = findings(runs(kv_cache_tokens=174720), runs(kv_cache_tokens=143270))
    assert found["kv_cache_smaller"].text == "KV cache 18% smaller"
    assert found["kv_cache_smaller"].effect is AuditEffect.NEW
    assert found["kv_cache_smaller"].evidence == ["start log: 174,720 → 143,270 tokens (3 server starts a side)"]


def test_a_larger_cache_is_resolved() -> None:
    assert findings(runs(kv_cache_tokens=100), runs(kv_cache_tokens=150))["kv_cache_smaller"].effect == "resolved"


@pytest.mark.parametrize("size", [174720, 171000, lambda n: 100_000 * n])
def test_a_cache_that_differs_by_no_more_than_starts_do_is_no_finding(size) -> None:
    baseline = runs(kv_cache_tokens=174720 if not callable(size) else lambda n: 90_000 * n)
    assert findings(baseline, runs(kv_cache_tokens=size)) == {}


def test_another_backend_and_another_setting_are_new() -> None:
    before = runs(backends={"moe": "TRITON"}, config={"dtype": "torch.bfloat16", "seed": "0"})
    after = runs(backends={"moe": "CUTLASS"}, config={"dtype": "torch.float16", "seed": "1"})
    found = findings(before, after)
    assert found["backend_changed:moe"].text == "moe backend changed: TRITON → CUTLASS"
    assert found.keys() == {"backend_changed:moe", "setting_changed:dtype"}


def test_an_argument_that_only_the_candidate_was_given_is_new() -> None:
    after = runs(non_default_args={"max_num_seqs": 2, "port": 8001, "seed": 7}, config={"dtype": "x"})
    found = findings(runs(config={"dtype": "x"}), after)
    assert found.keys() == {"argument_changed:max_num_seqs"}
    assert found["argument_changed:max_num_seqs"].text == "started with max_num_seqs: the default → 2"


def test_an_argument_whose_default_became_what_is_given_is_none() -> None:
    config = {"enable_prefix_caching": "False"}
    before = runs(non_default_args={"enable_prefix_caching": False}, config=config)
    assert findings(before, runs(config=config)) == {}


def installed(version, way="venv", **libraries):
    names = {name.replace("_", "-"): number for name, number in libraries.items()}
    place = BlockPosition("e", 1, 1, "baseline", way=way)
    return [replace(run, libraries=names, place=place) for run in runs(version)]


def test_a_dependency_that_the_tool_has_installed_in_another_version_is_new() -> None:
    before = installed("0.19.0", torch="2.9.1+cpu", triton="3.5.1", xgrammar="0.1.25", numpy="2.2.6")
    after = installed("0.19.1", torch="2.10.0+cpu", triton="3.6.0", xgrammar="0.1.27", numpy="2.2.6")
    found = {change.finding.id: change.before for change in find_server_changes(before, after)}
    assert found == {"library_changed:torch": {"torch": "2.9.1"}, "library_changed:xgrammar": {"xgrammar": "0.1.25"}}


def test_parts_of_flashinfer_move_together() -> None:
    before = installed("0.19.0", flashinfer_python="0.5.2", flashinfer_cubin="0.5.2")
    after = installed("0.19.1", flashinfer_python="0.5.3", flashinfer_cubin="0.5.3")
    (change,) = find_server_changes(before, after)
    assert change.finding.id == "library_changed:flashinfer-python"
    assert change.before == {"flashinfer-python": "0.5.2", "flashinfer-cubin": "0.5.2"}


def test_dependencies_that_the_tool_cannot_install_are_no_finding() -> None:
    assert findings(installed("0.19.0", "docker", torch="2.9.1"), installed("0.19.1", "docker", torch="2.10.0")) == {}
    assert findings(installed("0.19.0", torch="2.9.1+cpu"), installed("0.19.1", torch="2.9.1+cu129")) == {}


def test_servers_that_printed_no_arguments_say_nothing_of_them() -> None:
    assert findings(runs(non_default_args=None), runs(non_default_args={"max_num_seqs": 2})) == {}


def test_smaller_graphs_are_new() -> None:
    found = findings(runs(max_capture_size=512), runs(max_capture_size=256))
    assert found["graphs_smaller"].text == "graphs are captured for batches of up to 256 instead of 512"


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [([], ["x"], "new"), (["x"], ["x"], "carried"), (["x"], [], "resolved")],
)
def test_a_warning_of_the_start_is_new_carried_or_resolved(before, after, effect) -> None:
    line = "Using default MoE config. Performance might be sub-optimal! Config file not found at /a/E=8.json"
    sides = [runs(lines=[line] if lines else ["other"]) for lines in (before, after)]
    (finding,) = findings(*sides).values()
    assert (finding.id, finding.effect) == ("moe_untuned", effect)


def test_where_one_side_kept_no_lines_nothing_is_said_of_them() -> None:
    assert findings(runs(), runs(lines=["Async scheduling will be disabled because of pipelines"])) == {}


def test_preemptions_where_there_were_none_are_new() -> None:
    calm = runs(counted=lambda _: {"preemptions": 0.0, "requests": 200.0})
    busy = runs(counted=lambda n: {"preemptions": 80.0 + n, "requests": 200.0})
    assert findings(calm, busy)["preemptions"].text == "requests are preempted: 0.00 → 0.41 preemptions a request"
    assert findings(busy, calm)["preemptions"].effect == "resolved"
    assert findings(busy, busy)["preemptions"].effect == "carried"


def test_fewer_accepted_drafts_and_prefix_hits_are_new() -> None:
    def counted(share):
        return lambda n: {
            "accepted_draft_tokens": share * 1000 + n,
            "draft_tokens": 1000.0,
            "prefix_cache_hits": share * 500 + n,
            "prefix_cache_queries": 500.0,
        }

    found = findings(runs(counted=counted(0.8)), runs(counted=counted(0.5)))
    assert found["drafts_rejected"].text == "80% → 50% of drafted tokens accepted"
    assert found["prefix_cache_misses"].effect == "new"


def test_new_findings_come_first() -> None:
    before = runs(kv_cache_tokens=100, max_capture_size=512)
    after = runs(kv_cache_tokens=200, max_capture_size=256)
    assert list(findings(before, after)) == ["graphs_smaller", "kv_cache_smaller"]


def test_runs_of_which_nothing_is_kept_have_no_findings() -> None:
    assert find_server_changes([make_run()], [make_run(version="0.19.1")]) == []


def test_values_of_a_strange_type_are_passed_over() -> None:
    strange = runs(kv_cache_tokens="many", max_capture_size=None, lines="no list", backends=3, config=[])
    assert findings(strange, strange) == {}


LINES_OF_FINDINGS = {
    "async_scheduling_off": (
        "Async scheduling will be disabled because it is not supported with the `ray` executor.",
        "Async scheduling not supported with medusa-based speculative decoding and will be disabled.",
        "Async scheduling is disabled because the V1 model runner does not support it with pipeline parallelism.",
        "Using custom scheduler class x.Y. If you have subclassed Scheduler instead of AsyncScheduler, you will see",
    ),
    "graphs_overridden": (
        "CUDAGraphMode.FULL is not supported with FlashInfer backend (support: X); setting cudagraph_mode=PIECEWISE",
        "Pooling models do not support full cudagraphs. Overriding cudagraph_mode to PIECEWISE.",
    ),
    "graphs_skipped": ("Skipping encoder and decoder CUDA graph capture. To enable encoder capture, ensure",),
    "lora_untuned": ("Using default LoRA kernel configs",),
    "hybrid_cache_off": ("Turning off hybrid kv cache manager because `--kv-transfer-config` is set.",),
    "sampler_fallback": ("FlashInfer top-p/top-k sampling unavailable: no nvcc; falling back.",),
}


@pytest.mark.parametrize(
    ("finding", "line"), [(name, line) for name, lines in LINES_OF_FINDINGS.items() for line in lines]
)
def test_every_wording_that_a_rule_reads_is_a_difference(finding, line) -> None:
    candidate = runs(lines=[], signals={"any": [[5, line]]})
    (found,) = findings(runs(lines=[], signals={}), candidate).values()
    assert (found.id, found.effect) == (finding, "new")


def test_every_finding_of_a_line_acts_on_a_part_of_a_request() -> None:
    assert LINES.keys() <= ACTS_ON.keys()
    assert {name for signals in LINES.values() for name in signals} <= SIGNALS.keys()
