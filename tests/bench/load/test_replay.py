"""Recorded traffic that is sent again: when, what, and what is kept of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.experiment.experiment_plan import suite_digest
from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_workload import LoadWorkload, trace_prompts
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.load.trace import Trace, open_trace
from regress_gate.errors import InputError
from regress_gate.gate.sides import workload_difference
from regress_gate.model.suite import RecordedTrace, Suite
from tests.factories.scripts import ROOT

LENGTHS = {"input_len": 0, "output_len": 0}


def lines(folder: Path, *entries: dict[str, Any]) -> str:
    file = folder / "traffic.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return str(file)


def own(*requests: tuple[float, int, int]) -> list[dict[str, Any]]:
    return [{"time": time, "input_tokens": prompt, "output_tokens": answer} for time, prompt, answer in requests]


def hashed(*requests: tuple[float, int, list[int]]) -> list[dict[str, Any]]:
    return [
        {"timestamp": time, "input_length": length, "output_length": 2, "hash_ids": ids}
        for time, length, ids in requests
    ]


def replayed(folder: Path, entries: list[dict[str, Any]], *, warmup: int = 0, **more: Any) -> dict[str, Any]:
    """What a load workload needs to replay all entries."""
    requests = len(entries) - warmup
    recorded = RecordedTrace(file=lines(folder, *entries), **more)
    trace = open_trace(recorded, warmup=warmup, requests=requests)
    return {**LENGTHS, "trace": trace, "num_requests": requests, "warmup_requests": warmup}


def scheduled(result) -> list[float]:
    return json.loads(result.content)["scheduled_times"]


def prompts(trace: Trace, *, seed: int = 0, scenario: str = "c", ordinal: int = 1) -> list[tuple[int, ...]]:
    workload = LoadWorkload(0, 0, len(trace.times) - trace.warmup, warmup_requests=trace.warmup, seed=seed, trace=trace)
    return [tuple(prompt) for prompt in trace_prompts(workload, trace, scenario, ordinal)]


def suite(file: str, **more: Any) -> Suite:
    workload = {"num_requests": 2, "trace": {"file": file}, **more}
    server = {"model": "m", "engine_args": {"max_model_len": 64}}
    scenarios = [{"name": "a", "server": server, "workload": workload}]
    return Suite.model_validate({"name": "mine", "version": "1", "description": "test", "scenarios": scenarios})


def test_every_request_is_sent_at_its_time_with_its_lengths(simulate, tmp_path):
    server = simulate("--ttft", "0.5")
    recorded = [(10.0, 30, 4), (10.25, 20, 8), (10.25, 9, 2), (75.5, 12, 3)]
    trial = (result := server.measure(**replayed(tmp_path, own(*recorded)))).trial
    assert (trial.completed, trial.failed) == (4, 0)
    assert scheduled(result) == pytest.approx([0.0, 0.25, 0.25, 65.5])
    assert trial.samples.start.tolist() == pytest.approx([0.0, 0.25, 0.25, 65.5], abs=1e-3)
    asked = [(request["prompt_tokens"], request["parameters"]["max_tokens"]) for request in server.requests]
    assert sorted(asked) == sorted((prompt, answer) for _, prompt, answer in recorded)
    assert list(trial.samples.output_tokens) == [4, 8, 2, 3]


def test_half_the_scale_sends_twice_as_fast(simulate, tmp_path):
    result = simulate().measure(**replayed(tmp_path, own((0, 8, 2), (4, 8, 2), (6, 8, 2)), scale=0.5))
    assert scheduled(result) == pytest.approx([0.0, 2.0, 3.0])


def test_a_slow_server_does_not_delay_what_comes_later(simulate, tmp_path):
    """Latency counts from the moment of the trace, also where `concurrency` keeps a request back."""
    entries = own((0, 8, 2), (1, 8, 2), (2, 8, 2))
    slow = simulate("--ttft", "5", "--tpot", "0")
    assert slow.measure(**replayed(tmp_path, entries)).trial.metrics["ttft_mean"] == pytest.approx(5.0, abs=0.01)
    capped = slow.measure(**replayed(tmp_path, entries), concurrency=1).trial
    assert capped.metrics["ttft_mean"] == pytest.approx((5 + 9 + 13) / 3, abs=0.05)


def test_the_first_requests_are_the_warm_up_and_not_measured(simulate, tmp_path):
    server = simulate()
    trial = server.measure(**replayed(tmp_path, own((0, 5, 2), (0, 6, 2), (50, 7, 2), (51, 8, 2)), warmup=2)).trial
    assert trial.completed == 2
    assert trial.samples.input_tokens.tolist() == [7, 8]
    assert sorted(request["prompt_tokens"] for request in server.requests) == [5, 6, 7, 8]


def test_texts_are_sent_as_they_are_and_said_to_be_the_same_in_every_trial(simulate, tmp_path):
    server = simulate()
    entries = [{"time": 0, "prompt": "w w w", "output_tokens": 3}, *own((1, 9, 2))]
    first, second = (server.measure(**replayed(tmp_path, entries), ordinal=ordinal) for ordinal in (1, 2))
    assert first.trial.samples.input_tokens.tolist() == [3, 9]
    said = "earlier trials sent the same texts of the trace, which a cache remembers"
    assert (said in first.notes, said in second.notes) == (False, True)


def test_equal_blocks_are_equal_tokens_and_all_others_differ(tmp_path):
    entries = hashed((0, 40, [1, 2, 3]), (1, 48, [1, 2, 4]), (2, 16, [5]), (3, 40, []))
    one, other, alone, unhashed = prompts(replayed(tmp_path, entries, format="vllm", warmup=1)["trace"])
    assert (len(one), len(other), len(alone), len(unhashed)) == (40, 48, 16, 40)
    assert one[:32] == other[:32]
    starts = {one[:16], one[16:32], one[32:40], other[32:40], alone[:8], unhashed[:8]}
    assert len(starts) == 6


def test_both_sides_get_the_same_tokens_and_every_pass_its_own(tmp_path):
    trace = replayed(tmp_path, hashed((0, 40, [1, 2, 3]), (1, 20, [])), format="vllm")["trace"]
    assert prompts(trace) == prompts(trace)
    others = [prompts(trace, seed=1), prompts(trace, scenario="d"), prompts(trace, ordinal=2), prompts(trace)]
    assert len({prompt[:8] for made in others for prompt in made}) == 8


def test_what_is_kept_names_the_trace_and_its_mean_rate(simulate, tmp_path):
    asked = replayed(tmp_path, own((0, 8, 2), (1, 8, 2), (4, 8, 2)))
    described = simulate().measure(**asked).trial.workload
    assert (described["dataset"], described["arrival"], described["request_rate"]) == ("trace", "trace", 0.5)
    assert described["trace_sha256"] == asked["trace"].sha256
    assert not {"input_len", "output_len", "prefix_len"} & described.keys()


def test_trials_of_two_traces_are_not_compared(simulate, tmp_path):
    server = simulate()
    one = server.measure(**replayed(tmp_path, own((0, 8, 2), (1, 8, 2)))).trial
    other = server.measure(**replayed(tmp_path, own((0, 8, 2), (0.5, 8, 2), (1, 8, 2)), warmup=1, scale=2.0)).trial
    assert workload_difference([one], [one]) is None
    assert "the recorded trace differs: SHA-256" in str(workload_difference([one], [other]))


def test_a_trial_that_is_over_before_its_trace_is_void(simulate, tmp_path):
    asked = replayed(tmp_path, own((0, 8, 2), (100, 8, 2)))
    assert simulate().measure(**asked, limits=LoadLimits(trial=10.0)).why_void is not None


def test_a_suite_with_another_trace_is_another_suite_and_a_copy_of_the_file_is_not(tmp_path):
    first = suite_digest(suite(file := lines(tmp_path, *own((0, 8, 2), (1, 8, 2), (2, 8, 2)))))
    copy = tmp_path / "copy"
    copy.write_bytes(Path(file).read_bytes())
    assert suite_digest(suite(str(copy))) == first
    lines(tmp_path, *own((0, 8, 2), (1, 8, 3)))
    assert suite_digest(suite(file)) != first


def test_a_suites_trace_is_read_before_a_server_starts(tmp_path):
    file = lines(tmp_path, *own((0, 8, 2), (1, 60, 4), (2, 60, 5)))
    [(_, workload)] = load_workloads(suite(file))
    assert workload.trace is not None
    assert workload.trace.measured_times.tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match="request 3 needs 65 tokens, and max_model_len is 64; leave it out"):
        load_workloads(suite(file, num_requests=3))
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        load_workloads(suite(str(tmp_path / "none.jsonl")))


def test_the_benchmark_of_lateness_measures_the_client_and_the_thread():
    """Not its bound, which a busy machine breaks: it says so and exits with 1."""
    command = [sys.executable, "benchmarks/trace_replay.py", "--pairs", "1", "--requests", "20", "--rate", "100"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    rows = [line.split()[-5:-4] for line in done.stdout.splitlines() if "by the server" in line or "own stamp" in line]
    assert rows == [["20"]] * 3, done.stdout + done.stderr
    assert "beside what the machine can send" in done.stdout
