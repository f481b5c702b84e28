"""What AIPerf's `input_config` says was sent, in its two shapes: sections of the command line (to 0.12) and the
configuration of phases and datasets (0.13). Not for results.
"""

import re
from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.formats.asked_length import asked_length
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import clean


def workload_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Workload facts that the configuration states. Raises RefusalError where several loads are pooled."""
    workload: dict[str, Any] = {}
    if model := _model(config):
        workload["model"] = model
    phase = _phase(config)
    rate, concurrency = fields.number(phase, "request_rate"), fields.count(phase, "concurrency")
    if rate is None:
        rate = fields.number(phase, "rate")
    if rate is not None and rate <= 0:
        raise RefusalError(f"request_rate is {rate:g}")
    if rate is not None or concurrency is not None:
        workload |= {"request_rate": rate, "max_concurrency": concurrency}
    count = fields.count(phase, "request_count")
    if (count := fields.count(phase, "requests") if count is None else count) is not None:
        workload["num_prompts"] = count
    if rate is not None:
        pattern = phase.get("arrival_pattern") or phase.get("request_rate_mode") or phase.get("type")
        if pattern == "poisson":
            workload["burstiness"] = 1.0
        elif pattern == "constant":
            workload["arrival"] = "constant"
    dataset, lengths = _dataset(config), _lengths(config)
    if dataset is not None:
        # The length of made-up prompts has a default that a dataset ignores.
        lengths = {name: length for name, length in lengths.items() if not name.startswith("input_len")}
        workload["dataset"] = dataset
    return workload | lengths


def dataset_name(source: str) -> str | None:
    """Last part of the name or path of a dataset; None where nothing is left of it."""
    return clean(re.split(r"[/\\]", source.rstrip("/\\"))[-1], 60) or None


def _model(config: Mapping[str, Any]) -> str | None:
    endpoint, models = fields.obj(config, "endpoint"), fields.obj(config, "models")
    names = fields.items(endpoint, "model_names") or [
        item.get("name") for item in fields.items(models, "items") if isinstance(item, dict)
    ]
    named = [clean(name) for name in names if isinstance(name, str) and name]
    return "+".join(named[:3]) or None


def _phase(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The load: the `loadgen` section, or the only phase that is measured."""
    phases = [
        phase
        for phase in fields.items(config, "phases")
        if isinstance(phase, dict) and phase.get("kind", "profiling") == "profiling"
    ]
    if len(phases) > 1:
        raise RefusalError(f"it pools {len(phases)} profiling phases; measure each load by itself")
    return phases[0] if phases else fields.obj(config, "loadgen")


def _datasets(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in fields.items(config, "datasets") if isinstance(entry, dict)]


def _dataset(config: Mapping[str, Any]) -> str | None:
    """What prompts were taken from; None where they were made up."""
    section = fields.obj(config, "input")
    places = [(section, ("public_dataset", "file")), *((entry, ("dataset", "path")) for entry in _datasets(config))]
    names = [fields.text(place, key) for place, keys in places for key in keys]
    return "+".join(found for name in names if name is not None and (found := dataset_name(name))) or None


def _lengths(config: Mapping[str, Any]) -> dict[str, Any]:
    prompt = fields.obj(fields.obj(config, "input"), "prompt")
    found = (fields.obj(prompt, "input_tokens"), fields.obj(prompt, "output_tokens"))
    if len(datasets := _datasets(config)) == 1:
        prompts = fields.obj(datasets[0], "prompts")
        found = (fields.obj(prompts, "isl"), fields.obj(prompts, "osl"))
    lengths: dict[str, Any] = {}
    for name, length in zip(("input_len", "output_len"), found, strict=True):
        lengths |= asked_length(name, fields.number(length, "mean"), fields.number(length, "stddev"))
    return lengths
