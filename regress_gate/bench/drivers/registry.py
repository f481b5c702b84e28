"""The drivers by name."""

from pathlib import Path

from regress_gate.bench.drivers.aiperf import AiPerf
from regress_gate.bench.drivers.guidellm import GuideLlm
from regress_gate.bench.drivers.interface import Driver
from regress_gate.bench.drivers.vllm_bench import VllmBench
from regress_gate.errors import InputError
from regress_gate.model.nearest import did_you_mean

DRIVERS: dict[str, type[Driver]] = {driver.name: driver for driver in (VllmBench, GuideLlm, AiPerf)}


def find_driver(name: str, executable: Path | None = None) -> Driver:
    """The driver of that name, ready to measure; `executable` pins the tool, else the user's path is searched.

    Raises InputError for an unknown name, and LoadError when the tool is not there.
    """
    if name not in DRIVERS:
        raise InputError(f"unknown driver {name!r}" + did_you_mean(name, DRIVERS))
    return DRIVERS[name](executable)
