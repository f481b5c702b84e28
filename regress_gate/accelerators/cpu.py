"""Processors as what serves: builds for CPU. Their load is watched by `bench.machine.cpu_load`, not here."""

import platform

from regress_gate.accelerators.interface import IMAGE_REGISTRY, Family

_OLDER_REGISTRY = "public.ecr.aws/q9t5s3a7"
"""Where CPU images of releases were published before the other registry had them."""


class Cpu(Family):
    title = "CPUs"
    platform = "cpu"
    device_type = "cpu"
    variant = "cpu"
    variant_pattern = "cpu"
    parts = (
        r"cpu|xeon|epyc|ryzen(?! ai)|core (?:ultra|i\d)|(?:sapphire|emerald|granite) rapids|x86 64|"
        r"graviton\d*|grace|neoverse|altra|ampereone\w*|axion|kunpeng|aarch64|arm64|apple m\d|"
        r"power ?(?:9|1[01])|ppc64le|s390x|telum|z1[4-7]|riscv64"
    )
    filler_words = frozenset({"ibm", "arm", "ampere"})

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        del variant
        if not release:
            return ()
        is_arm = platform.machine().lower() in ("arm64", "aarch64")
        older = "vllm-arm64-cpu-release-repo" if is_arm else "vllm-cpu-release-repo"
        return (f"{IMAGE_REGISTRY}/vllm-openai-cpu:{tag}", f"{_OLDER_REGISTRY}/{older}:{tag}")

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        """Whatever the devices: the CPU build binds memory to the NUMA node that it computes on."""
        del devices, podman
        return ["--cap-add=SYS_NICE"]
