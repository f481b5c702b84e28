"""A serve request as arguments of `vllm serve`. Not for deciding which arguments a scenario has."""

from regress_gate.bench.provision.interface import ServeRequest
from regress_gate.errors import InputError

_OURS = ("model", "host", "port", "served_model_name")


def serve_arguments(request: ServeRequest, port: int, *, host: str = "127.0.0.1") -> list[str]:
    """Everything after `vllm serve`. Raises InputError for an engine argument that the tool must set itself."""
    arguments = [
        request.model,
        f"--host={host}",
        f"--port={port}",
        f"--served-model-name={request.served_model_name}",
    ]
    for key, value in request.engine_args.items():
        if key in _OURS:
            raise InputError(f"engine argument {key!r} is set by the tool; leave it out")
        # A dotted key reaches into a group (`compilation_config.mode`); only the group's name is a flag.
        group, dot, inner = key.partition(".")
        flag = group.replace("_", "-") + dot + inner
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            arguments.append(f"--{flag}={value}")
    return arguments
