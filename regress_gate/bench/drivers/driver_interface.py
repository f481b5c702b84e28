"""The interface of a driver: measures a workload on a running server with another tool, and returns a trial.

To add a tool, add one module with a subclass of `Driver` and one line in `bench.drivers`. Not for starting servers.
"""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import nan, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from regress_gate.bench.load.client_guards import Guards
from regress_gate.bench.load.http_transport import Target, resolve_target
from regress_gate.bench.load.load_client import measure_load
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, ServingApi
from regress_gate.bench.load.result import LoadResult, described_workload
from regress_gate.bench.provision.interface import server_variables
from regress_gate.errors import InputError
from regress_gate.ingest.interface import Reading
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS_KEY
from regress_gate.model.run import Trial, TrialSource
from regress_gate.text import excerpt, plural

# The process of a tool

RUN_TIMEOUT = 4200.0
"""Seconds for one call of a client: the load client's limit for a trial, and ten minutes to start and to write."""
VERSION_TIMEOUT = 300.0
"""Seconds for `--version`. vLLM needs several for its imports."""
CONSOLE_OUTPUT = "output.txt"
"""The tool's output, in its folder."""


def find_tool(name: str, pinned: Path | None, *, todo: str) -> Path:
    """The executable: the pinned one, otherwise the one on PATH. Raises LoadError with what to do."""
    if pinned is None:
        path = shutil.which(name)
        if path is None:
            raise LoadError(f"{name} is not installed: {todo}")
        return Path(path).absolute()
    if not (pinned.is_file() and os.access(pinned, os.X_OK)):
        raise LoadError(f"{excerpt(str(pinned))}: no executable; give the path of {name}, or {todo}")
    return pinned.absolute()


def run_tool(command: Sequence[str], folder: Path, *, tool: str, limit: float = RUN_TIMEOUT) -> None:
    """Run the command in the folder to its end. Raises LoadError if it fails or exceeds the limit.

    It runs in its own process group, which is killed as a whole, because these tools have workers.
    """
    output = folder / CONSOLE_OUTPUT
    with output.open("wb") as file:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own tool
                command,
                cwd=folder,
                env=server_variables(os.environ, Path(command[0]).parent.parent),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise LoadError(f"{tool} does not start: {error.strerror}") from None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise LoadError(f"{tool} did not end within {limit:g} s{_last_line(output)}") from None
        finally:
            _kill_group(process)
    if status:
        raise LoadError(f"{tool} failed with status {status}{_last_line(output)}")


def read_tool_version(executable: Path, folder: Path, *, tool: str) -> str:
    """The last word of the output of `--version`."""
    run_tool([str(executable), "--version"], folder, tool=tool, limit=VERSION_TIMEOUT)
    words = (folder / CONSOLE_OUTPUT).read_text(encoding="utf-8", errors="replace").split()
    if not words:
        raise LoadError(f"{tool} --version prints nothing")
    return excerpt(words[-1], 60)


def read_result_file(folder: Path, name: str, *, tool: str) -> bytes:
    """The content of a result file. Raises LoadError if it is missing: exit status 0 is no proof of a result."""
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise LoadError(
            f"{tool} ended with status 0 but wrote no result{_last_line(folder / CONSOLE_OUTPUT)}"
        ) from None


def _last_line(output: Path) -> str:
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    return "" if last is None else f": {excerpt(last)}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


RATE_TOLERANCE = 0.10
"""Largest relative difference between the requested and the achieved request rate…"""
RATE_ERRORS = 4.0
"""…or this many standard errors of a Poisson process, 1/√n each, if that is more."""

UNWATCHED = Guards(loop_lag_median=nan, loop_lag_p99=nan, cpu_share=nan, lateness_p99=nan, client_limited=None)
"""Whether another tool's client kept up cannot be seen from outside."""


@dataclass(frozen=True, slots=True)
class ToolPass:
    """One finished pass of another tool's client."""

    workload: LoadWorkload
    scenario: str
    ordinal: int
    model: str
    url: str
    started: datetime
    tool: str
    version: str
    command: Sequence[str]
    result_format: str
    reading: Reading
    content: bytes
    notes: Sequence[str]


def make_load_result(measured: ToolPass) -> LoadResult:
    """The trial of a pass. Raises LoadError if the tool did not send what it was asked to send."""
    reading, workload = measured.reading, measured.workload
    sent = (reading.completed or 0) + reading.failed
    if sent != workload.num_requests:
        raise LoadError(f"{measured.tool} sent {plural(sent, 'request')} where {workload.num_requests} were asked for")
    _check_rate(measured)
    trial = Trial(
        scenario=measured.scenario,
        ordinal=measured.ordinal,
        completed=reading.completed,
        failed=reading.failed,
        duration=reading.duration,
        metrics=reading.metrics,
        workload=_workload_document(measured),
        source=TrialSource(
            sha256=hashlib.sha256(measured.content).hexdigest(),
            position=0,
            path=measured.url,
            format=measured.result_format,
            imported_at=measured.started,
            tool=measured.tool,
            # With the tool's name: results of different clients are recognised by this text.
            client_version=f"{measured.tool} {measured.version}",
            command=shlex.join(measured.command),
        ),
        started=measured.started,
        samples=reading.samples,
    )
    return LoadResult(trial, UNWATCHED, (), tuple(_trial_notes(measured)), measured.content)


def _check_rate(measured: ToolPass) -> None:
    """Refuse a pass at another rate: a tool that sends in a burst has measured another workload."""
    requested, samples = measured.workload.request_rate, measured.reading.samples
    if requested is None or samples is None or samples.start is None:
        return
    starts = samples.start[samples.ok]
    if len(starts) < 2 or not (span := float(starts.max() - starts.min())):
        return
    achieved = (len(starts) - 1) / span
    # Failed requests were sent too, but not every tool states when.
    lowest = achieved if measured.reading.failed == 0 and measured.workload.concurrency is None else requested
    tolerance = max(RATE_TOLERANCE, RATE_ERRORS / sqrt(len(starts)))
    if achieved > requested * (1 + tolerance) or lowest < requested / (1 + tolerance):
        raise LoadError(
            f"{measured.tool} sent {achieved:.3g} requests a second where {requested:g} were asked for: "
            "its client could not keep to the schedule"
        )


def _workload_document(measured: ToolPass) -> dict[str, Any]:
    workload = measured.workload
    described = {**measured.reading.workload, **described_workload(workload, measured.model)}
    if measured.reading.definitions is not None:
        described[DEFINITIONS_KEY] = measured.reading.definitions
    if workload.request_rate is not None:
        described["arrival"] = workload.arrival.value
    if workload.slo is not None:
        described["slo"] = {name: value for name, value in asdict(workload.slo).items() if value is not None}
    return described


def _trial_notes(measured: ToolPass) -> list[str]:
    reading, workload = measured.reading, measured.workload
    notes = [f"measured by {measured.tool}: whether its client was the bottleneck is not known", *measured.notes]
    if workload.request_rate is not None:
        notes.append("latency counts from the moment of sending, not from the moment at which a request was due")
    if workload.slo is not None and "goodput" not in reading.metrics:
        notes.append(f"{measured.tool} is not asked for goodput")
    if reading.samples is not None:
        tokens = reading.samples.output_tokens[reading.samples.ok]
        if other := int((tokens != workload.output_len).sum()):
            notes.append(f"{plural(other, 'answer')} had other than the {workload.output_len} tokens asked for")
    return [*notes, *reading.notes]


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One pass as a tool is asked to send it."""

    url: str
    served_model: str
    tokenizer: str
    """A directory or hub name. These tools make their prompts as text."""
    workload: LoadWorkload
    scenario: str
    ordinal: int

    @property
    def seed(self) -> int:
        """Another seed for each pass, so that no prompt is in a prefix cache."""
        key = f"{self.workload.seed}/{self.scenario}/{self.ordinal}"
        return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a tool."""

    content: bytes
    """The result file, unchanged."""
    version: str
    """Of the tool."""
    reading: Reading


class Driver(ABC):
    """One tool, at one place."""

    name: ClassVar[str]
    """Its name for `--driver`."""
    tool: ClassVar[str]
    """Its name in the source of every trial, with its version."""
    result_format: ClassVar[str]
    install: ClassVar[str]
    """How to install the tool."""
    program: ClassVar[str]
    """Name of its executable."""
    sends_prefix: ClassVar[bool] = False
    """Whether it can send prompts with a shared prefix."""
    notes: ClassVar[tuple[str, ...]] = ()
    """How its definitions differ from the load client's."""

    def __init__(self, executable: Path | None = None) -> None:
        """`executable`: a pinned one, otherwise the one on PATH. Raises LoadError if there is none."""
        self.executable = find_tool(self.program, executable, todo=self.install)

    def measure(
        self,
        url: str,
        served_model: str,
        workload: LoadWorkload,
        *,
        scenario: str,
        ordinal: int,
        tokenizer: str | None = None,
        allow_remote: bool = False,
        begins: Callable[[], None] | None = None,
    ) -> LoadResult:
        """Send the workload once; `begins` is called after the warm-up, before the tool starts.

        `tokenizer` is needed if the served name is not a directory or hub name.

        The tool's own load client sends the warm-up. Raises InputError for a workload that the driver cannot send or a
        target that may not be measured, and LoadError without a usable result, whatever the exit status.
        """
        request = ToolRequest(url, served_model, tokenizer or served_model, workload, scenario, ordinal)
        self.check(workload)
        target = Target(url, served_model)
        resolve_target(target, allow_remote=allow_remote)
        if workload.warmup_requests:
            warmup = replace(
                workload, num_requests=workload.warmup_requests, warmup_requests=0, request_rate=None, slo=None
            )
            measure_load(target, warmup, scenario=f"{scenario}/warm-up", ordinal=ordinal, allow_remote=allow_remote)
        if begins is not None:
            begins()
        with TemporaryDirectory(prefix="regress-gate-") as made:
            folder = Path(made)
            command = [str(self.executable), *self.arguments(request, folder)]
            started = datetime.now(UTC)
            run_tool(command, folder, tool=self.tool)
            try:
                output = self.read(request, folder)
            except RefusalError as refusal:
                raise LoadError(f"{self.tool}: its result cannot be used: {refusal}") from None
        return make_load_result(
            ToolPass(
                workload=workload,
                scenario=scenario,
                ordinal=ordinal,
                model=served_model,
                url=url,
                started=started,
                tool=self.tool,
                version=output.version,
                command=command,
                result_format=self.result_format,
                reading=output.reading,
                content=output.content,
                notes=self.notes,
            )
        )

    def check(self, workload: LoadWorkload) -> None:
        """Raises InputError for a workload that this driver cannot send."""
        unasked = {
            f"the {workload.api.value} API": workload.api is not ServingApi.COMPLETIONS,
            "images": workload.images is not None,
            "a shared prefix (prefix_len)": bool(workload.prefix_len) and not self.sends_prefix,
            "answers that may end early (ignore_eos: false)": not workload.ignore_eos,
            "more in the request (extra_body)": bool(workload.extra_body),
            "LoRA adapters": bool(workload.lora_adapters),
            "recorded prompts (dataset)": workload.dataset is not None,
            f"bursts (arrival {workload.arrival.value})": workload.arrival in (Arrival.GAMMA, Arrival.ON_OFF),
            "recorded traffic (trace)": workload.trace is not None,
            "conversations": workload.conversation is not None,
            "scenarios at the same time (together)": bool(workload.together),
        }
        if unsupported := [what for what, wanted in unasked.items() if wanted]:
            raise InputError(
                f"driver {self.name} cannot send {', '.join(unsupported)}", todo="measure without --driver"
            )

    @abstractmethod
    def arguments(self, request: ToolRequest, folder: Path) -> Sequence[str]:
        """The command line after the executable. Results go into the folder."""

    @abstractmethod
    def read(self, request: ToolRequest, folder: Path) -> ToolOutput:
        """The result in the folder. Raises LoadError or RefusalError if there is none."""
