"""Which GPUs a server may use, by CUDA's rules; and a machine without them."""

import sys

import pytest

from regress_gate.accelerators.nvml import nvml, visible_gpus
from tests.bench.machine.fake_nvml import FakeGpu, FakeNvml

FOUR = [FakeGpu(uuid=f"GPU-{digit}932f937-d72c-4106-c12f-20bd9faed9f6") for digit in "aab3"]


@pytest.mark.parametrize(
    ("asked", "visible"),
    [
        (None, (0, 1, 2, 3)),
        ("2,1", (2, 1)),
        ("0,2,-1,1", (0, 2)),
        ("0, 9, 1", (0,)),
        ("", ()),
        ("NoDevFiles", ()),
        ("1,1", (1,)),
        ("GPU-b932f937-d72c-4106-c12f-20bd9faed9f6,GPU-3", (2, 3)),
        ("GPU-a,1", ()),  # two begin like this
        ("MIG-of-the-second", (1,)),
        ("MIG-of-nobody", ()),
    ],
)
def test_a_server_sees_what_its_environment_leaves_it(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, visible: tuple[int, ...]
) -> None:
    library = FakeNvml(*FOUR)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert visible_gpus({} if asked is None else {"CUDA_VISIBLE_DEVICES": asked}) == visible
    assert library.open == 0


def test_the_environment_is_ours_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*FOUR))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert visible_gpus() == (3,)


def test_a_number_among_unlike_gpus_means_something_only_in_the_order_of_the_bus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(), FakeGpu(name="NVIDIA L4", uuid="GPU-4")))
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == (0, 1)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (1,)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-4"}) == (1,)


@pytest.mark.parametrize("module", [None, FakeNvml(FakeGpu(), driver=False)])
def test_without_the_module_or_a_driver_there_are_none(
    monkeypatch: pytest.MonkeyPatch, module: FakeNvml | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with nvml() as library:
        assert library is None
    assert visible_gpus({}) == ()
    assert module is None or module.open == 0
