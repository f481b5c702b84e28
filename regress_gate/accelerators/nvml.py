"""NVIDIA's management library, where its Python module and a driver are there, and which GPUs a server would use.

Everything here may be missing on a machine, and any fact on a device: what cannot be read is None. Not for other
vendors' accelerators.
"""

import importlib
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

SM_CLOCK = 1
"""Of the clocks that can be asked for, that of the multiprocessors (nvml.h)."""


def has_nvml() -> bool:
    """Whether the library answers."""
    with nvml() as library:
        return library is not None


@contextmanager
def nvml() -> Iterator[Any | None]:
    """The library, ready to be asked for as long as this is entered; None where it or a driver is missing."""
    library = _module()
    if library is not None:
        try:
            library.nvmlInit()
        except library.NVMLError:
            library = None
    try:
        yield library
    finally:
        if library is not None:
            with suppress(library.NVMLError):
                library.nvmlShutdown()


def query(library: Any, names: tuple[str, ...], *arguments: Any) -> Any | None:
    """What the first of these functions answers that module, driver and device all know; None where none does."""
    for name in names:
        try:
            return getattr(library, name)(*arguments)
        except (AttributeError, library.NVMLError):
            continue
    return None


def as_text(value: str | bytes) -> str:
    """Older modules answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def visible_gpus(environment: Mapping[str, str] | None = None, *, first: int | None = None) -> tuple[int, ...]:
    """Numbers, as in nvidia-smi, of the GPUs that a server with this environment may use; empty: none that we know.

    A server takes the `first` ones, as many as its parallelism asks for; None: all. GPUs of several kinds are numbered
    by speed in CUDA unless CUDA_DEVICE_ORDER says otherwise, so what a number means there is not known and all of them
    count.
    """
    environment = os.environ if environment is None else environment
    with nvml() as library:
        count = query(library, ("nvmlDeviceGetCount",)) if library is not None else None
        if not count:
            return ()
        handles = [query(library, ("nvmlDeviceGetHandleByIndex",), number) for number in range(count)]
        kinds = {query(library, ("nvmlDeviceGetName",), handle) for handle in handles}
        by_speed = len(kinds) > 1 and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
        asked = environment.get("CUDA_VISIBLE_DEVICES")
        names = list(map(str, range(count))) if asked is None else [word.strip() for word in asked.split(",")]
        if by_speed and any(name.isdecimal() for name in names):
            return tuple(range(count))
        identities = [as_text(query(library, ("nvmlDeviceGetUUID",), handle) or "") for handle in handles]
        return _chosen(library, names, identities)[:first]


def _chosen(library: Any, names: list[str], identities: list[str]) -> tuple[int, ...]:
    """By CUDA's rules: numbers, or as much of an identity as is unique; what follows an invalid one is not visible.

    Source: CUDA programming guide, environment variables.
    """
    chosen: list[int] = []
    for name in names:
        if name.startswith("MIG-"):
            found = _owner(library, name)
        elif name.isdecimal():
            found = int(name)
        else:
            fitting = [n for n, identity in enumerate(identities) if name and identity.startswith(name)]
            found = fitting[0] if len(fitting) == 1 else None
        if found is None or found >= len(identities):
            break
        chosen.append(found)
    return tuple(dict.fromkeys(chosen))


def _owner(library: Any, identity: str) -> int | None:
    """The GPU that a slice is cut from: clocks, power and heat are the whole GPU's."""
    part = query(library, ("nvmlDeviceGetHandleByUUID",), identity)
    whole = part and query(library, ("nvmlDeviceGetDeviceHandleFromMigDeviceHandle",), part)
    return query(library, ("nvmlDeviceGetIndex",), whole) if whole else None


def _module() -> Any | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old package of the same name announces its end
            return importlib.import_module("pynvml")
    except ImportError:
        return None
