"""The configurations of builds that come with the program: readable, small, and the same on every machine."""

from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.model.version import Version
from regress_gate.paths import shipped_directory
from regress_gate.store.combined import (
    MAX_BUILD_CONFIG_BYTES,
    ShippedBuilds,
    build_config_file_name,
    dump_build_config,
    load_build_config,
)
from regress_gate.vllm.build_config import Argument, BuildConfig

FILES = sorted((shipped_directory("baselines") / "builds").glob("*.json"))


def a_config(version: str = "0.19.1+cpu") -> BuildConfig:
    return BuildConfig(
        version=Version.parse(version),
        arguments={"b": Argument(flags=("--b",), default="ü"), "a": Argument(flags=("--a",), values="none")},
        env={"VLLM_X": None},
        packages={},
    )


def test_a_line_is_an_argument_a_variable_or_a_package() -> None:
    assert dump_build_config(a_config()) == (
        "{\n"
        ' "schema_version": "1",\n'
        ' "version": "0.19.1+cpu",\n'
        ' "arguments": {\n'
        '  "a": {"flags": ["--a"], "default": null, "values": "none"},\n'
        '  "b": {"flags": ["--b"], "default": "ü"}\n'
        " },\n"
        ' "env": {\n'
        '  "VLLM_X": null\n'
        " },\n"
        ' "packages": {}\n'
        "}\n"
    )


def test_what_was_written_is_read(tmp_path: Path) -> None:
    for version in ("0.19.1+cpu", "0.19.1+cu129", "0.20.0", "commit:0123abc"):
        config = a_config(version)
        (tmp_path / build_config_file_name(config.version)).write_text(dump_build_config(config), encoding="utf-8")
    builds = ShippedBuilds(tmp_path)
    assert builds.build_configs(Version.parse("0.20.0")) == [a_config("0.20.0")]
    assert [str(one.version) for one in builds.build_configs(Version.parse("0.19.1"))] == ["0.19.1+cpu", "0.19.1+cu129"]
    assert builds.build_configs(Version.parse("0.19.1+cpu")) == [a_config()]
    assert builds.build_configs(Version.parse("commit:0123abc")) == [a_config("commit:0123abc")]
    assert builds.build_configs(Version.parse("0.19")) == []
    assert ShippedBuilds(tmp_path / "nothing").build_configs(Version.parse("0.19.1")) == []


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff", b"[]", b" " * (MAX_BUILD_CONFIG_BYTES + 1)])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0.19.1.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        ShippedBuilds(tmp_path).build_configs(Version.parse("0.19.1"))
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_file_is_as_it_would_be_written(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    config = load_build_config(text.encode(), path)
    assert dump_build_config(config) == text
    assert build_config_file_name(config.version) == path.name
    assert len(text.encode()) < 150_000
    assert len(config.arguments) > 200
    assert len(config.env) > 150


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_shipped_file_holds_a_directory_of_the_machine_it_was_made_on(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [place for place in ("/home/", "/root/", "/tmp/", "/Users/", "site-packages") if place in text]
