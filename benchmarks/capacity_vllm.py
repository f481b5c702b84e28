"""The capacity of a real vLLM on the CPU, against itself and against one that may take fewer sequences at once.

    python benchmarks/capacity_vllm.py [--version 0.19.1] [--blocks 5] [--requests 200] [--keep FOLDER]

One version is measured as three: as itself, once more, and with two sequences at once in place of eight. A launch
line sees the name that the version was given, starts the same build, and lets it report that name. Exits 1 where
the version fails against itself, or where the loss is not found. Installs the version (`env add`) if it is not
there. `--keep` names a folder for suite, launch line and store. Takes half an hour for five blocks on a machine with
two cores that does nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

SUITE = """\
name: real-capacity
version: 1
description: How many requests a second the tiny model answers in time.
accelerator: cpu
conditions: {{max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}}
gate: {{metrics: ["max_load@slo"], margins: {{"max_load@slo": 0.2}}, expected_cv: 0.05}}
scenarios:
  - name: chat
    why: "how many requests a second begin to be answered in time"
    server:
      model: tiny
      engine_args: {{dtype: float32, max_model_len: 1024, enforce_eager: true, enable_prefix_caching: false}}
      env: {{VLLM_CPU_KVCACHE_SPACE: "1"}}
    workload:
      input_len: 64
      output_len: 32
      num_requests: {requests}
      warmup_requests: 8
      slo: {{ttft: 0.5}}
      capacity: 0.9
"""
LAUNCHER = """\
#!/bin/bash
# launch.sh VERSION MODEL ARGUMENTS…
version=$1 model=$2; shift 2
seats=8; [[ $version = *+few ]] && seats=2
[[ $version = *+* ]] && export REPORTED_VERSION=$version PYTHONPATH={folder}
exec "{vllm}" serve "$model" "$@" --max-num-seqs $seats
"""
NAMING = """\
# sitecustomize.py: the build reports the name that the launcher was given, else its runs would be those of one version.
import importlib.util
import os
import sys


class NamedBuild:
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "vllm._version" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__version__ = module.version = os.environ["REPORTED_VERSION"]
        module.__version_tuple__ = module.version_tuple = tuple(map(int, module.version.partition("+")[0].split(".")))
        module.__commit_id__ = module.commit_id = None


if "REPORTED_VERSION" in os.environ:
    sys.meta_path.insert(0, NamedBuild())
"""
LINE = "launch.sh {version} {model} --port {port} --served-model-name {served_model_name} {engine_args}"
CANDIDATES = ("again", "few")
PROGRAM = "regress_gate"
"""The module that measures."""


@dataclass(frozen=True)
class Compared:
    exit_code: int
    change: float | None
    interval: tuple[float | None, float | None] | None
    text: str


def gate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "REGRESS_GATE_STORE": str(folder / "store.db"), "XDG_STATE_HOME": str(folder)}
    command = [sys.executable, "-m", PROGRAM, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def executable(folder: Path, version: str) -> Path:
    """Of the version, which is installed if it is not there."""
    if gate(folder, "env", "add", version, "--variant", "cpu").returncode:
        sys.exit(f"{version} could not be installed")
    listed = json.loads(gate(folder, "env", "list", "--format", "json").stdout)
    (found,) = (each["path"] for each in listed if each["version"] == f"{version}+cpu")
    return Path(found) / "venv" / "bin" / "vllm"


def compare(folder: Path, version: str, candidate: str, blocks: int) -> Compared:
    """The version against itself by another name. Takes the suite and the launcher from the folder."""
    done = gate(
        *(folder, "compare", version, f"{version}+{candidate}", "--measure", "--all-blocks", "--runs", str(blocks)),
        *("--suite", "real-capacity.yaml", "--serve-command", str(folder / LINE), "--format", "json", "-v"),
    )
    if not done.stdout:
        sys.exit(f"nothing was measured (exit {done.returncode})")
    result = json.loads(done.stdout)
    found = [each for each in result["series"] if each["metric"] == "max_load@slo"]
    if not found:
        sys.exit(f"no run counts: {result['reasons'][0]['text']}")
    (one,) = found
    return Compared(done.returncode, one["change"], one["interval"], result["reasons"][0]["text"])


def write(folder: Path, version: str, requests: int) -> None:
    (folder / "real-capacity.yaml").write_text(SUITE.format(requests=requests), encoding="utf-8")
    launcher = folder / "launch.sh"
    launcher.write_text(LAUNCHER.format(vllm=executable(folder, version), folder=folder), encoding="utf-8")
    launcher.chmod(0o755)
    (folder / "sitecustomize.py").write_text(NAMING, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", default="0.19.1")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200, help="at each rate")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as place:
        folder = Path(place).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, given.version, given.requests)
        found = {name: compare(folder, given.version, name, given.blocks) for name in CANDIDATES}
    print("| candidate | exit | loss of capacity | what it says |\n| --- | --- | --- | --- |")
    for name, one in found.items():
        loss = "n/a" if one.change is None else f"{100 * one.change:.1f} %"
        print(f"| {given.version}+{name} | {one.exit_code} | {loss} {one.interval or ''} | {one.text} |")
    return int(found["again"].exit_code == 1 or found["few"].exit_code != 1)


if __name__ == "__main__":
    sys.exit(main())
