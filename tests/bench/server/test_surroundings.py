"""What a server could not help is told from what its version may have done."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from regress_gate.bench.server.processes import ServerProcesses, ServerWatch, identify_process
from regress_gate.bench.server.server_failures import ServerFailureKind, describe_death, environment_cause

CONSEQUENCE = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("OSError: [Errno 28] No space left on device: '/root/.cache/x'", "a disk is full"),
        ("torch._inductor.exc.InductorError: OSError: [Errno 122] Disk quota exceeded", "a disk is full"),
        ("huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: x", "the model"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "the model"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate", "the model"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "the model"),
        ("OSError: You are trying to access a gated repo.", "the model"),
        ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443)", "the model"),
        ("httpx.ConnectError: [Errno -3] Temporary failure in name resolution", "the model"),
        (
            "ValueError: Free memory on device cuda:0 (7.3/139.7 GiB) on startup is less than desired GPU memory",
            "other processes hold the memory",
        ),
        (
            "ValueError: Available memory on node 0 (4.85/18.0 GiB) on startup is less than desired CPU memory",
            "other processes hold the memory",
        ),
        ("RuntimeError: No CUDA GPUs are available", "the GPU or its driver"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "the GPU or its driver"),
        ("pynvml.NVMLError_LibRmVersionMismatch: Driver/library version mismatch", "the GPU or its driver"),
    ],
)
def test_lines_about_hub_disk_memory_and_devices_are_environment_faults(line: str, what: str) -> None:
    found = environment_cause((line, CONSEQUENCE), ready=False)
    assert found is not None
    assert found.startswith(what)
    # Where the last exception is vaguer, the one before it counts.
    assert environment_cause(("ValueError: Invalid repository ID or local directory", line), ready=False) == found


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "huggingface_hub.errors.EntryNotFoundError: 404 Client Error.",
        "vllm: error: unrecognized arguments: --no-such-flag",
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ],
)
def test_a_fault_that_the_version_may_cause_is_evidence_on_it(line: str) -> None:
    assert environment_cause((line, CONSEQUENCE), ready=False) is None


def test_a_server_that_was_ready_has_its_model_and_can_still_lack_a_disk() -> None:
    hub, disk = "huggingface_hub.errors.HfHubHTTPError: 503 Server Error", "OSError: [Errno 28] No space left on device"
    assert environment_cause((hub,), ready=True) is None
    assert environment_cause((disk,), ready=True) is not None


def test_a_death_by_the_environment_is_named_first_and_is_no_evidence(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback (most recent call last):\nOSError: [Errno 28] No space left on device\n")
    failure = describe_death(1, 2.0, log, ready=False)
    assert failure.kind is ServerFailureKind.ENVIRONMENT
    assert not failure.kind.may_be_the_version
    assert failure.text.startswith("a disk is full: the server ended 2.0 s after its start")


@pytest.mark.parametrize("status", [126, 127])
def test_a_launcher_that_finds_no_program_is_no_evidence(tmp_path: Path, status: int) -> None:
    log = tmp_path / "log"
    log.write_text("/srv/start.sh: line 6: /srv/0.24.0/bin/vllm: No such file or directory\n")
    failure = describe_death(status, 0.1, log, ready=False)
    assert failure.kind is ServerFailureKind.NOT_STARTED
    assert str(failure).startswith(f"the launch line's program could not be run (exit status {status}): /srv/start.sh")
    assert describe_death(status, 0.1, log, ready=True).kind is ServerFailureKind.DIED_UNDER_LOAD


@pytest.mark.parametrize(
    ("memory_short", "status", "kind"),
    [
        (True, -signal.SIGKILL, ServerFailureKind.ENVIRONMENT),
        (True, 137, ServerFailureKind.ENVIRONMENT),
        (False, -signal.SIGKILL, ServerFailureKind.DIED_UNDER_LOAD),
        (True, -signal.SIGSEGV, ServerFailureKind.DIED_UNDER_LOAD),
    ],
)
def test_a_kill_while_others_held_the_memory_is_not_the_versions(
    tmp_path: Path, memory_short: bool, status: int, kind: ServerFailureKind
) -> None:
    assert describe_death(status, 2.0, tmp_path / "none", ready=True, memory_short=memory_short).kind is kind


def test_an_engine_lost_to_the_environment_is_no_evidence_either(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ERROR 11-21 06:56:03 [a.py:9] vllm.v1.engine.exceptions.EngineDeadError: EngineCore is gone\n")
    assert describe_death(0, 2.0, log, ready=True, memory_short=True).kind is ServerFailureKind.ENVIRONMENT


Available = Callable[[int], tuple[float, float]]
"""From the bytes that this process holds to total and available memory."""


@pytest.mark.parametrize(
    ("memory", "memory_short"),
    [
        (lambda held: (100 * held, 9 * held), True),
        (lambda held: (100 * held, 11 * held), False),
        (lambda held: (1.5 * held, 0.1 * held), False),
    ],
    ids=["others hold most", "enough is left", "the server holds most"],
)
def test_memory_is_short_through_others_only_where_they_hold_most_of_it(
    memory: Available, memory_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = psutil.Process()
    total, available = memory(this.memory_info().rss)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=total, available=available))
    leader = identify_process(this.pid)
    assert leader is not None
    watch = ServerWatch(ServerProcesses("token", leader, frozenset({leader})), lambda: None)
    watch.start()
    watch.stop()
    assert watch.memory_short is memory_short
