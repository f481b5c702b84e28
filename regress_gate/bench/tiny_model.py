"""A Llama with random weights, made in about a second: a model to serve without a model hub.

It is bit-identical for a seed on every machine: weights come from a hash of a counter, not from a library's generator.
Its text is gibberish; it measures the server, not the model. 9 million parameters in float32, 36 MB.
"""

import fcntl
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regress_gate.paths import models_directory

TINY_MODEL = "tiny"
"""The name of this model in a suite."""
VOCABULARY = 16384
"""Above 10,000, because load generators send ids up to 9,999."""
HIDDEN, LAYERS, HEADS, KV_HEADS, INTERMEDIATE = 256, 6, 4, 2, 768
MAX_POSITIONS = 4096
_FORMAT = 1
"""Raise it with any change of a written file: it is part of the cache's key."""

_BOS, _EOS = "<s>", "</s>"
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxzS", "aeiouy"
_SPACE = "Ġ"
"""How byte-level BPE writes a space."""


@dataclass(frozen=True, slots=True)
class TinyModel:
    path: Path
    weights_sha256: str
    """Of the weights file."""


def model_path(name: str) -> str:
    """The path to serve for a suite's model name: the directory of the tiny model, or the name itself."""
    return str(make_tiny_model().path) if name == TINY_MODEL else name


def make_tiny_model(seed: int = 0, directory: Path | None = None) -> TinyModel:
    """Make the model of a seed, or find it in the cache. Safe for several processes. Raises OSError for a full disk."""
    base = directory or models_directory()
    base.mkdir(parents=True, exist_ok=True)
    path = base / f"tiny-llama-{_FORMAT}-{seed}"
    with (base / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (checksum := _complete_checksum(path)) is None:
            if path.exists():
                shutil.rmtree(path)
            draft = base / f".{path.name}.new"
            if draft.exists():
                shutil.rmtree(draft)
            draft.mkdir()
            _write(draft, seed)
            draft.rename(path)
            checksum = _complete_checksum(path)
    if checksum is None:
        raise OSError(f"{path} differs from what was written")
    return TinyModel(path, checksum)


def _complete_checksum(path: Path) -> str | None:
    """The hash of the weights if every file is unchanged."""
    try:
        expected = json.loads((path / "sha256.json").read_text(encoding="utf-8"))
        for name, digest in expected.items():
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != digest:
                return None
        return str(expected["model.safetensors"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _write(path: Path, seed: int) -> None:
    documents = {
        "config.json": _config(),
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 1},
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            # The name that transformers 5 would write breaks vLLM 0.13 and 0.16.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": _BOS,
            "eos_token": _EOS,
            "model_max_length": MAX_POSITIONS,
            "clean_up_tokenization_spaces": False,
            "chat_template": "{% for message in messages %}{{ message['content'] }} {% endfor %}",
        },
    }
    for name, document in documents.items():
        (path / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _write_weights(path / "model.safetensors", seed)
    names = [*documents, "model.safetensors"]
    digests = {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in names}
    (path / "sha256.json").write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


def _config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float32",
        "use_cache": True,
    }


def _tokenizer() -> dict[str, object]:
    """A byte-level BPE of words of two syllables.

    A word begins with a space and is split from others before any merge, so a text of whole words gives back the
    tokens that it was decoded from; pairs that could merge across words would not.
    """
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    heads = [_SPACE + syllable for syllable in syllables]
    tokens = [_BOS, _EOS, *_byte_letters(), *syllables, *heads]
    words = [(head, syllable) for head in heads for syllable in syllables][: VOCABULARY - len(tokens)]
    merges = [
        *((syllable[0], syllable[1]) for syllable in syllables),
        *((_SPACE, syllable) for syllable in syllables),
        *words,
    ]
    tokens += [head + syllable for head, syllable in words]
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **special} for number, token in enumerate((_BOS, _EOS))],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [f"{left} {right}" for left, right in merges],
        },
    }


def _byte_letters() -> list[str]:
    """The letter that byte-level BPE (as GPT-2 has it) writes for each byte: itself, or one beyond 255."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    shifted = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(shifted)) for byte in range(256)]


def _tensors() -> Iterator[tuple[str, tuple[int, ...], float | None]]:
    """Name, shape and half-width of the uniform weights (None: all ones), in the order of the file."""
    width = HIDDEN // HEADS
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN), 0.02 * sqrt(3)
    for layer in range(LAYERS):
        block = f"model.layers.{layer}"
        shapes = {
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (KV_HEADS * width, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * width, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
            "mlp.up_proj": (INTERMEDIATE, HIDDEN),
            "mlp.down_proj": (HIDDEN, INTERMEDIATE),
        }
        for name, shape in shapes.items():
            yield f"{block}.{name}.weight", shape, sqrt(3 / shape[1])
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{block}.{name}.weight", (HIDDEN,), None
    yield "model.norm.weight", (HIDDEN,), None


def _weights(seed: int, name: str, shape: tuple[int, ...], half_width: float | None) -> npt.NDArray[np.float32]:
    """Uniform in ±half_width: 24 bits of a hash each, so that every step is exact in float32 but the last product."""
    if half_width is None:
        return np.ones(shape, dtype="<f4")
    stream = hashlib.shake_128(f"{seed} {name}".encode()).digest(4 * prod(shape))
    units = (np.frombuffer(stream, dtype="<u4") >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23)
    return ((units - np.float32(1.0)) * np.float32(half_width)).astype("<f4").reshape(shape)


def _write_weights(path: Path, seed: int) -> None:
    """In the safetensors format: eight bytes of length, a JSON header, the tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape, _ in _tensors():
        size = 4 * prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin aligned
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape, half_width in _tensors():
            file.write(_weights(seed, name, shape, half_width).tobytes())
        file.flush()
        os.fsync(file.fileno())
