"""A repository of a team that serves with vLLM, its pull requests, and the machine that its workflows run on."""

import fcntl
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from regress_gate import github as client_module
from regress_gate.cli.main import run as call_program
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import READ_ONLY, WRITE, State
from tests.workflows.runner import ROOT, TOKEN, Run, Runner, export_action, link_action, read_run

NAME = "team/serving"
PAGES = {"shown.yml": ROOT / "ci" / "README.md"} | {
    f"{name}.yml": ROOT / "docs" / f"{name}.md"
    for name in ("baselines-in-files", "postgresql", "baselines-on-a-branch", "baselines-in-artifacts")
}
"""Pages with a workflow to copy, by the name that its file has here."""
GPU_NAMES = "          suite: serving.yaml\n          testbed: h200-node-3\n"
CPU_NAMES = GPU_NAMES.replace("serving.yaml", "cpu-tiny").replace("h200-node-3", "cpu-2core")
"""Of what the workflows on pages compare, and of the measurements in `baselines/`."""
PUBLISHES = "$ regress-gate ci publish "
"""Begins the lines of the log that say how the action called it."""
COMPOSE = """\
services:
  chat:
    image: {image}:v{version}
    command: --model {model}
"""
SETTINGS = """\
[deployment]
file = "deploy/compose.yaml"
accelerator = "{accelerator}"
quantization = "none"
"""


def read_page(page: Path) -> str:
    """The workflow that a page shows."""
    shown = re.search(r"^```yaml\n(name: .*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert shown
    return shown[1]


def deployment(
    version: str, *, accelerator: str = "H200", model: str = "mistralai/Mixtral-8x7B-v0.1"
) -> dict[str, str]:
    """The files of the team: what is served, and on what."""
    image = "vllm/vllm-openai-cpu" if accelerator == "cpu" else "vllm/vllm-openai"
    return {
        "deploy/compose.yaml": COMPOSE.format(image=image, version=version, model=model),
        "regress-gate.toml": SETTINGS.format(accelerator=accelerator),
    }


SMALL = {"accelerator": "H100", "model": "meta-llama/Llama-3.1-8B-Instruct"}
CHANGES = {
    "pass": (deployment("0.19.0", **SMALL), deployment("0.19.1", **SMALL)),
    "fail": (deployment("0.19.1"), deployment("0.20.0")),
    "inconclusive": (deployment("0.19.1"), deployment("0.33.0")),
    "could not measure": (deployment("0.19.1"), deployment("0.20.0") | {"regress-gate.toml": "[deploymnet]\n"}),
    "no pin moved": (deployment("0.19.1"), {"README.md": "# Our servers, described\n"}),
}
"""By the answer: the files before a pull request, and those that it changes."""


@dataclass
class Team:
    """The team's repository on GitHub, and a clone of it on the runner."""

    directory: Path
    runner: Runner
    state: State = field(default_factory=State)
    number: int = 7
    event: dict[str, Any] = field(default_factory=dict)
    runs: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=lambda: {"GITHUB_TOKEN": TOKEN})
    settings: dict[str, str] = field(default_factory=dict)
    """The variables of the repository, as a person sets them."""
    edits: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What the team has put into its copies of the workflows: by file, the text before and after."""
    last: dict[str, str] = field(default_factory=dict)
    """Variables by which GitHub tells of the last run."""
    login: str = "maintainer"

    def __post_init__(self) -> None:
        self.state.add_repository(NAME)
        self.origin, self.clone = self.directory / "origin.git", self.directory / "clone"
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.origin), cwd=self.directory)
        for key in ("allowAnySHA1InWant", "allowFilter"):  # as on GitHub
            self.git("config", f"uploadpack.{key}", "true", cwd=self.origin)
        self.git("clone", "--quiet", str(self.origin), str(self.clone), cwd=self.directory)
        self.commit({"README.md": "# Our servers\n"}, "Begin")
        self.git("push", "--quiet", "origin", "HEAD:main")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=cwd or self.clone, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str], message: str) -> str:
        for name, text in files.items():
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            (self.clone / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def push_main(self, files: Mapping[str, str]) -> None:
        """The default branch, with all workflows and these files."""
        copied = {f".github/workflows/{name}": text for name, text in self.workflows().items()}
        self.base = self.commit({**copied, **files}, "Serve")
        self.git("push", "--quiet", "origin", "HEAD:main")

    def open_pull_request(self, before: Mapping[str, str], after: Mapping[str, str], *, who: str = "same") -> None:
        """A pull request that changes `before`, on main, to `after`; `who`: same, fork or dependabot."""
        self.push_main(before)
        self.who = who
        self.push(after)

    def push(self, files: Mapping[str, str]) -> None:
        """Another commit of the pull request, and the merge of it into main that GitHub makes."""
        self.git("checkout", "--quiet", "-B", "bump", self.base)
        self.head = self.commit(files, "Bump vLLM")
        self.git("checkout", "--quiet", "--detach", self.base)
        self.git("merge", "--quiet", "--no-ff", "--message", "Merge", "bump")
        self.git("push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{self.number}/merge", "bump:bump")
        owner = "somebody" if self.who == "fork" else "team"
        self.head_repository = f"{owner}/serving"
        pulls = self.state.repositories[NAME]["pulls"]
        pulls[:] = [one for one in pulls if one["number"] != self.number]
        pull = self.state.add_pull(NAME, self.number, sha=self.head, head=self.head_repository)
        self.login = {"same": "maintainer", "fork": "somebody", "dependabot": "dependabot[bot]"}[self.who]
        self.event = {
            "action": "synchronize",
            "number": self.number,
            "pull_request": {
                **pull,
                "user": {"login": self.login},
                "base": {"ref": "main", "sha": self.base, "repo": {"full_name": NAME}},
            },
            "repository": {"full_name": NAME, "default_branch": "main"},
            "sender": {"login": self.login},
        }

    def workflows(self) -> dict[str, str]:
        """Those to copy, and those that pages show, as they stand there."""
        files = {file.name: file.read_text() for file in (ROOT / "ci").glob("*.yml") if file.name != "gitlab.yml"}
        for name, page in PAGES.items():
            files[name] = read_page(page)
        for name, (before, after) in self.edits.items():
            assert before in files[name]
            files[name] = files[name].replace(before, after)
        return files

    def answer(self, run: Run, files: Mapping[str, bytes] | None = None, **fields: Any) -> Run:
        """The half that may write, started by the end of the other one; `files`: what that one uploaded instead."""
        number = 1000 + self.runs
        uploaded = run.artifact("regress-gate") if files is None else files
        if uploaded:
            self.state.add_artifact(NAME, number, "regress-gate", uploaded, **fields)
        source = {
            "id": number,
            "event": "pull_request",
            "conclusion": "failure" if run.code else "success",
            "head_repository": {"full_name": self.head_repository},
            "head_branch": "bump",
            "head_sha": self.head,
            "pull_requests": [],
        }
        content = {"action": "completed", "workflow_run": source, "repository": {"full_name": NAME}}
        return self.run("upgrade-gate-comment.yml", "workflow_run", content, write=True)

    def repeat(self, run: Run, times: int, files: Mapping[str, bytes] | None = None) -> None:
        """What `times` more runs of the half that writes leave on GitHub: `ci publish` is called as `run` called it.

        A run of a workflow takes seconds; this is for what many of them add up to. `files`: those that the calls name,
        which act deletes after a green run.
        """
        kept = {name: self.directory / name for name in files or {}}
        for name, place in kept.items():
            place.write_bytes((files or {})[name])
        commands = [shlex.split(line)[2:] for line in run.log.splitlines() if line.startswith(PUBLISHES)]
        assert commands, run.text
        commands = [[str(kept.get(Path(word).name, word)) for word in command] for command in commands]
        with serving(GitHub(state=self.state)) as github, pytest.MonkeyPatch.context() as patch:
            patch.setattr(client_module, "SECONDS_BETWEEN_WRITES", 0)
            for name in [name for name in os.environ if name.startswith("GITHUB_")]:
                patch.delenv(name)
            for name, value in {**self.last, "GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN}.items():
                patch.setenv(name, value)
            for command in commands * times:
                said = io.StringIO()
                with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as ended:
                    call_program(command)
                assert not ended.value.code, said.getvalue()

    @property
    def comments(self) -> list[dict[str, Any]]:
        return self.state.comments(NAME, self.number)

    @property
    def conclusions(self) -> dict[str, str]:
        """Of each check of the pull request's head the last run, as GitHub shows them."""
        runs = self.state.check_runs(NAME, self.head)
        return {one["name"]: one["conclusion"] or one["status"] for one in runs}

    def run(
        self,
        workflow: str,
        event: str = "pull_request",
        content: Any = None,
        *,
        write: bool = False,
        permissions: Mapping[str, str] | None = None,
        cancel_after: str | None = None,
        kill_after: str | None = None,
    ) -> Run:
        """Run a workflow of the clone. `write`: the token may do what a workflow of the repository can be given, or
        just what is in `permissions`; `cancel_after`: somebody cancels it when the log has this; `kill_after`: the
        step of the gate is killed then."""
        self.runs += 1
        here = self.directory / str(1000 + self.runs)
        here.mkdir()
        artifacts = here / "artifacts"
        artifacts.mkdir()
        (here / "event.json").write_text(json.dumps(self.event if content is None else content))
        self.state.add_token(TOKEN, NAME, permissions or (WRITE if write else READ_ONLY))
        self.last = {
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(here / "event.json"),
            "GITHUB_REPOSITORY": NAME,
            "GITHUB_ACTOR": self.login,
            "GITHUB_RUN_ID": str(1000 + self.runs),
        }
        with self.github(here) as url:
            process = subprocess.Popen(
                self.command(workflow, event, here, url),
                cwd=self.clone,
                env=self.runner.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert process.stdout is not None
            text = ""
            for line in process.stdout:
                text += line
                if cancel_after is not None and cancel_after in line:
                    process.send_signal(signal.SIGINT)
                    cancel_after = None
                if kill_after is not None and kill_after in line:
                    self.step_of_gate().kill()
                    kill_after = None
            process.stdout.close()
            code = process.wait()
        return read_run(code, text, artifacts)

    def step_of_gate(self) -> psutil.Process:
        gates = {}
        for process in self.processes():
            with suppress(psutil.Error):
                if "".join(process.cmdline()[-1:]).endswith("ci/gate.py"):
                    gates[process.pid] = process.ppid()
        # What it starts has its command line too, until it becomes another program.
        (step,) = (pid for pid, parent in gates.items() if parent not in gates)
        return psutil.Process(step)

    def processes(self) -> Iterator[psutil.Process]:
        """Those that run on the machine for a team with locks of its own."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("REGRESS_GATE_LOCKS") == str(self.directory):
                    yield process

    def command(self, workflow: str, event: str, here: Path, url: str) -> list[str]:
        variables = {
            **{name: value for name, value in self.last.items() if "_EVENT_" not in name},
            "GITHUB_API_URL": url,
            "STUB_ORIGIN": self.origin.as_uri(),
            "STUB_ARTIFACTS": str(here / "artifacts"),
            "STUB_RUNS": str(self.directory),
            "STUB_CACHE": str(self.runner.cache),
            "STUB_PYTHON": sys.executable,
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            **self.variables,
        }
        path = self.clone / ".github" / "workflows" / workflow
        return self.runner.command(path, event, here / "event.json", variables, self.secrets, self.settings)

    @contextmanager
    def github(self, here: Path) -> Iterator[str]:
        file = here / "github.json"
        file.write_text(self.state.dump())
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.fake_github", "--state", str(file)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()
        self.state = State.load(file)


@pytest.fixture(scope="session")
def installations(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How the tool came to the machine: at first, and then from GitHub's cache to a machine that had lost it."""
    with (runner.directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        facts = runner.directory / "installations.json"
        if not facts.is_file():
            team = Team(tmp_path_factory.mktemp("first"), runner)
            team.open_pull_request(*CHANGES["no pin moved"])
            found = {}
            for name in ("first", "restored"):
                run = team.run("upgrade-gate.yml")
                found[name] = {"code": run.code, "steps": [".".join(ids) for ids in run.steps], "text": run.text}
                if name == "first":
                    shutil.rmtree(runner.tools)
            facts.write_text(json.dumps(found))
        answer: dict[str, Any] = json.loads(facts.read_text())
        return answer


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """The machine: one for all tests, because installing the tool takes most of a minute.

    To keep it between calls while you work on the tests, name its directory in REGRESS_GATE_TEST_RUNNER.
    """
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "runner"
    if kept := os.environ.get("REGRESS_GATE_TEST_RUNNER"):
        directory = Path(kept)
    for part in ("cache", "data", "github-cache"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    action = tmp_path_factory.mktemp("action")
    linked = link_action(export_action(action / "files"), action / "linked")
    return Runner(directory, linked, directory / "github-cache")


SUITE = """\
name: serving
version: 1
description: One small scenario.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [tpot_median], margins: {"*": 0.5}}
scenarios:
  - name: c4
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {input_len: 16, output_len: 4, concurrency: 4, num_requests: 6, warmup_requests: 2}
"""

SERVES = (
    f"env PYTHONPATH={ROOT} {sys.executable} -m tests.fake_vllm serve {{model}} --port={{port}} "
    "--served-model-name={served_model_name} --vllm-version={version} {engine_args}"
)
STEADY = ["--ttft=0.01", "--tpot=0.4", "--jitter=0", "--run-spread=0", "--whole-at-once"]
"""So slow that what a busy machine adds to it does not matter, neither to the guards of the client."""


TEAM_STORE = "    # env:\n    #   REGRESS_GATE_STORE: ${{ secrets.REGRESS_GATE_STORE }}\n"
"""What the workflows for a machine of one's own have for a team that takes the `#` away."""


@pytest.fixture
def measuring(team: Team) -> Iterator[Team]:
    """The team with a store, which is a secret, and locks of its own. What a killed runner leaves is ended."""
    team.secrets["REGRESS_GATE_STORE"] = f"sqlite:///{team.directory}/store.db"
    for name in ("measure-on-gpu.yml", "nightly-watch.yml"):
        team.edits[name] = (TEAM_STORE, TEAM_STORE.replace("# ", "", 1).replace("#   ", "  "))
    team.variables["REGRESS_GATE_LOCKS"] = str(team.directory)
    yield team
    for process in team.processes():
        process.kill()


@pytest.fixture
def team(tmp_path: Path, runner: Runner, installations: dict[str, Any]) -> Team:
    assert installations["first"]["code"] == 0, installations["first"]["text"]
    return Team(tmp_path, runner)
