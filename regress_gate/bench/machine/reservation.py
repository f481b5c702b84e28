"""One run at a time on a machine, or on each of its accelerators: two that share one measure each other.

Machine-wide, for all users; held by the process, so that a crash lets go. Not a queue: who comes first is first.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regress_gate.accelerators.nvml import visible_gpus
from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.model.deployment import ArgValue, engine_arg_key
from regress_gate.model.suite import ServerConfig

DIRECTORY_VARIABLE = "REGRESS_GATE_LOCKS"
_DIRECTORY = "/tmp"  # noqa: S108 - the one that all users and jobs share, whatever TMPDIR is given to each
_POLL = 0.5


class MachineBusyError(RegressGateError):
    """Another run uses the machine or the accelerator."""

    exit_code = ExitCode.COULD_NOT_MEASURE


@contextmanager
def machine_lock(
    accelerators: Sequence[int] | None = None, *, wait: float = 0.0, directory: Path | None = None
) -> Iterator[None]:
    """Hold the whole machine (None), or only the accelerators of those numbers, for as long as this is entered.

    Runs on different accelerators may go side by side; a run on the whole machine is alone. Raises MachineBusyError
    when it is not free within `wait` seconds. No accelerators at all means the processor, so the whole machine.
    The locks are files in /tmp, in the directory that REGRESS_GATE_LOCKS names, or in `directory`.
    """
    base = directory or Path(os.environ.get(DIRECTORY_VARIABLE) or _DIRECTORY)
    wanted = [("machine", bool(accelerators))]
    wanted += [(f"accelerator-{number}", False) for number in sorted(set(accelerators or ()))]
    deadline = time.monotonic() + wait
    with ExitStack() as held:
        for what, shared in wanted:
            held.enter_context(_locked(base / f"regress-gate-{what}.lock", what, shared, deadline))
        yield


@contextmanager
def _locked(path: Path, what: str, shared: bool, deadline: float) -> Iterator[None]:
    file = _open_lock_file(path)
    try:
        while True:
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise MachineBusyError(
                        f"another run{_holder(file)} uses the {what.replace('-', ' ')}; wait for it to end"
                    ) from None
                time.sleep(min(_POLL, max(0.0, deadline - time.monotonic())))
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid()}).encode(), 0)
        yield
    finally:
        os.close(file)


def _open_lock_file(path: Path) -> int:
    """The lock file, made for everyone. Links are not followed: the directory is everyone's too."""
    try:
        try:
            # Without O_CREAT: systems refuse to "create" another user's file that is there in such a directory.
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MachineBusyError(f"the lock {path} cannot be opened: {error.strerror}") from None
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise MachineBusyError(f"the lock {path} is not a file")
    if found.st_uid == os.getuid():
        os.fchmod(file, 0o666)  # whatever the umask said
    return file


def _holder(file: int) -> str:
    try:
        return f" (process {int(json.loads(os.pread(file, 1000, 0))['pid'])})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


# MERGED regress_gate.bench.machine.server_gpus: Which GPUs the servers of a suite take, so that these are locked
# and watched. Not for giving them to the servers.


_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""vLLM takes a GPU for each member of each of these, and their product in all."""


def server_gpus(
    servers: Iterable[ServerConfig], environment: Mapping[str, str], *, container: str | None = None
) -> tuple[int, ...]:
    """Numbers, as in nvidia-smi, of the GPUs of all these servers together; empty: none that we know.

    `environment` is what servers are started in, under their own variables. `container` says which GPUs theirs is
    given (all, none, or numbers and identities with commas between); None: they run in no container.
    """
    taken: dict[int, None] = {}
    for server in servers:
        first = _device_count(server)
        if container is None:
            numbers = visible_gpus({**environment, **server.env}, first=first)
        else:
            numbers = _in_container(container, server.env.get(_VISIBLE_DEVICES), first)
        taken |= dict.fromkeys(numbers)
    return tuple(taken)


def _in_container(given: str, visible: str | None, first: int) -> tuple[int, ...]:
    """A container numbers the GPUs that it is given anew, from 0."""
    inside = None if visible is None else [word.strip() for word in visible.split(",")]
    if inside is not None and not all(word.isdecimal() for word in inside):  # identities are the same everywhere
        return visible_gpus({_VISIBLE_DEVICES: visible or ""}, first=first)
    outside = {} if given == "all" else {_VISIBLE_DEVICES: "" if given == "none" else given}
    if inside is None:
        return visible_gpus(outside, first=first)
    numbers = sorted(visible_gpus(outside))
    return tuple(numbers[int(word)] for word in inside if int(word) < len(numbers))[:first]


def _device_count(server: ServerConfig) -> int:
    sizes = {engine_arg_key(key): value for key, value in server.engine_args.items()}
    product = 1
    for name in _PARALLEL:
        product *= _size(sizes.get(name))
    return product


def _size(value: ArgValue | None) -> int:
    """1 for what is not given, and for what vLLM itself will refuse."""
    return max(1, int(str(value))) if str(value).isdecimal() else 1
