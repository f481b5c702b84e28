"""AWS Trainium and Inferentia: names alone, so that they are not taken for something else.

vLLM publishes no build for them; one that AWS publishes can be started by a launch line.
"""

from collections.abc import Mapping
from typing import ClassVar

from regress_gate.accelerators.interface import Family


class Trainium(Family):
    title = "AWS Neuron accelerators"
    platform = "other"
    device_type = "neuron"
    variant = "neuron"
    variant_pattern = "neuron"
    kubernetes_resource = "aws.amazon.com/neuron"
    parts = r"trainium ?\d?|trn\d\w*|inferentia ?\d?|inf\d|neuron"
    filler_words = frozenset({"aws"})
    aliases: ClassVar[Mapping[str, str]] = {r"trn(\d)\w*": r"trainium\1", r"inf(\d)\w*": r"inferentia\1"}
