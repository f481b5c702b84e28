"""Intel Gaudi accelerators (HPU): names and containers.

Their vLLM is vLLM with the plugin vllm-gaudi, which has images of its own: name one with --image.
"""

from collections.abc import Mapping
from typing import ClassVar

from regress_gate.accelerators.interface import Family


class Gaudi(Family):
    title = "Gaudi accelerators"
    platform = "gaudi"
    device_type = "hpu"
    variant = "gaudi"
    variant_pattern = "gaudi|hpu"
    parts = r"gaudi ?\d?d?|habana|hpu|hl ?[1-9]\d\d\w?"
    filler_words = frozenset({"intel", "habana"})
    aliases: ClassVar[Mapping[str, str]] = {
        r"hl-?205": "gaudi1",
        r"hl-?2[2-9]\d\w?|gaudi ?2d": "gaudi2",
        r"hl-?3\d\d\w?": "gaudi3",
    }
    visible_variables = ("HABANA_VISIBLE_DEVICES",)
    kubernetes_resource = "habana.ai/gaudi"

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        del podman
        return [
            "--runtime=habana",
            f"--env=HABANA_VISIBLE_DEVICES={devices}",
            "--env=OMPI_MCA_btl_vader_single_copy_mechanism=none",
            "--cap-add=SYS_NICE",
        ]
