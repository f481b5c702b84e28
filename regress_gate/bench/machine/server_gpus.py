"""Which GPUs the servers of a suite take, so that these are locked and watched. Not for giving them to the servers."""

from collections.abc import Iterable, Mapping

from regress_gate.bench.machine.nvml import visible_gpus
from regress_gate.model.deployment import ArgValue, engine_arg_key
from regress_gate.model.suite import ServerConfig

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""vLLM takes a GPU for each member of each of these, and their product in all."""


def server_gpus(
    servers: Iterable[ServerConfig], environment: Mapping[str, str], *, container: str | None = None
) -> tuple[int, ...]:
    """Numbers, as in nvidia-smi, of the GPUs of all these servers together; empty: none that we know.

    `environment` is what servers are started in, under their own variables. `container` says which GPUs theirs is
    given (all, none, or numbers and identities with commas between); None: they run in no container.
    """
    taken: dict[int, None] = {}
    for server in servers:
        first = _devices(server)
        if container is None:
            numbers = visible_gpus({**environment, **server.env}, first=first)
        else:
            numbers = _in_container(container, server.env.get(_VISIBLE), first)
        taken |= dict.fromkeys(numbers)
    return tuple(taken)


def _in_container(given: str, visible: str | None, first: int) -> tuple[int, ...]:
    """A container numbers the GPUs that it is given anew, from 0."""
    inside = None if visible is None else [word.strip() for word in visible.split(",")]
    if inside is not None and not all(word.isdecimal() for word in inside):  # identities are the same everywhere
        return visible_gpus({_VISIBLE: visible or ""}, first=first)
    outside = {} if given == "all" else {_VISIBLE: "" if given == "none" else given}
    if inside is None:
        return visible_gpus(outside, first=first)
    numbers = sorted(visible_gpus(outside))
    return tuple(numbers[int(word)] for word in inside if int(word) < len(numbers))[:first]


def _devices(server: ServerConfig) -> int:
    sizes = {engine_arg_key(key): value for key, value in server.engine_args.items()}
    product = 1
    for name in _PARALLEL:
        product *= _size(sizes.get(name))
    return product


def _size(value: ArgValue | None) -> int:
    """1 for what is not given, and for what vLLM itself will refuse."""
    return max(1, int(str(value))) if str(value).isdecimal() else 1
