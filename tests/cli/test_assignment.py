"""What is to be measured: a suite on the machine that is really there, by servers that are started in a way."""

import os
import sys
from collections.abc import Callable

import pytest

from regress_gate.accelerators.interface import Accelerators
from regress_gate.app.measurement_task import MeasurementTask, find_server_gpus, make_task, note_unwatched_gpus
from regress_gate.app.settings import Settings
from regress_gate.bench.machine import fingerprint
from regress_gate.errors import InputError
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.deployment import Deployment
from regress_gate.model.testbed import Testbed
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml
from tests.cli.conftest import Gate

Have = Callable[..., None]


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch) -> Have:
    """Puts accelerators of a name, or none, into this machine."""

    def put(name: str | None, count: int = 4) -> None:
        found = None if name is None else Accelerators(name, count, "570.86.15")
        monkeypatch.setattr(fingerprint, "find_accelerators", lambda: found)

    return put


def assign(suite: str, *, said: str | None = None, way: ProvisionConfig | None = None, **more: bool) -> MeasurementTask:
    deployment = Deployment(accelerator=said)
    settings = Settings(suite_flag=suite, testbed_flag="lab", deployment_flag=deployment, environment=dict(os.environ))
    return make_task(settings, {"single": "0.19.1"}, way or ProvisionConfig(), **more)


@pytest.mark.usefixtures("gate")
class TestAccelerator:
    def test_a_suite_is_measured_on_the_accelerator_that_it_is_made_for(self, have: Have) -> None:
        have("NVIDIA H100 80GB HBM3")
        assert assign("h100-llama8b").testbed.accelerator == "NVIDIA H100 80GB HBM3"

    def test_one_made_for_another_is_refused_and_both_are_named(self, have: Have) -> None:
        have("NVIDIA A100-SXM4-40GB")
        with pytest.raises(InputError, match="h100-llama8b is made for H100, and this machine has NVIDIA A100-SXM4"):
            assign("h100-llama8b")

    def test_of_several_kinds_one_is_enough(self, have: Have) -> None:
        have("NVIDIA H100 80GB HBM3 + NVIDIA L4")
        assert assign("l4-embed").testbed.accelerator_count == 4

    def test_one_for_the_processor_runs_beside_any_accelerator(self, have: Have) -> None:
        have("NVIDIA A100-SXM4-40GB")
        assert assign("cpu-tiny").testbed.accelerator == "cpu"

    def test_where_none_is_found_only_the_user_can_say_that_there_is_one(self, have: Have) -> None:
        have(None)
        with pytest.raises(InputError, match="made for H100, and no accelerator is found on this machine"):
            assign("h100-llama8b")
        with pytest.raises(InputError, match="no accelerator is found"):
            assign("h100-llama8b", said="A100")
        assert assign("h100-llama8b", said="NVIDIA H100 80GB").testbed.accelerator == "H100"

    def test_a_plan_may_be_made_elsewhere(self, have: Have) -> None:
        have(None)
        assert assign("h100-llama8b", plan_only=True).testbed.accelerator == "H100"


@pytest.mark.usefixtures("gate")
class TestGpus:
    @pytest.fixture(autouse=True)
    def eight(self, have: Have, monkeypatch: pytest.MonkeyPatch) -> None:
        have("NVIDIA H100 80GB HBM3", 8)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*(FakeGpu(uuid=f"GPU-{number}") for number in range(8))))

    def test_as_many_as_the_suite_wants(self) -> None:
        assert find_server_gpus(assign("h100-llama8b")) == (0,)
        assert find_server_gpus(assign("h100-llama70b-tp4")) == (0, 1, 2, 3)

    def test_the_processor_is_none(self) -> None:
        assert find_server_gpus(assign("cpu-tiny")) == ()

    def test_of_a_container_those_that_it_is_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = ProvisionConfig(way=ProvisionMethod.DOCKER, gpus="4,5,6,7")
        assert find_server_gpus(assign("h100-llama70b-tp4", way=given)) == (4, 5, 6, 7)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
        assert find_server_gpus(assign("h100-llama8b", way=ProvisionConfig(way=ProvisionMethod.DOCKER))) == (2,)
        assert find_server_gpus(assign("h100-llama8b", way=given)) == (4,)


class Told:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def say(self, text: str) -> None: ...

    def requests(self, what: str, sent: int, total: int) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    warn = note

    def expect(self, seconds: float | None) -> None: ...


def test_that_a_gpu_is_not_watched_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, told = Testbed("lab", accelerator="NVIDIA H200", driver="570.86.15"), Told()
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu()))
    note_unwatched_gpus(bed, told)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    note_unwatched_gpus(Testbed("lab", accelerator="cpu"), told)
    assert told.notes == []
    note_unwatched_gpus(bed, told)
    assert len(told.notes) == 1
    assert "pip install 'vllm-regress-gate[gpu]'" in told.notes[0]


def test_a_ref_that_the_store_resolves_is_a_build_to_measure(gate: Gate, have: Have) -> None:
    have(None)
    gate.import_starts("99.0.0")  # later than any that is shipped
    gate.import_starts("0.18.1")

    def meant(text: str) -> str:
        settings = Settings(suite_flag="cpu-tiny", environment=dict(os.environ))
        return str(make_task(settings, {"single": text}, ProvisionConfig()).versions["single"])

    assert meant("latest") == "99.0.0"
    gate("baseline", "pin", "0.18.1")
    assert meant("pinned") == "0.18.1"
    assert meant("run:1") == "99.0.0"
