"""The tiny model is the same to the bit on every machine, and whole or not there."""

import json
import struct
from pathlib import Path

import pytest

from regress_gate.bench.tiny_model import VOCABULARY, make_tiny_model

SHA256_OF_SEED_0 = "3c1c5adb2f4f5416e72fab5a0f2942f72f722b97af1fd1355394aabbfded0286"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def test_it_is_bit_identical_by_seed(models: Path) -> None:
    assert make_tiny_model(0, models).weights_sha256 == SHA256_OF_SEED_0
    assert make_tiny_model(1, models).weights_sha256 != SHA256_OF_SEED_0


def test_it_is_made_once_and_made_again_when_it_was_damaged(tmp_path: Path) -> None:
    path = make_tiny_model(0, tmp_path).path
    made = (path / "model.safetensors").stat().st_mtime_ns
    make_tiny_model(0, tmp_path)
    assert (path / "model.safetensors").stat().st_mtime_ns == made
    (path / "config.json").write_text("{}")
    make_tiny_model(0, tmp_path)
    assert json.loads((path / "config.json").read_text())["vocab_size"] == VOCABULARY
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == ["tiny-llama-1-0"]


def test_the_weights_are_a_whole_safetensors_file(models: Path) -> None:
    data = (make_tiny_model(0, models).path / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    ends = sorted(value["data_offsets"] for name, value in header.items() if name != "__metadata__")
    assert (8 + length) % 8 == 0
    assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert 8 + length + ends[-1][1] == len(data)
    assert header["model.embed_tokens.weight"]["shape"] == [VOCABULARY, 256]


def test_every_merge_makes_a_token_and_no_two_tokens_share_an_id(models: Path) -> None:
    tokenizer = json.loads((make_tiny_model(0, models).path / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    assert sorted(vocabulary.values()) == list(range(VOCABULARY))
    assert all(merge.replace(" ", "") in vocabulary for merge in merges)
    assert {part for merge in merges for part in merge.split(" ")} <= vocabulary.keys()
