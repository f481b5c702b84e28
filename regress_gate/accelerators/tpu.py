"""Google TPUs: names. A container needs --privileged to use them, which this tool never gives."""

from regress_gate.accelerators.interface import Family


class Tpu(Family):
    title = "TPUs"
    platform = "tpu"
    device_type = "tpu"
    variant = "tpu"
    variant_pattern = "tpu"
    parts = r"tpu\w*|v5e|v5p|v6e|trillium|ironwood"
    filler_words = frozenset({"google"})
    visible_variables = ("TPU_VISIBLE_CHIPS",)
