"""Text from a server's log has no secrets and a bounded size before it is shown or stored."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.server.server_facts import MAX_ENTRIES, MAX_LENGTH, ServerFacts, bounded_json, read_facts
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
        "signals",
    ]


def test_of_each_signal_the_first_lines_of_different_texts_are_kept(tmp_path: Path) -> None:
    token = "hf_" + "a" * 34
    printed = [
        f"WARNING 11-21 02:40:46 [x.py:1] Using default LoRA kernel configs {number // 2} {token}"
        for number in range(40)
    ]
    log = tmp_path / "server.log"
    log.write_text("\n".join(["non-default args: {}", *printed]))
    facts = read_facts("http://127.0.0.1:9", log, secrets=("configs 0",))
    kept = facts.as_document()["signals"]
    assert {name: [number for number, _ in lines] for name, lines in kept.items()} == {"lora_default": [2, 4, 6]}
    assert all(token not in text and "configs 0" not in text for _, text in kept["lora_default"])


def test_of_a_log_without_the_start_no_signals_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("WARNING Using default LoRA kernel configs")
    assert read_facts("http://127.0.0.1:9", log).as_document()["signals"] is None
    assert read_facts("http://127.0.0.1:9", tmp_path / "none.log").as_document()["signals"] is None


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
