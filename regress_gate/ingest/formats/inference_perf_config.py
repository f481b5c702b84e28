"""What lies beside inference-perf's reports: its config.yaml, and the manifests of the server that was measured.

Facts, not results: a file that is missing or unreadable says nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regress_gate.ingest import fields, yaml_text
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.asked_length import asked_length
from regress_gate.ingest.formats.server_manifest import server_of
from regress_gate.ingest.interface import Context, RefusalError
from regress_gate.ingest.text import clean

CONFIG, MANIFESTS = "config.yaml", ("manifests.yaml", "manifest.yaml")
_MAX_DOCUMENTS = 100
_MAX_TEXT = 1024 * 1024
_SHARED_PREFIX = {
    "groups": "num_groups",
    "prompts_per_group": "num_prompts_per_group",
    "prefix_len": "system_prompt_len",
    "input_len": "question_len",
    "output_len": "output_len",
}
"""Facts of prompts that share their beginning, by the key in the configuration."""


@dataclass(frozen=True, slots=True)
class Facts:
    workload: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def beside_facts(context: Context, stage: int | None) -> Facts:
    """What the files beside a report say of the run, and of the stage's load. Raises nothing."""
    notes: list[str] = []
    try:
        workload = _workload(_config(context), stage)
    except RefusalError as refusal:
        workload = {}
        notes.append(f"{CONFIG} beside it is not used: {refusal}")
    try:
        server = server_of([document for name in MANIFESTS for document in _documents(context.beside(name))])
    except RefusalError as refusal:
        server = None
        notes.append(f"the manifests beside it are not used: {refusal}")
    if server is None:
        return Facts(workload, notes=tuple(notes))
    if server.model is not None:
        workload.setdefault("model", server.model)
    if server.arguments:
        workload["server"] = server.name
        notes.append(f"server {server.name} is {clean(' '.join(server.arguments))}")
    return Facts(workload, server.metadata, tuple(notes))


def stages_of(context: Context) -> int | None:
    """How many stages the configuration has; None where it does not say, as with a sweep."""
    try:
        load = fields.obj(_config(context), "load")
        return None if load.get("sweep") else len(fields.items(load, "stages")) or None
    except RefusalError:
        return None


def _config(context: Context) -> Mapping[str, Any]:
    found = list(_documents(context.beside(CONFIG)))
    return found[0] if len(found) == 1 else {}


def _documents(content: Content | None) -> Iterator[Mapping[str, Any]]:
    """The objects of a YAML stream. Raises RefusalError where one is not readable."""
    if content is None or content.text is None:
        return
    if len(content.text) > _MAX_TEXT:
        raise RefusalError(f"{content.name} is too long")
    for part in re.split(r"^---[ \t]*$", content.text, maxsplit=_MAX_DOCUMENTS, flags=re.MULTILINE):
        data = yaml_text.parse(part, content.name)
        if isinstance(data, dict):
            yield data


def _workload(config: Mapping[str, Any], stage: int | None) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    if model := fields.text(fields.obj(config, "server"), "model_name"):
        workload["model"] = clean(model)
    data, load = fields.obj(config, "data"), fields.obj(config, "load")
    if dataset := fields.text(data, "type"):
        workload["dataset"] = clean(dataset, 40)
    for name, key in (("input_len", "input_distribution"), ("output_len", "output_distribution")):
        length = fields.obj(data, key)
        workload |= asked_length(name, fields.number(length, "mean"), fields.number(length, "std_dev"))
    if dataset == "shared_prefix":
        shared = fields.obj(data, "shared_prefix")
        workload |= {name: value for name, key in _SHARED_PREFIX.items() if type(value := shared.get(key)) is int}
    kind = fields.text(load, "type")
    if kind == "poisson":
        workload["burstiness"] = 1.0
    elif kind == "constant":
        workload["arrival"] = "constant"
    stages = fields.items(load, "stages")
    if stage is not None and stage < len(stages) and isinstance(asked := stages[stage], dict):
        if kind == "concurrent" and (concurrency := fields.count(asked, "concurrency_level")):
            workload |= {"request_rate": None, "max_concurrency": concurrency}
        elif kind != "concurrent" and (rate := fields.number(asked, "rate")) is not None and rate > 0:
            workload["request_rate"] = rate
    return workload
