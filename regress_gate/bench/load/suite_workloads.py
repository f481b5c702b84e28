"""The workloads of a suite's scenarios, as the load client takes them."""

from pathlib import Path

from regress_gate.bench.load.dataset import Dataset, DatasetFormat, open_dataset, read_texts
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, RequestSlo, ServingApi
from regress_gate.bench.load.pass_requests import check_recorded_prompts
from regress_gate.errors import InputError
from regress_gate.model.deployment import engine_arg_key
from regress_gate.model.suite import RecordedPrompts, Scenario, Suite


def load_workloads(suite: Suite) -> list[tuple[Scenario, LoadWorkload]]:
    """The scenarios of a suite as the load client takes them. Raises InputError for one that is not complete."""
    return [(scenario, _scenario_workload(scenario)) for scenario in suite.scenarios]


def _scenario_workload(scenario: Scenario) -> LoadWorkload:
    workload = scenario.workload
    dataset = _scenario_dataset(scenario)
    if workload.num_requests is None or workload.missing:
        raise InputError(f"scenario {scenario.name}: the workload does not say {', '.join(workload.missing)}")
    asked = LoadWorkload(
        input_len=workload.input_len or 0,
        output_len=workload.output_len or 0,
        num_requests=workload.num_requests,
        concurrency=workload.concurrency,
        request_rate=workload.request_rate,
        arrival=Arrival(workload.arrival),
        prefix_len=workload.prefix_len,
        warmup_requests=workload.warmup_requests,
        seed=workload.seed or 0,
        slo=None if workload.slo is None else RequestSlo(workload.slo.ttft, workload.slo.tpot, workload.slo.e2el),
        api=ServingApi(workload.api),
        documents=workload.documents or 0,
        ignore_eos=workload.ignore_eos,
        extra_body=workload.extra_body,
        lora_adapters=tuple(workload.lora_adapters),
        dataset=dataset,
    )
    if dataset is not None:
        arguments = {engine_arg_key(key): value for key, value in scenario.server.engine_args.items()}
        longest = arguments.get("max_model_len")
        check_recorded_prompts(dataset, read_texts(dataset), asked, longest if type(longest) is int else None)
    return asked


def _scenario_dataset(scenario: Scenario) -> Dataset | None:
    """Reads it, so that a file that cannot be used is told before a server starts."""
    given = scenario.workload.dataset
    if given == "random":
        return None
    if not isinstance(given, RecordedPrompts):
        raise InputError(f"scenario {scenario.name}: dataset {given!r} cannot be sent", todo="use random, or a file")
    return open_dataset(DatasetFormat(given.format), Path(given.file))
