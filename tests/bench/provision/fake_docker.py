"""A stand-in for docker's program, with a daemon's memory in a folder: images, containers that outlive the program,
and failures in the words of the real ones."""

import json
import os
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[3]
DIGEST = "sha256:" + "ab" * 32
CONTENT = "sha256:" + "cd" * 32


@dataclass
class FakeDocker:
    """Put `bin` in front of the path. `memory` is what the daemon knows; tests change it as they like."""

    folder: Path
    name: str = "docker"

    def __post_init__(self) -> None:
        self.bin.mkdir(parents=True)
        program = self.bin / self.name
        program.write_text(f"#!{sys.executable} -IS\n{_PROGRAM}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.remember(
            version=f"{self.name} version 28.2.2",
            images={},
            registry={},
            failures={},
            containers={},
            said={"version": "0.19.1", "commit": None, "device": "cuda", "cuda": "12.9", "hip": None},
            packages={"Torch": "2.10.0", "vllm": "0.19.1", "Some.Thing": "1"},
            shares_network=True,
            hangs=False,
            sources="",
            going=0,
            python=sys.executable,
            root=str(ROOT),
        )

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def program(self) -> str:
        return str(self.bin / self.name)

    @property
    def memory(self) -> dict[str, Any]:
        memory: dict[str, Any] = json.loads((self.folder / "memory.json").read_text())
        return memory

    def remember(self, **changes: Any) -> None:
        path = self.folder / "memory.json"
        before = self.memory if path.exists() else {}
        path.write_text(json.dumps(before | changes))

    def publish(self, image: str, digests: tuple[str, ...] = (), content: str = CONTENT) -> None:
        """Let a pull of the image succeed."""
        self.remember(registry=self.memory["registry"] | {image: {"Id": content, "RepoDigests": list(digests)}})

    def fail(self, command: str, output: str, status: int = 1) -> None:
        """Let a command (`pull`, `run`, `image`…) end so."""
        self.remember(failures=self.memory["failures"] | {command: [status, output]})

    def environ(self, **more: str) -> dict[str, str]:
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "FAKE_DOCKER": str(self.folder), **more}

    def calls(self, command: str) -> list[list[str]]:
        """Arguments of all calls of a command so far."""
        log = self.folder / "calls.jsonl"
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [call for call in calls if call[0] == command]

    def running(self) -> list[int]:
        """Processes of containers that live."""
        pids = [each["pid"] for each in self.memory["containers"].values()]
        return [pid for pid in pids if pid > 0 and psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]

    def end(self) -> None:
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)


_PROGRAM = """
import json, os, signal, sys, time
folder = os.environ["FAKE_DOCKER"]
path = os.path.join(folder, "memory.json")
with open(path) as file:
    memory = json.load(file)
arguments = sys.argv[1:]
with open(os.path.join(folder, "calls.jsonl"), "a") as log:
    log.write(json.dumps(arguments) + "\\n")

def remember():
    with open(path + ".new", "w") as file:
        json.dump(memory, file)
    os.replace(path + ".new", path)

def alive(pid):
    try:
        os.kill(pid, 0)
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

def fail(status, text):
    sys.stderr.write(text + "\\n")
    sys.exit(status)

command = arguments[0]
if command == "--version":
    print(memory["version"])
    sys.exit()
if command in memory["failures"]:
    fail(*memory["failures"][command])
if command == "image":
    if arguments[2] not in memory["images"]:
        print("[]")
        fail(1, "Error response from daemon: No such image: " + arguments[2])
    print(json.dumps([memory["images"][arguments[2]]]))
elif command == "pull":
    if arguments[1] not in memory["registry"]:
        fail(1, "Error response from daemon: manifest for %s not found: manifest unknown" % arguments[1])
    print("aaa: Pulling fs layer\\nbbb: Pulling fs layer\\naaa: Pull complete\\nbbb: Pull complete")
    memory["images"][arguments[1]] = memory["registry"][arguments[1]]
    remember()
elif command == "run":
    options = dict(each.split("=", 1) for each in arguments if each.startswith("--") and "=" in each)
    entrypoint = options["--entrypoint"]
    if entrypoint == "sh":
        print(os.readlink("/proc/self/ns/net") if memory["shares_network"] else "net:[1]")
        print(open("/proc/sys/kernel/random/boot_id").read())
    elif entrypoint == "python3":
        if memory["hangs"]:
            memory["containers"][options["--name"]] = {"pid": -1, "label": options["--label"]}
            remember()
            time.sleep(600)
        if "regress-gate-sources:" in arguments[-1]:
            print("noise\\nregress-gate-sources:" + memory["sources"] if memory["sources"] else "noise")
            sys.exit()
        print("noise\\nregress-gate-probe:" + json.dumps(memory["said"] | {"packages": memory["packages"]}))
    else:
        index = arguments.index("serve")
        env = {name: os.environ[name] for each in arguments if each.startswith("--env=")
               for name in [each.partition("=")[2]] if name in os.environ and name != "REGRESS_GATE_SERVER"}
        # Not a descendant of this program, as containers are the daemon's.
        told, tell = os.pipe()
        if os.fork() == 0:
            os.setsid()
            pid = os.fork()
            if pid == 0:
                os.chdir(folder)
                os.execve(memory["python"], [memory["python"], "-m", "tests.fake_vllm", *arguments[index:]],
                          env | {"PYTHONPATH": memory["root"]})
            os.write(tell, str(pid).encode())
            os._exit(0)
        pid = int(os.read(told, 20))
        os.wait()
        memory["containers"][options["--name"]] = {"pid": pid, "label": options["--label"]}
        remember()
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
        while alive(pid):
            time.sleep(0.02)
        with open(path) as file:
            memory = json.load(file)
        memory["containers"].pop(options["--name"], None)
        remember()
elif command == "ps":
    label = arguments[-1].partition("=")[2]
    print("\\n".join(name for name, each in memory["containers"].items() if each["label"] == label))
elif command == "rm" and memory["going"]:
    memory["going"] -= 1
    remember()
    fail(1, "Error response from daemon: removal of container %s is already in progress" % arguments[-1])
elif command in ("stop", "rm"):
    for name in [each for each in arguments if each in memory["containers"]]:
        pid = memory["containers"][name]["pid"]
        if pid > 0 and alive(pid):
            os.kill(pid, signal.SIGTERM if command == "stop" else signal.SIGKILL)
        while pid > 0 and alive(pid):
            time.sleep(0.01)
        with open(path) as file:
            memory = json.load(file)
        memory["containers"].pop(name, None)
        remember()
"""
