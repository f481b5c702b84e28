"""A deployment's facts from a server's start log: the launch line, what was resolved, and what it warns of.

Reading the lines is `bench.server.start_log`'s matter. A log tells its whole launch line, so that arguments which it
does not name are at their defaults.
"""

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, cast, get_args

from regress_gate.bench.server.masking import mask, names_secret
from regress_gate.bench.server.start_log import StartLog, read_start_log
from regress_gate.errors import InputError
from regress_gate.known.told import Told
from regress_gate.model.deployment import ArgValue, Backend, Deployment, Platform
from regress_gate.model.version import Version

_RESOLVED = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enforce_eager",
    "kv_cache_dtype",
    "enable_prefix_caching",
    "enable_chunked_prefill",
)
"""Keys of the printed configuration that are engine arguments of the same name and meaning."""
_NOT_THE_ENGINE = {"model", "model_tag", "host", "port", "uds", "served_model_name", "chat_template", "download_dir"}
_PLATFORMS: Mapping[str, Platform] = {"cpu": "cpu", "xpu": "xpu", "tpu": "tpu", "npu": "ascend"}
"""By `device_config`, where CUDA and ROCm are both `cuda`."""
_DETECTED = re.compile(r"Automatically detected platform (cuda|rocm|cpu|xpu|tpu)\b")
_UNTUNED = re.compile(r"Using default MoE config\. .*?([^/'\s]+\.json)")
_DEVICE = re.compile(r"device_name=([^,]+?)(?:,|\.json)")


_V0 = (
    (re.compile(r"^((?:\([^()]*\) )?[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d) ([\w./]+:\d+\])", re.MULTILINE), r"\1 [\2"),
    (re.compile(r"\] Initializing an LLM engine \("), "] Initializing a V0 LLM engine ("),
    (re.compile(r"\] Using (\w[\w ]*?) backend\.?$", re.MULTILINE), r"] Using \1 backend on V0 engine"),
)
"""The words of engine V0, to 0.7, and those that took their place."""


def read_server_log(text: str, where: str) -> Told:
    """The facts. Raises InputError for a text in which no start of vLLM's server is recognised."""
    for old, new in _V0:
        text = old.sub(new, text)
    log = read_start_log(text)
    if log.version is None and log.non_default_args is None and not log.config:
        raise InputError("tells of no start of vLLM's server", where=where, todo="give the log from its beginning on")
    arguments = log.non_default_args
    untuned = sorted({found[1] for line in text.splitlines() if (found := _UNTUNED.search(line))})
    device = next((found[1] for name in untuned if (found := _DEVICE.search(name))), None)
    device_type = log.config.get("device_config", "").partition(":")[0]
    detected = _DETECTED.search(text)
    deployment = Deployment(
        accelerator=None if device is None else device.replace("_", " "),
        platform=cast(Platform, detected[1]) if detected else _PLATFORMS.get(device_type),
        model=_model(log),
        architecture=log.architecture,
        quantization=_quantization(log),
        backends={part: log.backends[part] for part in get_args(Backend) if part in log.backends},
        engine_args={**_resolved(log.config), **_engine_args(arguments or {})},
        complete=arguments is not None,
    )
    notes = [f"no tuned MoE configuration is used: {name} was not found" for name in untuned]
    return Told(deployment, _version(log.version), tuple(notes))


def _model(log: StartLog) -> str | None:
    given = (log.non_default_args or {}).get("model")
    printed = log.config.get("model", "").strip("'\"")
    return str(given) if isinstance(given, str) else printed or None


def _quantization(log: StartLog) -> str | None:
    """As resolved; `None` in the printed configuration means that the weights are not quantized."""
    printed = log.config.get("quantization")
    return None if printed is None else "none" if printed == "None" else printed.strip("'\"")


def _resolved(config: Mapping[str, str]) -> dict[str, ArgValue]:
    found = {key: config[key].strip("'\"") for key in _RESOLVED if config.get(key) not in (None, "None")}
    return {key: _value(text) for key, text in found.items()}


def _value(text: str) -> ArgValue:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"\d{1,9}", text) else text


def _engine_args(arguments: Mapping[str, Any]) -> dict[str, ArgValue]:
    """Those of the engine; structured values as JSON, secrets and the server's own left out."""
    found: dict[str, ArgValue] = {}
    for key, value in arguments.items():
        if key in _NOT_THE_ENGINE or key.startswith("ssl_") or names_secret(key) or value is None:
            continue
        if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
            found[key] = value
        else:
            found[key] = mask(value if isinstance(value, str) else json.dumps(value, default=str, skipkeys=True))
    return found


def _version(text: str | None) -> Version | None:
    try:
        return Version.parse(text) if text else None
    except InputError:
        return None
