"""Reserving the machine, or some of its accelerators, for one run: two runs that share one disturb each other.

Also which accelerators the servers of a suite use, and holding their clocks where that was asked for. A reservation
holds for all users of the machine, and ends with the process. Not a queue: the order of waiting runs is not kept.
"""

import fcntl
import json
import os
import platform
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from regress_gate.accelerators.interface import ClockLockError, Family
from regress_gate.accelerators.registry import FAMILIES, VISIBLE_VARIABLES, recognise, visible_devices, visible_setting
from regress_gate.bench.server.processes import ProcessIdentity, identify_process, is_alive
from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.files import replace_file
from regress_gate.model.deployment import device_count
from regress_gate.model.suite import ServerConfig
from regress_gate.paths import clocks_directory

DIRECTORY_VARIABLE = "REGRESS_GATE_LOCKS"
_DIRECTORY = "/tmp"  # nosec B108 # noqa: S108 - all users and jobs share it, whatever their TMPDIR
_POLL = 0.5


class MachineBusyError(RegressGateError):
    """Another run uses the machine or the accelerator."""

    exit_code = ExitCode.COULD_NOT_MEASURE


@contextmanager
def machine_lock(
    accelerators: Sequence[int] | None = None, *, wait: float = 0.0, directory: Path | None = None
) -> Iterator[None]:
    """Hold the whole machine (None or none), or only the accelerators with these numbers, while this is entered.

    Runs on different accelerators may overlap; a run on the whole machine is alone. Raises MachineBusyError if it is
    not free within `wait` seconds. The locks are files in /tmp, in the directory of REGRESS_GATE_LOCKS, or in
    `directory`.
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
    """The lock file, writable by all users. Links are not followed, because all users may write the directory."""
    try:
        try:
            # Without O_CREAT: systems refuse to "create" another user's file that is there in such a directory.
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MachineBusyError(f"the lock {path} cannot be opened: {error.strerror}") from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise MachineBusyError(f"the lock {path} is not a file")
    if status.st_uid == os.getuid():
        os.fchmod(file, 0o666)  # nosec B103 # all users take this lock, whatever the umask
    return file


def _holder(file: int) -> str:
    try:
        return f" (process {int(json.loads(os.pread(file, 1000, 0))['pid'])})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def server_gpus(
    servers: Iterable[ServerConfig], environment: Mapping[str, str], *, container: str | None = None
) -> tuple[int, ...]:
    """Numbers of the accelerators that all these servers together use; empty: none that this tool knows of.

    `environment` is what the servers are started in; each server's own variables go over it. `container` says which
    accelerators a container is given (all, none, or numbers and identities with commas between); None: no container.
    """
    taken: dict[int, None] = {}
    for server in servers:
        first = device_count(server.engine_args)
        if container is None:
            numbers = visible_devices({**environment, **server.env}, first=first)
        else:
            numbers = _in_container(container, visible_setting(server.env), first)
        taken |= dict.fromkeys(numbers)
    return tuple(taken)


def _in_container(given: str, visible: str | None, first: int) -> tuple[int, ...]:
    """In a container, accelerators are numbered from 0 again."""
    inside = None if visible is None else [word.strip() for word in visible.split(",")]
    if inside is not None and not all(word.isdecimal() for word in inside):  # identities are the same everywhere
        return visible_devices(_limited_to(visible or ""), first=first)
    outside = {} if given == "all" else _limited_to("" if given == "none" else given)
    if inside is None:
        return visible_devices(outside, first=first)
    numbers = sorted(visible_devices(outside))
    return tuple(numbers[int(word)] for word in inside if int(word) < len(numbers))[:first]


def _limited_to(devices: str) -> dict[str, str]:
    return dict.fromkeys(VISIBLE_VARIABLES, devices)


@dataclass(frozen=True, slots=True)
class ClockLock:
    """Devices whose clocks a process holds, in a file: what one that was killed has left locked, the next releases."""

    tool: ProcessIdentity | None
    host: str
    family: str
    """Its title."""
    devices: tuple[int, ...]
    mhz: int


@contextmanager
def locked_clocks(
    accelerator: str | None, devices: Sequence[int], mhz: int, warn: Callable[[str], None]
) -> Iterator[None]:
    """The devices run at this clock while this is entered. `warn` is told if they could not be released.

    The drivers do not tell what was locked before, so a lock of an administrator ends with this one. Raises
    ClockLockError, and has locked none, if the driver or this tool cannot do it.
    """
    family = recognise(accelerator)[0] if accelerator else None
    if family is None or not devices:
        raise ClockLockError(
            f"--lock-clocks: no GPU is known to serve on this machine ({accelerator or 'cpu'}); leave --lock-clocks out"
        )
    path = clocks_directory() / f"{platform.node() or 'this-machine'}-{os.getpid()}.json"
    lock = ClockLock(identify_process(os.getpid()), platform.node(), family.title, tuple(devices), mhz)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, json.dumps(asdict(lock)), mode=0o600)
    with ExitStack() as stack:
        try:
            stack.enter_context(family.lock_clocks(devices, mhz))
        except ClockLockError:
            path.unlink(missing_ok=True)
            raise
        try:
            yield
        finally:
            _release(family, devices, path, warn)


def release_clocks(warn: Callable[[str], None]) -> None:
    """Release what a process of this user has left locked on this machine that was killed."""
    directory = clocks_directory()
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else []:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            tool = None if data["tool"] is None else ProcessIdentity(**data["tool"])
            host, title, devices = data["host"], data["family"], tuple(int(number) for number in data["devices"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        family = next((each for each in FAMILIES if each.title == title), None)
        if host == platform.node() and family is not None and not is_alive(tool):
            _release(family, devices, path, warn)


def _release(family: Family, devices: Sequence[int], path: Path, warn: Callable[[str], None]) -> None:
    try:
        family.release_clocks(devices)
    except ClockLockError as error:
        warn(str(error))
    else:
        path.unlink(missing_ok=True)
