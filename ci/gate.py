"""The step of action.yml that asks and answers: which version moved, the gate, and what GitHub shows of it.

It is one process because a cancelled job sends its signal to the process of the running step, and runs no later step of
a composite action (actions/runner#2638): only here can the check run still be concluded. Standard library alone; it
calls `regress-gate` as a user would, and its exit code is the gate's.
"""

import base64
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from glob import glob
from pathlib import Path
from typing import IO, Any, NoReturn

USAGE, INCONCLUSIVE, COULD_NOT_MEASURE, INTERRUPTED = 2, 3, 4, 130
CHOICES = {
    "mode": ("check", "compare", "measure", "publish", "install"),
    "comment": ("off", "on-change", "always"),
    "on_inconclusive": ("", "pass", "fail"),
    "check_run": ("true", "false"),
    "report_only": ("true", "false"),
    "sarif": ("true", "false"),
}
ONLY_WITH = {
    "suite": ("compare", "measure"),
    "testbed": ("compare", "measure"),
    "store": ("compare", "measure"),
    "baselines": ("compare",),
    "budget": ("measure",),
}
"""Inputs that the other modes would ignore: they are refused, so that nobody believes in them."""
OWN_STORE = "default"
"""What action.yml gives for `store` where a workflow leaves it out; a workflow that gives a secret gives its text."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LISTS = ("baselines", "paths")
"""Inputs of one value a line."""
PRIVATE = (
    *("INPUT_TOKEN", "INPUT_STORE", "GITHUB_TOKEN", "GH_TOKEN"),
    *("ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "PYTHONPATH", "PYTHONHOME"),
)
"""Variables that regress-gate gets only where it needs them: a server that it measures has no use for a token."""
ERROR = "regress-gate: error: "
SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Of a cancelled job."""


class InputError(Exception):
    """An input of the action that cannot be used."""


class CancelledError(Exception):
    """The job is being cancelled: GitHub's runner sends SIGINT, after 7.5 s SIGTERM, and after 2.5 s ends all."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of action.yml that the gate takes, as text."""

    mode: str
    deployment: str
    paths: str
    base: str
    candidate: str
    suite: str
    testbed: str
    store: str
    baselines: str
    config: str
    budget: str
    name: str
    comment: str
    check_run: str
    on_inconclusive: str
    report_only: str
    sarif: str
    token: str

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Inputs":
        """From the variables `INPUT_…`, unchecked."""
        return cls(**{field.name: environment.get(f"INPUT_{field.name.upper()}", "").strip() for field in fields(cls)})

    def checked(self, environment: Mapping[str, str]) -> "Inputs":
        """As the gate takes them. Raises InputError."""
        if not self.store or environment.get("REGRESS_GATE_STORE") == "":
            # This is what a secret is that the run is not given. With the runner's own store instead, the answer would
            # come from other runs, and measurements go where nobody looks for them.
            what = "REGRESS_GATE_STORE" if self.store else "input store"
            raise InputError(
                f"{what} is empty: this run is not given the secret, because of its name, or because forks get none "
                "and Dependabot those of its own list; leave it out to use the store of the runner"
            )
        given = replace(self, store="" if self.store == OWN_STORE else self.store)
        for field in fields(self):
            name, value = field.name.replace("_", "-"), getattr(given, field.name)
            lines = _lines(value) if field.name in LISTS else [value]
            if any(line.startswith("-") for line in lines):
                raise InputError(f"input {name} looks like a flag: give the value alone")
            if not all(line.isprintable() for line in lines):
                raise InputError(f"input {name} is not one line of text")
            if field.name in CHOICES and value not in CHOICES[field.name]:
                raise InputError(f"input {name} is one of {', '.join(filter(None, CHOICES[field.name]))}")
            if value and given.mode not in ONLY_WITH.get(field.name, (given.mode,)):
                raise InputError(f"input {name} is for mode {' or '.join(ONLY_WITH[field.name])}, not {given.mode}")
        if not NAME.fullmatch(given.name or "upgrade"):
            raise InputError("input name is one word of letters, digits, '.', '_' and '-'")
        if bool(given.base) != bool(given.candidate):
            raise InputError("base and candidate go together: give both, or neither to read them from the change")
        return given

    def name_a_check(self) -> bool:
        """Whether a refusal can be published: the inputs that say where can be used, whatever the others are."""
        usable = all(getattr(self, name) in CHOICES[name] for name in ("comment", "check_run"))
        return usable and self.mode not in ("publish", "install") and NAME.fullmatch(self.name or "upgrade") is not None


class Gate:
    """One call of the action."""

    def __init__(self, inputs: Inputs, program: Sequence[str], folder: Path):
        self.inputs, self.program, self.folder = inputs, program, folder
        self.result, self.versions = folder / "gate.json", folder / "versions.json"
        self.running: subprocess.Popen[str] | None = None

    def decide(self) -> int:
        """Find the versions, ask the gate, publish the answer. Returns the exit code of the step."""
        code, move = self._find_versions()
        if code not in (0, INCONCLUSIVE):
            return self._could_not_measure(code)
        base, candidate = move["baseline"], move["candidate"]
        write_outputs(moved=str(bool(candidate) or code == INCONCLUSIVE).lower())
        write_outputs(base=base or "", candidate=candidate or "", versions=str(self.versions))
        if not candidate:
            return self._no_version(code, move["why"])
        if self.inputs.check_run == "true":
            self._publish("--started")
        code = self._import_baselines() or self._run(self._question(base, candidate))
        if not self.result.is_file():
            return self._could_not_measure(code or COULD_NOT_MEASURE)
        self._describe_result()
        ignore_signals()
        return self._answered(code, self._publish("--result", str(self.result)))

    def refuse(self, why: str) -> int:
        """Say that the inputs cannot be used, also in the check run: a required one would wait without a reason."""
        print(f"::error title=regress-gate::{why}", flush=True)
        return self._no_decision(USAGE, why) if self.inputs.name_a_check() else USAGE

    def conclude_failed(self, error: Exception) -> int:
        """Say that this step itself failed, such as for a result that was not written to its end."""
        ignore_signals()
        traceback.print_exception(error)
        print(f"::error title=regress-gate::the step failed: {type(error).__name__}", flush=True)
        with suppress(Exception):  # of what is broken more may be, and Python's own exit code would read as "fail"
            self._no_decision(COULD_NOT_MEASURE, f"the step failed ({type(error).__name__}); its log says where")
        return COULD_NOT_MEASURE

    def conclude_cancelled(self) -> int:
        """Say that the job was cancelled, while the measurement stores what it has and stops."""
        if self.running is not None:
            self.running.send_signal(signal.SIGINT)
        return self._no_decision(INTERRUPTED, "the job was cancelled before there was a result")

    def _find_versions(self) -> tuple[int, dict[str, Any]]:
        """Exit code of `ci versions`, and what it found; two versions that are given by name are not looked for."""
        if self.inputs.base:
            versions = {"schema_version": "1", "baseline": self.inputs.base, "candidate": self.inputs.candidate}
            versions |= {"moved": [], "pins": [], "why": "both versions are given by name"}
            self.versions.write_text(json.dumps(versions), encoding="utf-8")
            return 0, versions
        line = ["ci", "versions", "--format", "json", *_lines(self.inputs.paths)]
        code = self._run(line, token=True, keep=self.versions)
        if code not in (0, INCONCLUSIVE):
            self.versions.unlink()
            return code, {}
        return code, json.loads(self.versions.read_text(encoding="utf-8"))

    def _no_version(self, code: int, why: str) -> int:
        """Nothing moved, or a pin moved to something that names no version, such as a tag `latest`."""
        print(why)
        decision = "inconclusive" if code == INCONCLUSIVE else ""
        if code == INCONCLUSIVE:
            code = {"pass": 0, "fail": 1}.get(self.inputs.on_inconclusive, INCONCLUSIVE)
            code = 0 if self.inputs.report_only == "true" else code
        ignore_signals()
        written = self._publish()
        write_outputs(decision=decision)
        return self._answered(code, written)

    def _question(self, base: str | None, candidate: str) -> list[str]:
        """The command line of `check` or `compare`."""
        given = self.inputs
        if given.mode == "check" or base is None:  # a change that adds vLLM has nothing to be compared with
            line = ["check", candidate, *_option("--from", base or ""), "--recommend", "--offline"]
        else:
            line = ["compare", base, candidate]
            line += ["--measure", "--resume-if-any"] if given.mode == "measure" else []
            line += _option("--suite", given.suite) + _option("--testbed", given.testbed)
            line += _option("--budget", given.budget)
        line += _option("--deployment", given.deployment) + _option("--config", given.config)
        line += _option("--on-inconclusive", given.on_inconclusive)
        line += ["--report-only"] if given.report_only == "true" else []
        line += ["--output", f"json:{self.result}", "--output", f"html:{self.folder / 'report.html'}"]
        line += ["--output", f"sarif:{self.folder / 'gate.sarif'}"] if given.sarif == "true" else []
        return line

    def _import_baselines(self) -> int:
        """Put the exported baselines of the repository into the store. Returns the exit code of the import."""
        patterns = _lines(self.inputs.baselines)
        if not patterns:
            return 0
        found = {file for pattern in patterns for file in glob(pattern, recursive=True)}  # noqa: PTH207 - also absolute
        files = sorted(file for file in found if Path(file).is_file())
        if not files:
            self._errors = f"{ERROR}no file fits input baselines: {' '.join(patterns)}"
            print(self._errors, file=sys.stderr)
            return USAGE
        return self._run(["baseline", "import", "--", *files])

    def _describe_result(self) -> None:
        result = json.loads(self.result.read_text(encoding="utf-8"))
        recommended = {one.get("recommended") for one in result.get("deployments", [result])}
        write_outputs(
            decision=result["decision"],
            recommended=(recommended.pop() or "") if len(recommended) == 1 else "",
            result=str(self.result),
            **{name: str(file) for name, file in self._reports() if file.is_file()},
        )

    def _reports(self) -> list[tuple[str, Path]]:
        return [("report", self.folder / "report.html"), ("sarif", self.folder / "gate.sarif")]

    def _could_not_measure(self, code: int) -> int:
        """Publish the last error of the program as the reason for having no decision."""
        lines = [line.strip().removeprefix(ERROR) for line in self._errors.splitlines() if line.strip()]
        why = lines[-1] if lines else f"regress-gate ended with exit code {code}"
        # The folders of a job differ from run to run: the same reason would be news, and the comment edited, each time.
        for folder in (self.folder, Path.cwd()):
            why = why.replace(f"{folder}/", "")
        return self._no_decision(code, why)

    def _no_decision(self, code: int, why: str) -> int:
        ignore_signals()
        self._publish("--could-not-measure", why)
        write_outputs(decision="")
        return self._answered(code, 0)

    def _answered(self, code: int, written: int) -> int:
        """The exit code of the step, where an answer that nobody gets is no pass; the last output, once all is said."""
        code = code or written
        write_outputs(exit_code=str(code))
        return code

    def _publish(self, *arguments: str) -> int:
        """Call `ci publish`, whose lines may be commands to the runner: annotations. Returns its exit code."""
        line = ["ci", "publish", *arguments, *_option("--name", self.inputs.name)]
        line += ["--pins", str(self.versions)] if self.versions.is_file() else []
        line += [] if self.inputs.check_run == "true" else ["--no-check"]
        line += [] if "--started" in arguments else ["--comment", self.inputs.comment]
        return self._run(line, token=True, commands=True)

    def publish_earlier(self) -> int:
        """In a workflow that another workflow's end starts: publish what that one found."""
        ignore_signals()
        return self._publish()

    def _run(self, line: list[str], *, token: bool = False, keep: Path | None = None, commands: bool = False) -> int:
        """Run regress-gate with these arguments, its errors remembered; `keep`: standard output goes there.

        What it prints goes to the log, where a line of a hostile text could be a command to the runner; `commands` lets
        them through.
        """
        print(f"$ regress-gate {shlex.join(line)}", flush=True)
        environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        if token:
            server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
            environment |= {"GITHUB_TOKEN": self.inputs.token, **git_credential(server, self.inputs.token)}
        elif self.inputs.store:
            environment["REGRESS_GATE_STORE"] = self.inputs.store
        elif self.inputs.baselines:
            # What a pull request brings with it must not stay in a runner's own store.
            environment["REGRESS_GATE_STORE"] = str(self.folder / "store.db")
        self._errors = ""
        with plain_log(active=not commands), open(keep, "w") if keep else _standard_output() as output:  # noqa: PTH123
            child = subprocess.Popen(
                [*self.program, *line],
                env=environment,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            self.running = child
            reader = threading.Thread(target=self._pass_on, args=(child.stderr,), daemon=True)
            # A signal that the other thread received would not wake this one, which waits.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            reader.start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            code = child.wait()
            reader.join(timeout=5)  # a server that was left behind may still hold the pipe
        self.running = None
        return code if code >= 0 else COULD_NOT_MEASURE

    def _pass_on(self, errors: IO[str]) -> None:
        for text in errors:
            sys.stderr.write(text)
            sys.stderr.flush()
            self._errors = (self._errors + text)[-20_000:]

    _errors = ""


@contextmanager
def plain_log(*, active: bool) -> Iterator[None]:
    """Lines that look like `::command::` are text meanwhile."""
    token = secrets.token_hex(16)
    if active:
        print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        if active:
            print(f"::{token}::", flush=True)


@contextmanager
def _standard_output() -> Iterator[None]:
    yield None


def ignore_signals() -> None:
    """From here on only what GitHub shows is written, which takes seconds: a cancelled job does not stop it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def write_outputs(**values: str) -> None:
    """Set outputs of the step. A value is one line: the files and versions are the action's own or were checked."""
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
        for name, value in values.items():
            end = secrets.token_hex(16)
            outputs.write(f"{name.replace('_', '-')}<<{end}\n{value}\n{end}\n")


def git_credential(server: str, token: str) -> dict[str, str]:
    """Lets git fetch the commit before the change, in a checkout that kept no credential: as actions/checkout does it,
    but in the environment of one command.

    The empty value comes first because it forgets what a checkout did keep: GitHub refuses two credentials at once
    (actions/checkout#2299).
    """
    name = f"http.{server}/.extraheader"
    header = "AUTHORIZATION: basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()
    pairs = ((name, ""), (name, header))
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _option(name: str, value: str) -> list[str]:
    return [name, value] if value else []


def _cancel(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - the signature of a signal's handler
    ignore_signals()
    raise CancelledError


def main() -> int:
    program = [str(Path(os.environ["REGRESS_GATE_ENVIRONMENT"]) / "bin" / "regress-gate")]
    folder = Path(tempfile.mkdtemp(prefix="regress-gate-", dir=os.environ.get("RUNNER_TEMP")))
    for number in SIGNALS:
        signal.signal(number, _cancel)
    gate = Gate(Inputs.read(os.environ), program, folder)
    try:
        try:
            gate.inputs = gate.inputs.checked(os.environ)
            if gate.inputs.mode == "install":  # later steps call the program themselves
                return 0
            return gate.publish_earlier() if gate.inputs.mode == "publish" else gate.decide()
        except InputError as error:
            return gate.refuse(str(error))
        except CancelledError:
            return gate.conclude_cancelled()
    except Exception as error:
        return gate.conclude_failed(error)


if __name__ == "__main__":
    sys.exit(main())
