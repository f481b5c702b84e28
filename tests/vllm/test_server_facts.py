"""Text from a server's log has no secrets and a bounded size before it is shown or stored."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.server.server_facts import MAX_ENTRIES, MAX_LENGTH, ServerFacts, bounded_json
from regress_gate.model.version import Version
from regress_gate.vllm.start_log import StartupSplit, read_start_log


def test_facts_become_a_document() -> None:
    log = (
        "INFO 11-21 02:40:46 [x.py:1] non-default args: {'api_key': ['topsecret'], 'port': 1, 'x': Config(a=1)}\n"
        "(EngineCore pid=1) INFO 11-21 02:40:46 [core.py:1] init engine (profile) took 2.5 seconds\n"
        "(EngineCore pid=1) INFO 11-21 02:40:46 [core.py:1] Initializing a V1 LLM engine (v0.19.1) with config: "
        "model='m', hf_token='top', long=" + "y" * 1000
    )
    document = ServerFacts(Version.parse("0.19.1"), 1600, read_start_log(log)).as_document()
    assert json.loads(json.dumps(document)) == document
    assert document["version"] == "0.19.1"
    assert document["non_default_args"] == {"api_key": "***", "port": 1, "x": "Config(a=1)"}
    assert document["split"]["init_engine"] == 2.5
    assert document["config"] == {"model": "'m'", "hf_token": "***", "long": "y" * (MAX_LENGTH - 1) + "…"}
    assert list(document) == [
        "version",
        "kv_cache_tokens",
        "architecture",
        "backends",
        "non_default_args",
        "config",
        "split",
        "max_concurrency",
        "weights_bytes",
        "max_capture_size",
        "lines",
    ]


def test_unknown_facts_are_null() -> None:
    document = ServerFacts(None, None, read_start_log("")).as_document()
    assert document.pop("split") == dict.fromkeys(StartupSplit.__slots__)
    assert not any(document.values())


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@given(anything)
def test_any_printed_value_can_be_stored_as_json(value: Any) -> None:
    kept = bounded_json(value)
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept


def test_stored_facts_are_bounded() -> None:
    nested: list[Any] = []
    for _ in range(1000):
        nested = [nested]
    kept = bounded_json({"0": ["x" * 10**4] * 500} | {str(number): number for number in range(1, 300)})
    assert len(kept) == MAX_ENTRIES
    assert len(kept["0"]) == MAX_LENGTH
    assert len(bounded_json([1] * 500)) == MAX_ENTRIES
    assert bounded_json({"a": {"b": [1, "x" * 600]}})["a"]["b"][1] == "x" * (MAX_LENGTH - 1) + "…"
    assert len(json.dumps(bounded_json(nested))) < 2 * MAX_LENGTH
