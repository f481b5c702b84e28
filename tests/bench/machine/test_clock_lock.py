"""Clocks of GPUs are held where that was asked for, and released whatever happens: a stand-in for NVIDIA's library."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from regress_gate.accelerators.interface import ClockLockError
from regress_gate.bench.machine.reservation import locked_clocks, release_clocks
from regress_gate.errors import ExitCode
from regress_gate.paths import clocks_directory
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[FakeGpu]:
    """Three of this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = [FakeGpu(), FakeGpu(), FakeGpu()]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*found))
    return found


def library() -> FakeNvml:
    found = sys.modules["pynvml"]
    assert isinstance(found, FakeNvml)
    return found


def states() -> list[Path]:
    directory = clocks_directory()
    return list(directory.iterdir()) if directory.is_dir() else []


def no_warning(text: str) -> None:
    raise AssertionError(text)


def test_the_devices_of_the_servers_are_held_and_then_left_to_the_driver(gpus: list[FakeGpu]) -> None:
    with locked_clocks("NVIDIA H200", [0, 2], 1410, no_warning):
        assert [gpu.locked for gpu in gpus] == [(1410, 1410), None, (1410, 1410)]
        release_clocks(no_warning)
        assert gpus[0].locked == (1410, 1410), "nothing is taken from a process that measures"
        assert len(states()) == 1
    assert [gpu.locked for gpu in gpus] == [None] * 3
    assert (states(), library().open) == ([], 0)


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError])
def test_whatever_ends_a_measurement_the_clocks_are_released(gpus: list[FakeGpu], end: type[BaseException]) -> None:
    library().persistence = True
    with pytest.raises(end), locked_clocks("NVIDIA H200", [0], 1410, no_warning):
        raise end
    assert [gpu.locked for gpu in gpus] == [None] * 3
    assert states() == []


@pytest.mark.parametrize("refusing", [0, 1])
def test_what_the_driver_refuses_is_told_and_nothing_stays_locked(gpus: list[FakeGpu], refusing: int) -> None:
    library().persistence = True
    gpus[refusing].refuses = "Insufficient Permissions"
    with (
        pytest.raises(ClockLockError) as refused,
        locked_clocks("NVIDIA H200", [0, 1], 1410, no_warning),
    ):
        pytest.fail("it was not refused")
    assert str(refused.value) == (
        f"the clocks of GPU {refusing} cannot be locked to 1410 MHz (Insufficient Permissions); "
        "lock them as root (nvidia-smi --lock-gpu-clocks=1410), and leave --lock-clocks out"
    )
    assert refused.value.exit_code is ExitCode.COULD_NOT_MEASURE
    assert [gpu.locked for gpu in gpus] == [None] * 3
    assert (states(), library().open) == ([], 0)


@pytest.mark.parametrize(
    ("accelerator", "devices", "says"),
    [
        ("AMD Instinct MI300X", [0], "this tool cannot lock the clocks of AMD GPUs; leave --lock-clocks out"),
        ("cpu", [], "--lock-clocks: no GPU is known to serve on this machine (cpu); leave --lock-clocks out"),
        (None, [], "--lock-clocks: no GPU is known to serve on this machine (cpu); leave --lock-clocks out"),
        ("NVIDIA H200", [], "--lock-clocks: no GPU is known to serve on this machine (NVIDIA H200)"),
    ],
)
@pytest.mark.usefixtures("gpus")
def test_where_clocks_cannot_be_locked_that_is_said(accelerator: str | None, devices: list[int], says: str) -> None:
    with pytest.raises(ClockLockError) as refused, locked_clocks(accelerator, devices, 1410, no_warning):
        pytest.fail("it was not refused")
    assert str(refused.value).startswith(says)
    assert states() == []


def test_without_the_library_that_is_said(gpus: list[FakeGpu], monkeypatch: pytest.MonkeyPatch) -> None:
    del gpus
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with (
        pytest.raises(ClockLockError, match="its driver, or the module nvidia-ml-py, is missing"),
        locked_clocks("NVIDIA H200", [0], 1410, no_warning),
    ):
        pytest.fail("it was not refused")


def test_clocks_that_cannot_be_released_are_told_and_tried_again_later(gpus: list[FakeGpu]) -> None:
    library().persistence = True
    told: list[str] = []
    with locked_clocks("NVIDIA H200", [0, 1], 1410, told.append):
        gpus[0].refuses = "GPU is lost"
    assert told == [
        "the clocks of GPU 0 may still be locked (GPU is lost); release them as root (nvidia-smi --reset-gpu-clocks)"
    ]
    assert (gpus[0].locked, gpus[1].locked) == ((1410, 1410), None)
    [state] = states()
    leave(state, state.name)
    gpus[0].refuses = None
    release_clocks(no_warning)
    assert (gpus[0].locked, states()) == (None, [])


def leave(state: Path, name: str, **differs: object) -> None:
    """What a process of ours that was killed has left: the state of a lock, in the name of one that has ended."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    data = json.loads(state.read_text())
    data |= {"tool": {"pid": int(ended.stdout), "started": "long ago"}, **differs}
    state.with_name(name).write_text(json.dumps(data))


def test_what_a_killed_process_has_left_locked_here_is_released(gpus: list[FakeGpu]) -> None:
    library().persistence = True
    with locked_clocks("NVIDIA H200", [1], 1410, no_warning):
        [state] = states()
        leave(state, "killed.json", devices=[0])
        leave(state, "of-another-host.json", devices=[2], host=f"not-{platform.node()}")
        (state.parent / "damaged.json").write_text("{")
        gpus[0].locked = gpus[2].locked = (1410, 1410)
        release_clocks(no_warning)
        assert [gpu.locked for gpu in gpus] == [None, (1410, 1410), (1410, 1410)]
    assert sorted(path.name for path in states()) == ["damaged.json", "of-another-host.json"]
