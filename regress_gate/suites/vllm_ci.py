"""Test definitions of vLLM's CI (`serving-tests.json` and similar files), converted to suites. Not for its results.

A definition is a list of tests, or `{defaults, tests}`. Each serving test has a server, a client, and lists of request
rates and concurrencies; every pair of them becomes a scenario with the name of the CI's result file of that pair. A
test that a suite cannot express exactly is left out as a whole, with the reason.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import yaml
from pydantic import ValidationError

from regress_gate.model.suite import Scenario

MAX_SCENARIOS = 2000
"""Limit for one definition; the largest known ones have about 200."""

_OTHER_TESTS = {
    "parameters": "is not a serving test; suites do not contain `vllm bench latency`, throughput or startup",
    "common_parameters": "compares several engines; suites are for vLLM alone",
}
_TEST_KEYS = {
    *("test_name", "qps_list", "max_concurrency_list"),
    *("server_parameters", "server_environment_variables", "client_parameters"),
}
_MERGED = ("server_parameters", "server_environment_variables", "client_parameters")
_SERVER_OURS = ("model", "host", "port", "served_model_name")
"""Server parameters that this tool sets itself."""
_BACKENDS = {"vllm": "completions", "openai": "completions", "openai-embeddings": "embeddings"}
_ENDPOINTS = {"completions": "/v1/completions", "embeddings": "/v1/embeddings"}
_WITHOUT_EFFECT = {
    *("model", "percentile_metrics", "metric_percentiles", "disable_tqdm", "save_result", "save_detailed"),
    *("ready_check_timeout_sec", "trust_remote_code", "host", "port", "base_url"),
}
"""Client parameters that do not change the requests."""


@dataclass(frozen=True, slots=True)
class ImportedSuite:
    """A definition, converted to the data of a suite."""

    suite: Mapping[str, Any] | None
    """None: no test could be converted."""
    left_out: tuple[str, ...]
    """The tests and scenarios that are not in the suite, each with the reason."""


class _UnsupportedError(Exception):
    """A suite cannot express a test or scenario; `str()` is the reason."""


def is_definition(data: object) -> bool:
    """Whether the data has the form of a test definition."""
    tests = data.get("tests") if isinstance(data, dict) else data
    return isinstance(tests, list) and any(isinstance(test, dict) and "test_name" in test for test in tests)


def convert_definition(data: object, name: str, source: str) -> ImportedSuite:
    """The definition as a suite of that name, version 1. Its description names the `source`."""
    scenarios: dict[str, Mapping[str, Any]] = {}
    left_out: list[str] = []
    for test in _merged(data):
        label = _label(test)
        try:
            for scenario in _scenarios(test):
                if len(scenarios) >= MAX_SCENARIOS:
                    raise _UnsupportedError(f"has more than {MAX_SCENARIOS} scenarios")
                try:
                    _check(scenario, scenarios)
                except _UnsupportedError as reason:
                    left_out.append(f"{scenario['name']} {reason}")
                    continue
                scenarios[scenario["name"]] = scenario
        except _UnsupportedError as reason:
            left_out.append(f"{label} {reason}")
    if not scenarios:
        return ImportedSuite(None, tuple(left_out))
    described = f"Imported from vLLM's CI definition {source}; its scenarios have the names of the CI's result files."
    suite = {"name": name, "version": 1, "description": described, "scenarios": list(scenarios.values())}
    return ImportedSuite(suite, tuple(left_out))


def _merged(data: object) -> Iterator[object]:
    """The tests, each with the defaults for missing keys."""
    if not isinstance(data, dict):
        yield from data if isinstance(data, list) else ()
        return
    defaults = data.get("defaults") or {}
    for test in data.get("tests") or ():
        if not isinstance(test, dict) or not isinstance(defaults, dict):
            yield test
            continue
        both = {key: {**_dict(defaults.get(key)), **_dict(test.get(key))} for key in _MERGED}
        yield {**defaults, **test, **{key: value for key, value in both.items() if value}}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _label(test: object) -> str:
    name = test.get("test_name") if isinstance(test, dict) else None
    return name if isinstance(name, str) else "a test without a name"


def _scenarios(test: object) -> Iterator[dict[str, Any]]:
    """The scenarios of a test. Raises _UnsupportedError if a suite cannot express any of them."""
    if not isinstance(test, dict) or not isinstance(test.get("test_name"), str):
        raise _UnsupportedError("is not an object with a test_name")
    for key, reason in _OTHER_TESTS.items():
        if key in test:
            raise _UnsupportedError(reason)
    if unknown := [key for key in test if key not in _TEST_KEYS]:
        raise _UnsupportedError(f"has the unknown key {unknown[0]!r}")
    server = _server(test)
    client = {key.replace("-", "_"): value for key, value in _dict(test.get("client_parameters")).items()}
    if client.get("model") != server["model"]:
        raise _UnsupportedError(f"serves {server['model']!r} and asks for {client.get('model')!r}")
    arrival = _arrival(client)
    workload = _workload(client)
    rates = _rates(test)
    if "trace" in workload and len(rates) > 1:
        raise _UnsupportedError("gives several rates to a timed trace, which has its own times")
    for rate, limit in product(rates, _limits(test, workload["num_requests"])):
        rate_text = "inf" if rate is None else f"{rate:g}"
        name = f"{test['test_name']}_qps_{rate_text}_concurrency_{limit}"
        load: dict[str, Any] = {"concurrency": limit}
        if rate is not None and "trace" not in workload:
            load |= {"request_rate": rate, **arrival}
        yield {
            "name": name,
            "why": f"{test['test_name']} of vLLM's CI",
            "server": server,
            "workload": {**workload, **load},
        }


def _server(test: Mapping[str, Any]) -> dict[str, Any]:
    given = {key.replace("-", "_"): value for key, value in _dict(test.get("server_parameters")).items()}
    if not isinstance(given.get("model"), str):
        raise _UnsupportedError("does not name the model of the server")
    arguments = {key: _argument(key, value) for key, value in given.items() if key not in _SERVER_OURS}
    env = {key: _env(key, value) for key, value in _dict(test.get("server_environment_variables")).items()}
    server: dict[str, Any] = {"model": given["model"]}
    if arguments:
        server["engine_args"] = arguments
    if env:
        server["env"] = env
    return server


def _argument(key: str, value: object) -> str | int | float | bool:
    """An engine argument: an empty text is a bare flag, an object is written as JSON."""
    if value == "":
        return True
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, str | int | float):
        return value
    raise _UnsupportedError(f"has no value for the server parameter {key!r}")


def _env(key: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise _UnsupportedError(f"has no text for the environment variable {key!r}")


def _arrival(client: dict[str, Any]) -> dict[str, Any]:
    """Remove and return how requests arrive where there is a rate: `burstiness`, as vLLM's client defines it."""
    given = client.pop("burstiness", 1)
    if given in ("inf", inf):
        return {"arrival": "constant"}
    if not _is_positive(given):
        raise _UnsupportedError(f"has burstiness {given!r}, which is not a positive number")
    return {} if given == 1 else {"arrival": "gamma", "burstiness": given}


def _workload(client: Mapping[str, Any]) -> dict[str, Any]:
    """The workload without rate and concurrency. Every parameter is used, known to have no effect, or refused."""
    left = dict(client)
    backend = left.pop("backend", "openai")
    if (api := _BACKENDS.get(backend) if isinstance(backend, str) else None) is None:
        raise _UnsupportedError(f"uses the backend {backend!r}; suites have completions, embeddings and rerank")
    if (endpoint := left.pop("endpoint", _ENDPOINTS[api])) != _ENDPOINTS[api]:
        raise _UnsupportedError(f"uses the endpoint {endpoint!r}, which suites do not")
    dataset, file = left.pop("dataset_name", "random"), left.pop("dataset_path", None)
    if dataset == "random":
        workload = _random(left, api)
    elif dataset == "sharegpt" and api == "completions":
        workload = _conversations(left, file)
    elif dataset == "timed_trace" and api == "completions":
        workload = _timed_trace(left, file)
    else:
        raise _UnsupportedError(
            f"sends the dataset {dataset!r}; suites send random tokens and, for completions, sharegpt and timed_trace"
        )
    if not (requests := _count(left, "num_prompts")):
        raise _UnsupportedError("lacks num_prompts")
    workload["num_requests"] = requests
    if warmup := _count(left, "num_warmups"):
        if "trace" in workload:
            raise _UnsupportedError("warms up with copies of a request; a trace warms up with its own first requests")
        workload["warmup_requests"] = warmup
    if (seed := _count(left, "seed")) is not None:
        workload["seed"] = seed
    if temperature := left.pop("temperature", 0):
        workload["extra_body"] = {"temperature": temperature}
    if left.get("random_range_ratio") == 0:
        del left["random_range_ratio"]
    if unknown := sorted(left.keys() - _WITHOUT_EFFECT):
        raise _UnsupportedError(f"has the client parameter {unknown[0]!r}, which suites cannot express")
    return workload


def _random(left: dict[str, Any], api: str) -> dict[str, Any]:
    prefix = _count(left, "random_prefix_len") or 0
    length = _count(left, "random_input_len")
    if not length:
        raise _UnsupportedError("lacks random_input_len")
    workload: dict[str, Any] = {"input_len": length + prefix}
    if prefix:
        workload["prefix_len"] = prefix
    answer = _count(left, "random_output_len")
    if api != "completions":
        return {**workload, "api": api}
    if not answer:
        raise _UnsupportedError("lacks random_output_len")
    return {**workload, "output_len": answer, "ignore_eos": _ignores_eos(left)}


def _conversations(left: dict[str, Any], file: object) -> dict[str, Any]:
    if not isinstance(file, str) or not file:
        raise _UnsupportedError("lacks dataset_path")
    workload: dict[str, Any] = {"dataset": {"format": "sharegpt", "file": file}}
    if answer := _count(left, "sharegpt_output_len"):
        workload["output_len"] = answer
    return {**workload, "ignore_eos": _ignores_eos(left)}


_TRACE_LABELS = {
    name: f"timed_trace_label_{name}" for name in ("timestamp", "input_length", "output_length", "hash_ids")
}


def _timed_trace(left: dict[str, Any], file: object) -> dict[str, Any]:
    """Requests at their recorded times. With `--no-self-timed` vLLM's client sends their lengths at a rate instead."""
    if not isinstance(file, str) or not file:
        raise _UnsupportedError("lacks dataset_path")
    if left.pop("self_timed", True) not in ("", True) or left.pop("no_self_timed", False) is not False:
        raise _UnsupportedError("sends a timed trace at a rate and not at its own times (no_self_timed)")
    for name, key in _TRACE_LABELS.items():
        if (label := left.pop(key, name)) != name:
            raise _UnsupportedError(f"has {key} {label!r}; in a suite the key is {name!r}")
    trace: dict[str, Any] = {"file": file, "format": "vllm"}
    if (scale := left.pop("timed_trace_sec_multiplier", 1)) != 1:
        if not _is_positive(scale):
            raise _UnsupportedError(f"has timed_trace_sec_multiplier {scale!r}, which is not a positive number")
        trace["scale"] = scale
    if (block := _count(left, "timed_trace_chunk_hash_size")) is not None:
        trace["block_tokens"] = block
    left.pop("disable_shuffle", None)  # for other datasets: a trace is never shuffled
    left.pop("ignore_eos", None)  # vLLM's client sets it for these itself
    return {"trace": trace}


def _ignores_eos(left: dict[str, Any]) -> bool:
    return left.pop("ignore_eos", False) in ("", True)


def _count(parameters: dict[str, Any], key: str) -> int | None:
    """Remove and return a whole number, or digits, from the parameters; None if it is missing."""
    value = parameters.pop(key, None)
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 16:
        return int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise _UnsupportedError(f"has {key} {value!r}, which is not a count")


def _rates(test: Mapping[str, Any]) -> list[float | None]:
    """Requests per second; None for no limit."""
    given = test.get("qps_list")
    if not isinstance(given, list) or not given:
        raise _UnsupportedError("has no qps_list")
    if bad := [rate for rate in given if rate != "inf" and not _is_positive(rate)]:
        raise _UnsupportedError(f"has {bad[0]!r} in qps_list, which is not a rate")
    return [None if rate == "inf" else rate for rate in given]


def _limits(test: Mapping[str, Any], requests: int) -> list[int]:
    """Requests in flight. The default is the number of requests, as in the CI: no limit."""
    given = test.get("max_concurrency_list")
    if given is None:
        return [requests]
    if not isinstance(given, list) or not given:
        raise _UnsupportedError("has an empty max_concurrency_list")
    if bad := [limit for limit in given if not _is_positive(limit) or limit != int(limit)]:
        raise _UnsupportedError(f"has {bad[0]!r} in max_concurrency_list, which is not a count")
    return [int(limit) for limit in given]


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9


def _check(scenario: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Raises _UnsupportedError for a scenario that a suite would refuse."""
    if scenario["name"] in others:
        raise _UnsupportedError("is given twice")
    try:
        Scenario.model_validate(scenario)
    except ValidationError as failure:
        error = failure.errors(include_url=False)[0]
        where = ".".join(map(str, error["loc"]))
        raise _UnsupportedError(f"is not valid in a suite: {where}: {error['msg']}") from None
    longest = scenario["server"].get("engine_args", {}).get("max_model_len")
    tokens = sum(scenario["workload"].get(key, 0) for key in ("input_len", "output_len"))
    if type(longest) is int and tokens > longest:
        raise _UnsupportedError(f"sends and asks for {tokens} tokens, more than its max_model_len of {longest}")


_LIKE_NUMBERS = tuple("+-.0123456789")
WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """Indents lists inside mappings, and quotes text that could be read as another type."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the reader refuses all of them
        return True


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    quoted = '"' if value.startswith(_LIKE_NUMBERS) or not value.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=quoted)


_Dumper.add_representer(str, _represent_text)


def suite_text(suite: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """The suite as YAML text that reads back to the same data, after the comments (one line each)."""
    body = yaml.dump(dict(suite), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return "".join(f"# {line}\n" for line in comments) + str(body)
