"""Intel GPUs (Arc, Data Center GPU Max): names, images for XPU, containers. vLLM publishes no XPU wheels."""

from regress_gate.accelerators.interface import IMAGE_REGISTRY, Family
from regress_gate.errors import InputError


class Intel(Family):
    title = "Intel GPUs"
    platform = "xpu"
    device_type = "xpu"
    variant = "xpu"
    variant_pattern = "xpu"
    parts = r"xpu|arc|b5[78]0|b[5-7]0|a7[57]0|max 1[15]\d0|flex 1[47]0|battlemage|bmg|ponte vecchio|pvc"
    filler_words = frozenset({"intel"})
    visible_variables = ("ZE_AFFINITY_MASK",)

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        del variant, release
        return (f"{IMAGE_REGISTRY}/vllm-openai-xpu:{tag}",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        del podman
        if devices != "all":
            raise InputError("one Intel GPU cannot be given to a container alone", where="gpus", todo="write all")
        return ["--device=/dev/dri", "--volume=/dev/dri/by-path:/dev/dri/by-path", "--group-add=video"]
