"""A deployment from the flags of the command line: pairs, bare flags, and what is refused with the way out."""

import pytest

from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment


def test_every_flag_becomes_its_field() -> None:
    deployment = Deployment.from_flags(
        accelerator="H200",
        engine_args=("--tensor-parallel-size=8", "enable_expert_parallel", "gpu_memory_utilization=0.9", "a=true"),
        env=("VLLM_X=1", "EMPTY=", "BARE"),
        features=("lora", "moe=false"),
        backends=("attention=FLASHINFER",),
        dependencies=("flashinfer-python=0.5.2",),
    )
    assert deployment.accelerator == "H200"
    assert deployment.engine_args == {
        "tensor_parallel_size": 8,
        "enable_expert_parallel": True,
        "gpu_memory_utilization": 0.9,
        "a": True,
    }
    assert deployment.env == {"VLLM_X": "1", "EMPTY": "", "BARE": ""}
    assert deployment.features == {"lora": True, "moe": False}
    assert deployment.backends == {"attention": "FLASHINFER"}
    assert deployment.dependencies == {"flashinfer-python": "0.5.2"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"engine_args": ("=8",)}, "--engine-arg: '=8' has no key; write KEY=VALUE"),
        ({"env": (" =1",)}, "--env: ' =1' has no key; write KEY=VALUE"),
        ({"dependencies": ("torch",)}, "--dependency: 'torch' has no value; write KEY=VALUE"),
        ({"backends": ("attention=",)}, "--backend: 'attention=' has no value; write KEY=VALUE"),
        (
            {"features": ("lora=perhaps",)},
            "--feature: 'lora=perhaps' is neither true nor false; write lora=true or =false",
        ),
        ({"gpu_arch": "hopper"}, "--gpu-arch: 'hopper' is no GPU architecture; write sm_90 or gfx942"),
        ({"env": ("A=\udcff",)}, "the deployment's flags: 'A=\\udcff' is not UTF-8 text"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_flags_name(flags: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        Deployment.from_flags(**flags)  # type: ignore[arg-type]
    assert str(refused.value) == message


def test_an_unknown_feature_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"--feature: unknown 'loar' \(did you mean 'lora'\?\)"):
        Deployment.from_flags(features=("loar",))
