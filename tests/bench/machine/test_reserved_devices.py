"""The GPUs that the servers of a suite use: of the visible ones, as many as their parallelism."""

import sys
from typing import Any

import pytest

from regress_gate.bench.machine.reservation import server_gpus
from regress_gate.model.suite import ServerConfig
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml

EIGHT = [FakeGpu(uuid=f"GPU-{digit}932f937-d72c-4106-c12f-20bd9faed9f6") for digit in "01234567"]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*EIGHT))


def server(visible: str | None = None, **engine_args: Any) -> ServerConfig:
    return ServerConfig(
        model="m", engine_args=engine_args, env={} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    )


@pytest.mark.parametrize(
    ("engine_args", "taken"),
    [
        ({}, (0,)),
        ({"tensor_parallel_size": 4}, (0, 1, 2, 3)),
        ({"tensor-parallel-size": "2"}, (0, 1)),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 2}, tuple(range(8))),
        ({"tensor_parallel_size": 16}, tuple(range(8))),
        ({"tensor_parallel_size": "many"}, (0,)),
        ({"tensor_parallel_size": 0}, (0,)),
    ],
)
def test_a_server_uses_as_many_gpus_as_its_parallelism(engine_args: dict[str, Any], taken: tuple[int, ...]) -> None:
    assert server_gpus([server(**engine_args)], {}) == taken


def test_the_variable_of_a_suite_goes_before_the_tools() -> None:
    assert server_gpus([server()], {"CUDA_VISIBLE_DEVICES": "5,6"}) == (5,)
    assert server_gpus([server("3,2", tensor_parallel_size=2)], {"CUDA_VISIBLE_DEVICES": "5,6"}) == (3, 2)
    assert server_gpus([server("")], {}) == ()


def test_all_servers_of_a_suite_count() -> None:
    assert server_gpus([server("1"), server("4,5", tensor_parallel_size=2), server("1")], {}) == (1, 4, 5)


@pytest.mark.parametrize(
    ("given", "visible", "taken"),
    [
        ("all", None, (0, 1)),
        ("none", None, ()),
        ("6,7", None, (6, 7)),
        ("7,6", "1,0", (7, 6)),  # within, they are numbered anew in the machine's order
        ("6,7", "1,2", (7,)),
        ("all", "GPU-4932,GPU-5932", (4, 5)),
    ],
)
def test_a_container_uses_the_given_gpus(given: str, visible: str | None, taken: tuple[int, ...]) -> None:
    # What the tool itself may see does not count: the container's engine hands out the machine's GPUs.
    environment = {"CUDA_VISIBLE_DEVICES": "3"}
    assert server_gpus([server(visible, tensor_parallel_size=2)], environment, container=given) == taken


def test_all_gpus_of_several_kinds_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(), FakeGpu(name="NVIDIA L4", uuid="GPU-4")))
    assert server_gpus([server()], {}) == (0, 1)
    assert server_gpus([server()], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (0,)
    assert server_gpus([server("GPU-4")], {}) == (1,)


def test_without_the_drivers_library_none_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert server_gpus([server()], {}) == ()
