"""Results of two releases of `vllm bench serve` that mean something else are kept apart, where the release is known."""

import pytest

from regress_gate.ingest.formats.vllm_client import client_release
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.model.metric import DEFINITIONS
from tests.factories.serve_results import made_up, plain
from tests.ingest.formats.reading import reading, refusal

RESULT = plain(made_up(4))


@pytest.mark.parametrize(
    ("client", "key"),
    [
        ("0.6.6", "vllm-bench-0.6"),
        ("0.7.0", "vllm-bench-0.7"),
        ("0.14.1", "vllm-bench-0.7"),
        ("0.15.0", "vllm-bench-0.15"),
        ("0.19.1", "vllm-bench-0.15"),
        ("v0.20.0rc1", "vllm-bench-0.20"),
        ("vllm 0.32.0 bench serve", "vllm-bench-0.20"),
    ],
)
def test_a_release_has_the_definitions_of_its_time(client, key):
    by_flag = reading(VllmServe(), RESULT, client_version=client)
    by_metadata = reading(VllmServe(), {**RESULT, "client_version": client})
    assert by_flag.definitions == by_metadata.definitions == key
    assert key in DEFINITIONS
    assert by_flag.metadata["client_version"] == client


def test_an_unknown_client_has_none():
    found = reading(VllmServe(), RESULT)
    assert (found.definitions, found.notes) == (None, ())


def test_a_stated_server_does_not_tell_the_client():
    found = reading(VllmServe(), {**RESULT, "vllm_version": "0.19.1"})
    assert found.definitions is None
    assert any("the client's version is not stated" in note for note in found.notes)


@pytest.mark.parametrize("client", ["0.19.2rc1.dev500", "main", "aiperf", "0.19.0 or 0.20.0", ""])
def test_what_is_no_release_has_none_and_says_so(client):
    found = reading(VllmServe(), RESULT, client_version=client)
    assert found.definitions is None
    assert any("is no release of vLLM" in note for note in found.notes)


def test_two_clients_of_one_result_are_an_error_that_names_both():
    why = refusal(VllmServe(), {**RESULT, "client_version": "0.14.1"}, client_version="0.15.0")
    assert "'0.15.0' by --client-version and '0.14.1' by metadata" in why


@pytest.mark.parametrize("text", ["10.0.19.1.2.3", "x0.19.1", "1" * 400, "0.19.1" * 30])
def test_a_release_is_not_read_out_of_anything(text):
    assert client_release(text) is None
