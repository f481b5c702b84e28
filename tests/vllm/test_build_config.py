"""The configuration of a build: JSON and back, and flags found as vLLM's parser finds them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.version import Version
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig, argument_key

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
keys = st.text("abcdefghij_.", min_size=1, max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
defaults = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
arguments = st.builds(
    Argument,
    flags=st.lists(keys.map("--{}".format), min_size=1, max_size=3).map(tuple),
    default=defaults,
    choices=st.none() | st.lists(texts, max_size=3).map(sorted).map(tuple),
    values=st.sampled_from(["none", "one", "optional", "many"]),
    deprecated=st.none() | texts,
)
configs = st.builds(
    BuildConfig,
    version=st.sampled_from(["0.19.1+cpu", "0.20.0rc1", "commit:0123abc"]).map(Version.parse),
    arguments=st.dictionaries(keys, arguments, max_size=4),
    env=st.dictionaries(keys, defaults, max_size=4),
    packages=st.dictionaries(keys, texts, max_size=4),
)


@given(configs)
def test_a_configuration_survives_json(config: BuildConfig) -> None:
    text = json.dumps(config.as_document())
    again = BuildConfig.from_document(json.loads(text))
    assert again == config
    assert json.dumps(again.as_document()) == text


def test_the_document_does_not_depend_on_order() -> None:
    one = Argument(flags=("--a",), default={"x": 1, "y": 2})
    other = Argument(flags=("--a",), default={"y": 2, "x": 1})
    version = Version.parse("0.19.1")
    first = BuildConfig(version=version, arguments={"a": one, "b": one}, env={"X": 1, "Y": 2}, packages={})
    second = BuildConfig(version=version, arguments={"b": other, "a": other}, env={"Y": 2, "X": 1}, packages={})
    assert json.dumps(first.as_document()) == json.dumps(second.as_document())


def document(**parts: Any) -> dict[str, Any]:
    return {"schema_version": "1", "version": "0.19.1", "arguments": {}, "env": {}, "packages": {}} | parts


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (document(package={}), "unknown key 'package' (did you mean 'packages'?)"),
        (document(version="latest and greatest"), "is not a vLLM version"),
        (document(version=19), "expected a version"),
        (document(arguments={"a": {"flags": []}}), "arguments.a.flags"),
        (document(arguments={"a": {"flags": ["--a"], "chioces": []}}), "did you mean 'choices'?"),
        (document(env={"X": nested(30)}), "nested too deeply"),
        (document(env={"X": float("nan")}), "the number is out of range"),
        (document(schema_version="2"), "schema_version"),
        ([], "expected keys and values"),
    ],
)
def test_an_invalid_configuration_is_refused(wrong: Any, complaint: str) -> None:
    with pytest.raises(InputError) as error:
        BuildConfig.from_document(wrong, "file.json")
    assert complaint in str(error.value)
    assert str(error.value).startswith("file.json")


def index(*flags: tuple[str, ...]) -> ArgumentIndex:
    """The index of arguments that are named by the first of their flags."""
    return ArgumentIndex({argument_key(names[0]): Argument(flags=names) for names in flags})


SMALL = index(
    ("--max-model-len",),
    ("--tensor-parallel-size", "-tp"),
    ("--enable-prefix-caching", "--no-enable-prefix-caching"),
    ("--compilation-config", "-cc"),
    ("--compilation-config.mode",),
    ("--compilation-config.pass_config",),
    ("--compilation-config.pass_config.fuse",),
    ("--additional-config",),
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--max-model-len", "max_model_len"),
        ("--max_model_len", "max_model_len"),
        ("-tp", "tensor_parallel_size"),
        ("--no-enable-prefix-caching", "enable_prefix_caching"),
        ("--enable-pre", "enable_prefix_caching"),
        ("--max-model-length", None),
        ("--compilation-config.mode", "compilation_config.mode"),
        ("-cc.mode", "compilation_config.mode"),
        ("--compilation-config.pass_config.fuse", "compilation_config.pass_config.fuse"),
        ("--compilation-config.pass_config.melt", None),
        ("--compilation-config.level", None),
        ("--compilation-config.mode.deeper", "compilation_config.mode"),
        ("--additional-config.anything", "additional_config"),
        ("--nothing.mode", None),
    ],
)
def test_a_flag_is_found_as_the_parser_finds_it(typed: str, meant: str | None) -> None:
    assert SMALL.find(argument_key(typed)) == meant


def test_an_ambiguous_prefix_means_no_argument() -> None:
    assert index(("--max-model-len",), ("--max-model-size",)).find("max_model") is None
