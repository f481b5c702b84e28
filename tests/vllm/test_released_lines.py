"""Every line about a start that a release prints gives its fact, for all releases since 0.8."""

from collections.abc import Callable

import pytest

from regress_gate.vllm.start_log import StartLog, read_start_log
from tests.factories.released_signals import filled, printed_forms, releases

Fact = Callable[[StartLog], object]


def _backend(part: str) -> Fact:
    return lambda log: log.backends.get(part)


FACTS: dict[str, Fact] = {
    "api_server_version": lambda log: log.version,
    "server_version": lambda log: log.version,
    "engine_config": lambda log: log.version,
    "non_default_args": lambda log: log.non_default_args,
    "kv_cache_size": lambda log: log.kv_cache_tokens,
    "max_concurrency": lambda log: log.max_concurrency,
    "architecture": lambda log: log.architecture,
    "loading_weights": lambda log: log.split.load_weights,
    "model_loading": lambda log: log.split.load_model,
    "compile_takes": lambda log: log.split.compile,
    "compiled": lambda log: log.split.compile,
    "graph_capture": lambda log: log.split.capture_graphs,
    "init_engine": lambda log: log.split.init_engine,
    "attention_backend": _backend("attention"),
    "attention_backend_v1": _backend("attention"),
    "attention_backend_named": _backend("attention"),
    "flash_attention_version": _backend("flash_attention_version"),
    "kv_cache_layout": _backend("kv_cache_layout"),
    "mla_prefill_backend": _backend("attention_mla_prefill"),
    "moe_backend": _backend("moe"),
    "sampler": _backend("sampler"),
    "linear_kernel": _backend("linear"),
    "model_runner_v2_off": _backend("model_runner"),
}
OF_OTHER_PARTS = (
    "Using %s backend for ",
    "Using %s for Whisper causal attention",
    "Using %s for attention.",
)
"""Lines with the same words about other parts than the facts."""


@pytest.mark.parametrize("name", sorted(FACTS))
def test_every_wording_of_a_fact_is_read(name: str) -> None:
    unread = {
        form: release
        for release in releases()
        for form in printed_forms(name, release)
        if not form.startswith(OF_OTHER_PARTS) and not any(FACTS[name](read_start_log(line)) for line in filled(form))
    }
    assert unread == {}


def test_the_newest_release_still_prints_every_fact() -> None:
    gone = {"api_server_version", "compile_takes"}
    assert {name for name in FACTS if not printed_forms(name, releases()[-1])} == gone
