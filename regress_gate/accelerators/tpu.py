"""Google TPUs: names. A container needs --privileged to use them, which this tool never gives."""

from collections.abc import Mapping
from typing import ClassVar

from regress_gate.accelerators.interface import Family


class Tpu(Family):
    title = "TPUs"
    platform = "tpu"
    device_type = "tpu"
    variant = "tpu"
    variant_pattern = "tpu"
    parts = r"tpu\w*|v5e|v5p|v6e|v7x|v5litepod|trillium|ironwood|ct5l?p|ct6e"
    filler_words = frozenset({"google", "tpu"})
    aliases: ClassVar[Mapping[str, str]] = {
        r"v5litepod|v5[ -]lite|ct5lp": "v5e",
        r"ct5p": "v5p",
        r"trillium|ct6e": "v6e",
        r"ironwood|tpu ?v?7x?": "v7x",
    }
    visible_variables = ("TPU_VISIBLE_CHIPS",)
    kubernetes_resource = "google.com/tpu"
