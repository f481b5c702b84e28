"""`--lock-clocks`: the GPUs are held at one clock while a version is measured, which the runs say, and never else."""

import sys

import pytest

from regress_gate.bench.load.load_client import OwnClientMeter
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml


@pytest.fixture
def gpu(lab, monkeypatch):
    """Of this machine, for which the suite is made."""
    lab.suite.write_text(lab.suite.read_text().replace("accelerator: cpu", "accelerator: H200"))
    gpu = FakeGpu(clock=1980)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gpu, persistence=True))
    return gpu


@pytest.fixture
def held(gpu, monkeypatch):
    """What the GPU was held at in each pass of a workload."""
    seen, measure = [], OwnClientMeter.__call__

    def look(*given, **more):
        seen.append(gpu.locked)
        return measure(*given, **more)

    monkeypatch.setattr(OwnClientMeter, "__call__", look)
    return seen


def test_runs_are_made_at_the_clock_that_was_asked_for(lab, gpu, held):
    made = lab("run", "0.19.1", "--runs", "2", "--lock-clocks", "1410")
    assert made.code == 0, made.err
    assert [run.place.locked_clock_mhz for run in lab.runs()] == [1410, 1410]
    assert set(held) == {(1410, 1410)}
    assert gpu.locked is None


def test_nothing_is_changed_that_was_not_asked_for(lab, gpu, held):
    gpu.refuses = "Insufficient Permissions"
    assert lab("run", "0.19.1", "--runs", "1").code == 0
    [run] = lab.runs()
    assert run.place.locked_clock_mhz is None
    assert set(held) == {None}


def test_what_the_driver_refuses_stops_before_anything_is_begun(lab, gpu):
    gpu.refuses = "Insufficient Permissions"
    refused = lab("run", "0.19.1", "--runs", "1", "--lock-clocks", "1410")
    assert refused.code == 4
    assert "cannot be locked to 1410 MHz (Insufficient Permissions); lock them as root" in refused.err
    assert lab.runs() == []
    assert "no unfinished experiment" in lab("run", "0.19.1", "--resume").err


def test_a_machine_without_a_gpu_refuses_it(lab):
    refused = lab("run", "0.19.1", "--runs", "1", "--lock-clocks", "1410")
    assert (refused.code, lab.runs()) == (4, [])
    assert "--lock-clocks: no GPU is known to serve on this machine (cpu)" in refused.err


def test_a_server_that_runs_already_is_left_alone(gate):
    refused = gate(
        "run", "0.19.1", "--url", "http://127.0.0.1:1", "--suite", "x", "--testbed", "lab", "--lock-clocks", "900"
    )
    assert (refused.code, refused.error.startswith("--lock-clocks: clocks are locked for servers")) == (2, True)
