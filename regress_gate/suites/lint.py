"""All errors and warnings in the file of a suite, in one pass: for its author, not for a run.

Loading stops at the first error and only checks whether the suite can be used. Facts that only a running server knows
(does the model exist? does this version know the engine argument?) are not checked here.
"""

import math
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regress_gate.errors import InputError
from regress_gate.model.deployment import engine_arg_key
from regress_gate.model.documents import Document, LintMessage, LocatedMessage, ModelT, validation_messages
from regress_gate.model.metric import METRICS
from regress_gate.model.policy import Policy, PolicyOverrides
from regress_gate.model.suite import MAX_CONVERSATION_TOKENS, RecordedPrompts, Scenario, Suite, Workload
from regress_gate.suites import read_document
from regress_gate.text import did_you_mean, plural

LONGEST_LIMIT = 60.0
"""Seconds of an objective above which milliseconds were probably meant."""
FEWEST_MISSES = 5
"""Requests beyond a promise with which its attainment can be told from one that is kept."""


def lint_suite(
    file: Path, known_issues: Collection[str], *, trace_error: Callable[[Scenario], str | None] = lambda _: None
) -> list[LintMessage]:
    """All messages by line. The file may be invalid or missing. `known_issues` are ids and aliases; `trace_error` reads
    the recorded traffic of a scenario and says what is wrong with it."""
    try:
        document = read_document(file)
        if not isinstance(document.data, dict):
            what = "the file is empty" if document.data is None else "expected keys and values"
            raise InputError(what, line=document.line(()))
    except InputError as error:
        return [LintMessage(file, error.line, error.what, "error")]
    messages = list(_schema(document, file))
    policy = Policy().over(_read(PolicyOverrides, document.data.get("gate")) or PolicyOverrides())
    for index, data in enumerate(_items(document.data.get("scenarios"))):
        if (scenario := _read(Scenario, data)) is None:
            continue  # already reported by the schema
        for location, what, severity in _scenario(scenario, policy, known_issues, trace_error):
            line = document.line(("scenarios", index, *location))
            messages.append(LintMessage(file, line, f"scenario {scenario.name}: {what}", severity))
    return sorted(messages, key=lambda message: (message.line or 0, message.what))


def _schema(document: Document, file: Path) -> Iterator[LintMessage]:
    try:
        Suite.model_validate(document.data)
    except ValidationError as failure:
        for _, line, what in validation_messages(Suite, document, failure):
            yield LintMessage(file, line or None, what, "error")


def _scenario(
    scenario: Scenario, policy: Policy, known_issues: Collection[str], trace_error: Callable[[Scenario], str | None]
) -> Iterator[LocatedMessage]:
    if not scenario.why:
        yield (), "why is missing: say what the scenario is for", "warning"
    for index, issue in enumerate(scenario.sees):
        if issue not in known_issues:
            yield ("sees", index), f"{issue} is not a known issue" + did_you_mean(issue, known_issues), "warning"
    yield from _measurable(scenario)
    trace = scenario.workload.trace
    if trace is not None and _exists(Path(trace.file)) and (wrong := trace_error(scenario)) is not None:
        yield ("workload", "trace", "file"), wrong, "error"
    yield from _objectives(scenario.workload)
    yield from _adapters(scenario)
    yield from _limits(scenario)
    yield from _percentiles(scenario, policy)


def _measurable(scenario: Scenario) -> Iterator[LocatedMessage]:
    workload = scenario.workload
    if workload.missing:
        what = f"cannot be measured, only imported: the workload lacks {', '.join(workload.missing)}"
        yield ("workload",), what, "warning"
    for key, recorded in (("dataset", workload.dataset), ("trace", workload.trace)):
        if not isinstance(recorded, str | None) and not _exists(Path(recorded.file)):
            what = f"cannot be measured from here: there is no file {recorded.file!r}"
            yield ("workload", key, "file"), what, "warning"
    if isinstance(workload.dataset, str) and workload.dataset != "random":
        what = f"cannot be measured, only imported: dataset {workload.dataset!r} names no file"
        yield ("workload", "dataset"), what, "warning"
    concurrency, requests = workload.concurrency, workload.num_requests
    if concurrency is not None and requests is not None and requests < concurrency:
        what = f"{plural(requests, 'request never reaches', 'requests never reach')} a concurrency of {concurrency}"
        yield ("workload", "num_requests"), what, "warning"


def _objectives(workload: Workload) -> Iterator[LocatedMessage]:
    for name, limit in (workload.slo.model_dump() if workload.slo else {}).items():
        if limit is not None and limit > LONGEST_LIMIT:
            what = f"{name} of {limit:g} s is more than a minute: for {limit:g} milliseconds write {limit:g}ms"
            yield ("workload", "slo", name), what, "warning"
    requests, promise = workload.num_requests, workload.capacity
    if promise is not None and requests is not None and requests * (1 - promise) < FEWEST_MISSES:
        needed = math.ceil(round(FEWEST_MISSES / (1 - promise), 6))
        what = f"{plural(requests, 'request')} cannot show a promise of {100 * promise:g} %; send {needed}"
        yield ("workload", "num_requests"), what, "warning"


def _adapters(scenario: Scenario) -> Iterator[LocatedMessage]:
    arguments = {engine_arg_key(key) for key in scenario.server.engine_args}
    if scenario.workload.lora_adapters and "lora_modules" not in arguments:
        what = "the server has no lora_modules, so it serves no adapter: name them in its engine_args"
        yield ("workload", "lora_adapters"), what, "warning"


def _exists(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a folder without permission, a name that is too long
        return False


def _limits(scenario: Scenario) -> Iterator[LocatedMessage]:
    """Checks the workload against the server's limits, as far as the engine arguments give them."""
    workload = scenario.workload
    arguments = {engine_arg_key(key): value for key, value in scenario.server.engine_args.items()}
    longest, max_seqs = arguments.get("max_model_len"), arguments.get("max_num_seqs")
    length = workload.longest
    if type(longest) is int and length > longest:
        of = "prompt and answer" if workload.conversation is None else "a whole conversation"
        what = f"{length} tokens of {of} are more than max_model_len ({longest})"
        yield ("workload", "input_len"), what, "error"
    if type(longest) is int and _may_exceed(workload, longest):
        what = f"conversations of up to {MAX_CONVERSATION_TOKENS} tokens are sent, and max_model_len is {longest}"
        yield ("workload", "dataset"), what, "warning"
    if type(max_seqs) is int and workload.concurrency is not None and workload.concurrency > max_seqs:
        what = f"concurrency {workload.concurrency} is above max_num_seqs ({max_seqs}): the other requests only wait"
        yield ("workload", "concurrency"), what, "warning"


def _may_exceed(workload: Workload, max_model_len: int) -> bool:
    dataset = workload.dataset
    return (
        isinstance(dataset, RecordedPrompts)
        and dataset.format == "sharegpt"
        and max_model_len < MAX_CONVERSATION_TOKENS
    )


def _percentiles(scenario: Scenario, policy: Policy) -> Iterator[LocatedMessage]:
    workload = scenario.workload
    if workload.num_requests is None or workload.capacity is not None:  # whose latencies are not compared
        return
    measured = ("ttft", "tpot", "itl", "e2el") if workload.is_streamed else ("e2el",)
    short = [
        metric
        for metric in METRICS.values()
        if metric.tail is not None
        and metric.name.startswith(measured)
        and metric.min_requests > workload.num_requests
        and policy.gates(metric.name)
    ]
    if short:
        names, needed = ", ".join(metric.name for metric in short), max(metric.min_requests for metric in short)
        what = f"{names} cannot gate with {plural(workload.num_requests, 'request')}; send {needed}, or gate on medians"
        yield ("workload", "num_requests"), what, "warning"


def _read(model: type[ModelT], data: Any) -> ModelT | None:
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
