"""This machine as a testbed. Facts that cannot be read stay unknown; an unknown fact is comparable to none.

Not for the libraries that come with a vLLM build, which belong to the run.
"""

import importlib
import math
import os
import platform
import re
import warnings
from pathlib import Path

import psutil

from regress_gate.accelerators.registry import find_accelerators
from regress_gate.model.testbed import Testbed

_CGROUP = Path("/sys/fs/cgroup")
_EXTENSIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "bf16", "sve", "sve2", "i8mm")
"""Vector extensions by which CPU builds choose their kernels."""


def fingerprint(name: str | None = None, *, accelerator: str | None = None) -> Testbed:
    """This machine, when the suite uses `accelerator`. With `cpu`, the CPU serves and other accelerators do not count.

    The default of `name` is the host's name, followed by the accelerator's if one serves, because that is another
    testbed. An accelerator that is found goes before the suite's; one without a count was not found on this machine.
    """
    uses_cpu = accelerator is not None and accelerator.lower() == "cpu"
    detected = None if uses_cpu else find_accelerators()
    used = "cpu" if uses_cpu else detected.name if detected else accelerator or "cpu"
    return Testbed(
        name=name or _default_name(used),
        accelerator=used,
        accelerator_count=detected.count if detected else None,
        accelerator_sm=detected.sm if detected else None,
        accelerator_memory_bytes=detected.memory_bytes if detected else None,
        accelerator_max_clock_mhz=detected.max_clock_mhz if detected else None,
        accelerator_power_limit_watts=detected.power_limit_watts if detected else None,
        driver=detected.driver if detected else None,
        cpu=cpu_name(),
        cpu_count=usable_cores(),
        memory_bytes=usable_memory(),
        os=_os_name(),
        python=platform.python_version(),
    )


def _default_name(accelerator: str) -> str:
    host = platform.node() or "this-machine"
    if accelerator == "cpu":
        return host
    return f"{host}-{re.sub(r'[^a-z0-9]+', '-', accelerator.lower().replace('nvidia', '')).strip('-')}"


def cpu_name() -> str | None:
    """The vendor's name of the model and its vector extensions, because virtual machines share the name of a model."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    facts: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip().lower(), " ".join(value.split()))
    name = facts.get("model name") or facts.get("cpu model") or _cpu_brand()
    flags = (facts.get("flags") or facts.get("features") or "").split()
    extensions = [each for each in _EXTENSIONS if each in flags]
    return f"{name} ({' '.join(extensions)})" if name and extensions else name


def _cpu_brand() -> str | None:
    """Slower, and it starts processes, but it knows ARM's part numbers and other systems."""
    cpuinfo = importlib.import_module("cpuinfo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        brand = cpuinfo.get_cpu_info().get("brand_raw")
    return " ".join(str(brand).split()) if brand else None


def usable_cores() -> int | None:
    """Logical cores that a server started from here may use, by affinity and the container's quota."""
    try:
        count: int | None = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count()
    quota = _cgroup_numbers("cpu.max")
    if count is not None and len(quota) == 2 and quota[1] > 0:
        count = min(count, max(1, math.ceil(quota[0] / quota[1])))
    return count


def usable_memory() -> int:
    """Bytes of memory of the machine, or of the container if its limit is lower."""
    limit = _cgroup_numbers("memory.max")
    total = int(psutil.virtual_memory().total)
    return min(total, limit[0]) if limit else total


def _cgroup_numbers(name: str) -> list[int]:
    """The numbers in a file of the container's control group; empty if there is no limit or no such file."""
    try:
        words = (_CGROUP / name).read_text(encoding="ascii").split()
    except (OSError, UnicodeError):
        return []
    return [int(word) for word in words] if words and all(word.isdecimal() for word in words) else []


def _os_name() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return f"{platform.system()} {platform.release()}"
    return release.get("PRETTY_NAME") or f"{release.get('NAME', 'Linux')} {release.get('VERSION_ID', '')}".strip()
