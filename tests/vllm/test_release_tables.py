"""The arguments of every release: the shipped table against what four installed builds said of themselves."""

import json
import time
from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.model.version import Version
from regress_gate.store.combined import ShippedBuilds
from regress_gate.vllm import release_tables
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig, argument_key
from regress_gate.vllm.release_tables import ReadRelease, build_config, dump_table, nearest_release, table_of

RELEASES = [str(version) for version in release_tables.known_releases()]
DEPENDS_ON_PLATFORM = {
    "kv_transfer_config.kv_buffer_device default",
    "mm_processor_device choices",
}
"""What the CPU builds answered for the platform that they run on; the table says that it depends on it."""
NOT_DETERMINED = {
    "VLLM_DBO_COMM_SMS",  # by the build of torch
    "VLLM_MAX_AUDIO_PREPROCESS_WORKERS",  # by the number of processors
    "VLLM_USE_AOT_COMPILE",  # by the version of torch
    "VLLM_USE_MEGA_AOT_ARTIFACT",
}


def known(version: str) -> BuildConfig:
    config = build_config(Version.parse(version))
    assert config is not None
    return config


def test_every_release_since_the_first_is_known() -> None:
    assert RELEASES[0] == "0.8.5"
    assert {"0.8.5.post1", "0.9.0.1", "0.10.1.1", "0.19.1", "0.24.0", "0.32.0", "0.33.0"} <= set(RELEASES)
    assert len(RELEASES) >= 45


@pytest.mark.parametrize("probe", ShippedBuilds().build_configs(Version(None)), ids=lambda build: str(build.version))
def test_the_table_says_what_an_installed_build_says(probe: BuildConfig) -> None:
    table = known(str(probe.version.number))
    assert table.arguments.keys() == probe.arguments.keys()
    differing = set()
    for name, told in probe.arguments.items():
        read = table.arguments[name]
        assert set(read.flags) == set(told.flags), name
        assert read.values == told.values, name
        assert "." in name or read.deprecated == told.deprecated, name
        for part in ("default", "choices"):
            if json.dumps(getattr(read, part)) != json.dumps(getattr(told, part)):
                differing.add(f"{name} {part}")
    assert differing <= DEPENDS_ON_PLATFORM
    assert table.env.keys() == probe.env.keys()
    assert {name for name, value in probe.env.items() if table.env[name] != value} <= NOT_DETERMINED


@pytest.mark.parametrize("version", RELEASES)
def test_every_release_is_read_as_a_whole(version: str) -> None:
    config = known(version)
    assert config.unread == ()
    assert BuildConfig.from_document(json.loads(json.dumps(config.as_document()))) == config
    assert len(config.arguments) > 140
    assert len(config.env) > 100
    assert "torch" in config.requirements
    for flag in ("--model", "--tensor-parallel-size", "--port", "--api-key", "--config", "--tool-call-parser"):
        assert ArgumentIndex(config.arguments).find(argument_key(flag)) is not None, flag
    undetermined = [name for name, one in config.arguments.items() if one.default == "<unknown>"]
    assert undetermined == []


@pytest.mark.parametrize(
    ("version", "name", "default"),
    [
        ("0.8.5", "max_seq_len_to_capture", 8192),
        ("0.19.1", "gpu_memory_utilization", 0.9),
        ("0.32.0", "gpu_memory_utilization", 0.92),
        ("0.26.0", "max_num_partial_prefills", 1),
        ("0.27.0", "max_num_partial_prefills", None),
        ("0.33.0", "kv_transfer_config.kv_buffer_device", "<platform>"),
    ],
)
def test_an_argument_changes_with_the_releases(version: str, name: str, default: object) -> None:
    argument = known(version).arguments.get(name)
    assert (None if argument is None else argument.default) == default


def test_all_variants_of_a_release_share_its_arguments_and_not_its_dependencies() -> None:
    plain, cuda, cpu = (known(text) for text in ("0.32.0", "0.32.0+cu129", "0.32.0+cpu"))
    assert plain.arguments == cuda.arguments == cpu.arguments
    assert str(cpu.version) == "0.32.0+cpu"
    assert cuda.requirements == plain.requirements
    assert "+cpu" in cpu.requirements["torch"]


@pytest.mark.parametrize("other", ["0.20.0rc1", "0.23.1rc1.dev1403+g4080263bb", "commit:0123abc", "9.9.9", "0.8.4"])
def test_other_builds_are_not_known(other: str) -> None:
    assert build_config(Version.parse(other)) is None


@pytest.mark.parametrize(
    ("build", "nearest"),
    [
        ("0.23.1rc1.dev1403+g4080263bb", "0.23.0"),
        ("0.20.0rc1", "0.19.1"),
        ("commit:0123abc", RELEASES[-1]),
        ("9.9.9", RELEASES[-1]),
        ("0.1.0", "0.8.5"),
    ],
)
def test_the_nearest_release_is_not_newer(build: str, nearest: str) -> None:
    assert str(nearest_release(Version.parse(build))) == nearest


def test_why_a_name_is_absent() -> None:
    old, new = Version.parse("0.9.0"), Version.parse("0.32.0")
    assert release_tables.absence_text("arguments", "max_num_partial_prefills", new) == "removed in 0.27.0"
    assert release_tables.absence_text("arguments", "performance_mode", old).startswith("new in 0.1")
    assert release_tables.absence_text("env", "VLLM_USE_V1", new) == "removed in 0.11.1"
    assert release_tables.absence_text("env", "VLLM_NOBODY_KNOWS", new) == ""


def test_every_new_name_and_every_old_one_existed() -> None:
    every = release_tables.any_release()
    flags = ArgumentIndex(every.arguments).keys
    first = release_tables.build_config(Version.parse(release_tables.FIRST_RELEASE))
    assert first is not None
    once = {*every.arguments, *ArgumentIndex(first.arguments).keys}
    for old, new in release_tables.SUCCESSORS.items():
        assert old in (every.env if old.startswith("VLLM_") else once)
        name = new.split()[0]
        assert name in every.env or argument_key(name) in flags


def a_release(version: str, *, unread: tuple[str, ...] = (), **defaults: object) -> ReadRelease:
    config = BuildConfig(
        version=Version.parse(version),
        arguments={
            name: Argument(flags=(f"--{name}", f"--no-{name}"), default=value, values="none")
            for name, value in defaults.items()
        },
        env={"VLLM_A": [1, 2]},
        packages={},
        requirements={"torch": "==2.9"},
        mentioned=frozenset({"VLLM_B"}),
        unread=unread,
    )
    return ReadRelease(version, f"vllm-{version}.whl", "0" * 64, config, {"torch": "==2.9+cpu"})


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(release_tables, "release_tables_directory", lambda: tmp_path / "tables")
    return tmp_path / "tables"


def test_a_line_is_an_argument_with_the_releases_in_which_it_changed() -> None:
    releases = [a_release("1.10.0", x=True), a_release("1.2.0", x=1), a_release("1.9.0", x=1, y=2)]
    lines = dump_table(table_of(releases)).splitlines()
    assert '  "x": [["1.2.0",{"switch":true,"default":1}],["1.10.0",{"switch":true,"default":true}]],' in lines
    assert '  "y": [["1.9.0",{"switch":true,"default":2}],["1.10.0"]]' in lines
    assert '  "VLLM_A": [["1.2.0",[1,2]]]' in lines


def test_a_release_that_the_user_read_is_known_from_then_on(kept: Path) -> None:
    release = a_release("9.9.9", unread=("not followed",), x=None)
    assert build_config(Version.parse("9.9.9")) is None
    assert release_tables.keep_release(release) == kept / "9.9.9.json"
    assert build_config(Version.parse("v9.9.9")) == release.config
    assert str(release_tables.known_releases()[-1]) == "9.9.9"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"releases": {}}', b"[" * 100_000])
def test_a_damaged_file_is_named(kept: Path, content: bytes) -> None:
    kept.mkdir()
    (kept / "9.9.9.json").write_bytes(content)
    with pytest.raises(InputError) as error:
        build_config(Version.parse("9.9.9"))
    assert str(error.value).startswith(str(kept / "9.9.9.json"))


def test_the_file_is_small_quick_and_as_it_would_be_written() -> None:
    text = release_tables.TABLE_FILE.read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert dump_table(table_of(release_tables.shipped_releases_read())) == text
    begin = time.process_time()
    json.loads(text)
    assert time.process_time() - begin < 0.2  # a hundredth of that on an idle machine
