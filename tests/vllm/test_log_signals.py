"""Reading a log: its last start, its signals with their lines, and statistics of any length."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.gate.audit.engine import run_rules
from regress_gate.gate.audit.observations import Targets
from regress_gate.gate.audit.rule import Answer
from regress_gate.vllm import log_signals
from regress_gate.vllm.log_signals import MOST_MATCHES, RECENT_LINES, START_LINES, ServerLog, read_server_log, scan_log
from regress_gate.vllm.start_log import read_start_log
from tests.factories.audits import a_log, observed, statistics_line

GRAPH_MEMORY = (
    "CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.9200 is "
    "equivalent to --gpu-memory-utilization=0.8700 without CUDA graph memory profiling."
)

UNTUNED = "Using default MoE config. Performance might be sub-optimal! Config file not found at /x.json"


def test_a_signal_has_its_line_and_text() -> None:
    (line,) = a_log("something else", UNTUNED).found("moe_default")
    assert (line.number, line.groups) == (5, ("/x.json",))


def test_only_the_last_start_counts() -> None:
    lines = [f"{line}\n".encode() for line in [UNTUNED, *["x"] * 100, "non-default args: {}", "y"]]
    log = scan_log(lines, "x")
    assert log.has_start
    assert log.found("moe_default") == ()


def starts(*versions, compiled="torch.compile took 48.2 s in total", arguments=("{}", "{}"), apart=100):
    lines = []
    for version, argument in zip(versions, arguments, strict=False):
        lines += [
            f"version {version}",
            f"INFO 11-21 02:11:13 [utils.py:233] non-default args: {argument}",
            f"Initializing a V1 LLM engine (v{version}) with config: model='m'",
            *["x"] * apart,
            compiled,
        ]
    return scan_log([f"{line}\n".encode() for line in lines], "x")


def test_an_earlier_start_of_the_same_server_had_its_graphs() -> None:
    assert starts("0.24.0", "0.24.0").compiled_before


@pytest.mark.parametrize(
    "log",
    [
        starts("0.24.0"),
        starts("0.24.0", "0.25.0"),
        starts("0.24.0", "0.24.0", arguments=("{}", "{'max_model_len': 7}")),
        starts("0.24.0", "0.24.0", compiled="killed"),
    ],
    ids=["one start", "another version", "other arguments", "nothing compiled before"],
)
def test_else_the_first_start_has_to_compile(log) -> None:
    assert log.has_start
    assert not log.compiled_before


def test_what_is_printed_just_before_the_arguments_belongs_to_the_start() -> None:
    log = scan_log([UNTUNED.encode(), b"non-default args: {}"], "x")
    assert len(log.found("moe_default")) == 1


def test_a_log_without_a_start_says_so() -> None:
    assert not scan_log([b"x", statistics_line().encode()], "x").has_start


def test_statistics_are_summed_over_lines_with_load() -> None:
    lines = [statistics_line(running=0), statistics_line(preemptions=2, usage=98.0), statistics_line(waiting=7)]
    statistics = a_log(*lines).statistics
    assert statistics is not None
    assert (statistics.lines, statistics.preemptions, statistics.high_usage_lines) == (2, 2, 1)
    assert (statistics.peak_waiting, statistics.waiting_with_room_lines, statistics.hit_rate) == (7, 1, 12.0)
    assert statistics.most_used is not None
    assert statistics.most_used.number == 5


@pytest.mark.parametrize(
    "line",
    [
        (
            "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 9.0 tokens/s, "
            "Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 7.5%, Prefix cache hit rate: 50.0%"
        ),
        (
            "2 Engines Aggregated: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 9.0 tokens/s, "
            "Running: 3 reqs, Waiting: 2 reqs, Deferred: 1 reqs, Preemptions: 4, GPU KV cache usage: 7.5%"
        ),
        (
            "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 9.0 tokens/s, "
            "Running: 3 reqs, Waiting: 2 reqs, Deferred: 1 reqs, "
            "KV fetch: 1 waiting to start, 2 in progress, 3 completed waiting, "
            "Preemptions: 4, CPU KV cache usage: 7.5%, Prefix cache hit rate: 50.0%"
        ),
    ],
    ids=["0.11", "0.24", "0.33"],
)
def test_statistics_of_every_release_are_read(line: str) -> None:
    statistics = a_log(line).statistics
    assert statistics is not None
    assert (statistics.peak_running, statistics.peak_waiting, statistics.peak_usage) == (3, 2, 7.5)


def test_of_one_signal_only_the_first_lines_are_kept() -> None:
    assert len(a_log(*[UNTUNED] * 500).found("moe_default")) == MOST_MATCHES


def test_a_secret_in_a_line_is_masked() -> None:
    line = f"{UNTUNED}?token=hf_abcdefghijklmnopqrstuvwxyzABCDEF12"
    (found,) = a_log(line).found("moe_default")
    assert "hf_abcdefgh" not in found.text + found.groups[0]


@given(st.lists(st.binary(max_size=200)))
def test_any_lines_have_a_result(lines: list[bytes]) -> None:
    scan_log(lines, "x")


def test_a_line_without_a_signal_costs_no_more_than_a_search_for_fixed_texts(monkeypatch) -> None:
    """What keeps a log of 50 MB below a second (benchmarks/audit_log.py): decoding and patterns are for few lines."""
    decoded = []
    monkeypatch.setattr(log_signals, "strip_prefix", lambda line: decoded.append(line) or line)
    start = b"INFO 11-21 02:11:13 [utils.py:233] non-default args: {}\n"
    other = b'INFO:     10.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    statistics = f"{statistics_line()}\n".encode()
    log = scan_log([start, *[other] * 200, *[statistics] * 200, f"{UNTUNED}\n".encode(), *[other] * 200], "x")
    assert log.statistics.lines == 200
    # One signal, and of all statistics the lines that are kept as evidence.
    assert len(decoded) <= 8


def test_a_signal_long_after_the_start_is_not_searched() -> None:
    lines = [b"non-default args: {}\n", *[b"x\n"] * START_LINES, f"{UNTUNED}\n".encode()]
    assert scan_log(lines, "x").found("moe_default") == ()
    assert len(scan_log([lines[0], *lines[2:]], "x").found("moe_default")) == 1


def test_of_statistics_only_the_last_lines_under_load_count() -> None:
    busy = [statistics_line(preemptions=3, usage=99.0, running=64)] * 10
    calm = [statistics_line(usage=40.0, running=8)] * RECENT_LINES
    statistics = a_log(*busy, *calm, *[statistics_line(running=0)] * 500).statistics
    assert statistics is not None
    assert (statistics.lines, statistics.preemptions, statistics.peak_running) == (RECENT_LINES, 0, 8)


@pytest.mark.parametrize("apart", [0, 5, 100, 5000])
def test_the_facts_of_a_log_with_several_starts_are_those_of_the_last(apart) -> None:
    log = starts("0.19.1", "0.32.0", arguments=("{'max_num_seqs': 8}", "{'max_num_seqs': 64}"), apart=apart)
    assert str(log.facts.version) == "0.32.0"
    assert log.facts.deployment.engine_args == {"max_num_seqs": 64}
    assert log.start is not None
    assert log.start.version == "0.32.0"


def test_a_log_without_a_start_has_the_facts_of_its_first_lines() -> None:
    lines = ["Resolved architecture: MixtralForCausalLM", *["x"] * 5000, "Resolved architecture: Other"]
    log = scan_log([f"{line}\n".encode() for line in lines], "x")
    assert (log.has_start, log.start) == (False, None)
    assert log.facts.deployment.architecture == "MixtralForCausalLM"


MANY = "7" * 5000
DAMAGED = {
    "concurrency": "Maximum concurrency for 8,192 tokens per request: 1.2.3x",
    "graph memory": GRAPH_MEMORY.replace("0.9200", "0.9.2"),
    "usage": statistics_line().replace("40.0%", "1.2.3%"),
    "hit rate": statistics_line().replace("12.0%", "...%"),
    "preemptions": statistics_line(preemptions=7).replace("Preemptions: 7", f"Preemptions: {MANY}"),
    "running": statistics_line().replace("Running: 8", f"Running: {MANY}"),
    "size of the cache": f"GPU KV cache size: {MANY} tokens",
    "largest graph": f"Capping cudagraph capture sizes from max {MANY} to 64 to fit Mamba cache blocks",
    "seconds of compilation": "torch.compile took 4..8 s in total",
    "tokens a step": f"Chunked prefill is enabled with max_num_batched_tokens={MANY}",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_number_is_none_for_every_rule(line: str) -> None:
    log = a_log(*[line] * 6)
    assert log.found("concurrency") == ()
    assert log.found("graph_memory") == ()
    results = run_rules(observed(log=log, targets=Targets(64, 0.5, 0.05)))
    assert [one.rule.id for one in results if one.outcome.answer is Answer.FIRES] == []
    read_start_log(line)


def test_a_line_without_an_end_is_not_held_in_memory_whole(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("wb") as file:
        file.write(b"non-default args: {'model': 'm'}\n")
        file.seek(200 * 2**20)  # sparse: it takes no room on the disk
        file.write(b"\nnon-default args: {'model': 'n'}\n")
    tracemalloc.start()
    log = read_server_log(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.facts.deployment.model == "n"
    assert peak < 50 * 2**20


ARGUMENTS = "(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:233] non-default args: {'model': 'm'}"


@pytest.mark.parametrize(
    "line",
    [
        "INFO 06-14 05:00:00 [logger.py:40] Received request cmpl-1: prompt: 'why non-default args: {}', params: x",
        "INFO 06-14 05:00:00 [logger.py:40] Received request cmpl-1: prompt: '\\nnon-default args: {}', params: x",
    ],
)
def test_a_prompt_that_speaks_of_arguments_is_no_start(line: str) -> None:
    facts = a_log_of(ARGUMENTS, "Initializing a V1 LLM engine (v0.24.0) with config: model='m'", line).facts
    assert (facts.deployment.model, facts.deployment.complete) == ("m", True)


@pytest.mark.parametrize(
    "prefix",
    [
        "(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:233] ",
        "INFO 06-14 04:56:10 api_server.py:1896] ",
        "vllm-1  | INFO 11-21 02:11:13 [utils.py:233] ",
        "2026-11-21T02:11:13.1Z stdout F INFO 11-21 02:11:13 [utils.py:233] ",
        "",
    ],
)
def test_a_start_is_seen_whatever_stands_before_its_arguments(prefix: str) -> None:
    assert a_log_of(f"{prefix}non-default args: {{'model': 'm'}}").has_start


def test_facts_far_down_in_a_long_start_are_read() -> None:
    noise = ["NCCL INFO Channel 00/32 : 0 1 2 3 4 5 6 7"] * 5_000
    log = a_log_of(
        ARGUMENTS, *noise, "(EngineCore pid=8) INFO 11-21 02:12:00 [x.py:1] GPU KV cache size: 49,152 tokens"
    )
    assert log.start is not None
    assert log.start.kv_cache_tokens == 49152


def test_the_line_after_one_that_is_far_too_long_is_read() -> None:
    log = a_log_of("version 0.24.0", ARGUMENTS, "x" * 70_000, "Resolved architecture: LlamaForCausalLM")
    assert log.facts.deployment.architecture == "LlamaForCausalLM"


def a_log_of(*lines: str) -> ServerLog:
    return scan_log([f"{line}\n".encode() for line in lines], "x")
