"""`regress-gate diff-config`: two builds compared and a launch line tried, from what is known or asked."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from regress_gate.cli.main import COMMANDS
from regress_gate.model.version import Version
from regress_gate.store.repository import open_store
from regress_gate.vllm.build_config import Argument, BuildConfig
from tests.cli.conftest import Gate

LINE = "vllm serve m --max-num-seqs 16 --gpu-memory-utilization 0.9 --enforce-eager"


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ("regress_gate.cli.diff_config:diff_config", "What changed besides speed.")
    monkeypatch.setitem(COMMANDS, "diff-config", entry)


def a_build(version: str, **arguments: int) -> BuildConfig:
    return BuildConfig(
        version=Version.parse(version),
        arguments={
            name: Argument(flags=("--" + name.replace("_", "-"),), default=default)
            for name, default in arguments.items()
        },
        env={},
        packages={},
    )


def keep(gate: Gate, *builds: BuildConfig) -> None:
    with open_store(f"sqlite:///{gate.store}", create=True) as store:
        for build in builds:
            store.add_build_config(build)


def test_two_shipped_builds_need_nothing_installed(gate: Gate) -> None:
    done = gate("diff-config", "v0.19.1", "v0.32.0", "--offline", "--serve-command", LINE)
    assert (done.code, done.err) == (0, "")
    head, verdict, *rest = done.out.splitlines()
    assert head == "vLLM 0.19.1 → 0.32.0"
    assert verdict == "the arguments of your launch line are all taken by 0.32.0"
    assert "  --gpu-memory-utilization  0.9 → 0.92" in rest
    assert "Dependencies (43)" in rest
    assert max(map(len, rest)) <= 80
    assert not gate.store.exists(), "nothing is made for what only reads"


def test_a_launch_line_that_would_not_start_exits_1(gate: Gate) -> None:
    line = LINE + " --max-num-partial-prefills 2"
    done = gate("diff-config", "v0.19.1", "v0.32.0", "--serve-command", line)
    assert done.code == 1
    assert done.out.splitlines()[1:5] == [
        "your launch line would not start on 0.32.0",
        "",
        "Keeps your launch line from starting (1)",
        "  --max-num-partial-prefills  this argument was removed",
    ]
    assert gate("diff-config", "v0.32.0", "v0.19.1", "--serve-command", line).code == 0


def test_flags_line_and_file_together_are_the_launch_line(gate: Gate) -> None:
    (gate.directory / "regress-gate.toml").write_text(
        "[deployment.engine_args]\nseed = 3\nmax_num_seqs = 1\ngone = 1\n[deployment.env]\nVLLM_X = '1'\n"
    )
    keep(gate, a_build("1.0.0", seed=0, max_num_seqs=8), a_build("1.1.0", seed=1, max_num_seqs=9))
    done = gate(
        "diff-config", "1.0.0", "1.1.0", "--format", "json", "--engine-arg", "max-num-seqs=4",
        "--serve-command", "VLLM_Y=2 vllm serve m --max-num-seqs 2 --new 1",
    )  # fmt: skip
    assert done.code == 1
    assert done.json["deployment"]["model"] == "m"
    assert done.json["deployment"]["engine_args"] == {"seed": 3, "max_num_seqs": 4, "gone": 1, "new": 1}
    assert done.json["deployment"]["env"] == {"VLLM_X": "1", "VLLM_Y": "2"}
    assert done.json["starts"] is False
    either = "; 1.0.0 does not take it either, so it is not the line that runs"
    assert done.json["problems"] == [f"1.1.0 has no --gone{either}", f"1.1.0 has no --new{either}"]


def test_the_json_lists_every_change(gate: Gate) -> None:
    keep(gate, a_build("1.0.0", seed=0, old=1), a_build("1.1.0", seed=1, new=1))
    done = gate("diff-config", "1.0.0", "1.1.0", "--format", "json")
    assert done.code == 0
    assert done.json["starts"] is True
    assert done.json["config_changes"] == [
        {"kind": kind, "name": name, "before": before, "after": after, "matters": matters, "why": None}
        for kind, name, before, after, matters in [
            ("default_changed", "--seed", 0, 1, "affects"),
            ("flag_removed", "--old", 1, None, "informs"),
            ("flag_added", "--new", None, 1, "informs"),
        ]
    ]


def test_markdown_and_everything(gate: Gate) -> None:
    keep(gate, a_build("1.0.0", seed=0), a_build("1.1.0", seed=0, new=1))
    assert "1 change; --all lists it" in gate("diff-config", "1.0.0", "1.1.0", "--format", "markdown").out
    for flag in ("--all", "-v"):
        assert "-new: 1\n" in gate("diff-config", "1.0.0", "1.1.0", "--format", "markdown", flag).out


def test_two_variants_are_pointed_out(gate: Gate) -> None:
    keep(gate, a_build("1.0.0+cpu", seed=0), a_build("1.1.0+cu129", seed=0))
    done = gate("diff-config", "1.0.0", "1.1.0")
    assert done.code == 0
    assert done.err == (
        "regress-gate: warning: 1.0.0+cpu and 1.1.0+cu129 are builds of two variants, "
        "which differ for that reason too\n"
    )


def test_a_version_that_was_never_released_is_refused_with_the_nearest(gate: Gate) -> None:
    done = gate("diff-config", "v0.29.7", "v0.33.0")
    assert (done.code, done.error) == (2, "vLLM 0.29.7 was never released; the nearest release is 0.29.0")


def test_an_unknown_version_offline_is_no_data(gate: Gate) -> None:
    done = gate("diff-config", "v0.19.1", "9.9.9", "--offline")
    assert done.code == 5
    assert "the arguments of 9.9.9" in done.err.splitlines()[-1]
    assert "are not known here" in done.err


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("sglang serve m", "no `vllm serve` found"), ("vllm serve 'm", "cannot be read")],
)
def test_what_is_no_launch_line_is_refused_before_anything_is_installed(gate: Gate, line: str, complaint: str) -> None:
    done = gate("diff-config", "9.9.8", "9.9.9", "--serve-command", line)
    assert done.code == 2
    assert complaint in done.error


def test_what_a_stored_build_says_is_never_obeyed(gate: Gate) -> None:
    evil = Argument(flags=("--seed",), default="\x1b]0;owned\x07\x1b[2J")
    old = a_build("1.0.0", seed=0)
    keep(gate, old, old.model_copy(update={"version": Version.parse("1.1.0"), "arguments": {"seed": evil}}))
    for format_ in ("table", "markdown", "json"):
        assert "\x1b" not in gate("diff-config", "1.0.0", "1.1.0", "--format", format_).out


def test_a_build_that_is_not_known_is_asked_once_and_kept(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that is already in the cache, whose Python answers as a build would."""
    from regress_gate.bench.provision import venv

    asked = gate.directory / "asked"
    answer: dict[str, Any] = a_build("1.1.0", seed=1).as_document() | {"missing": {}}
    python = gate.directory / "entry" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(asked)!r}, 'a').write('x')\n"
        f"sys.stdout.write({json.dumps(answer)!r})\n"
    )
    python.chmod(0o755)

    class Ready(venv.VenvEnvironment):
        def __init__(self, version: Version, path: Path) -> None:
            self.version, self.path = version, path

        def close(self) -> None:
            """Nothing is held."""

    def provision(self: object, version: Version, *, progress: object = None) -> Ready:  # noqa: ARG001
        return Ready(version, gate.directory / "entry")

    monkeypatch.setattr(venv.VenvProvisioner, "provision", provision)
    keep(gate, a_build("1.0.0", seed=0))
    for _ in range(2):
        done = gate("diff-config", "1.0.0", "1.1.0+cpu")
        assert done.code == 0
        assert "  --seed  0 → 1" in done.out.splitlines()
    assert asked.read_text() == "x"


def test_a_release_that_is_not_known_is_read_once_and_kept(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    from regress_gate.app import diff_config
    from regress_gate.vllm import release_tables
    from regress_gate.vllm.release_tables import ReadRelease

    monkeypatch.setattr(release_tables, "release_tables_directory", lambda: gate.directory / "tables")
    read: list[str] = []

    def read_release(version: str, *_: object) -> ReadRelease:
        read.append(version)
        return ReadRelease(version, f"vllm-{version}.whl", "00", a_build(version, max_num_seqs=8), {})

    monkeypatch.setattr(diff_config, "read_release", read_release)
    for _ in range(2):
        done = gate("diff-config", "9.9.8", "9.9.9", "--engine-arg", "max_num_seqs=4")
        assert (done.code, done.out.splitlines()[0]) == (0, "vLLM 9.9.8 → 9.9.9")
    assert read == ["9.9.8", "9.9.9"]
    checked = gate("check", "9.9.9", "--accelerator", "H100", "--engine-arg", "gone=4", "--offline", "--format", "json")
    assert checked.code == 1
    assert "9.9.9 has no --gone" in [reason["text"] for reason in checked.json["reasons"]]


def test_refresh_reads_what_is_published_and_not_known(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    from regress_gate.app import diff_config
    from regress_gate.vllm import release_tables
    from regress_gate.vllm.release_tables import ReadRelease

    monkeypatch.setattr(release_tables, "release_tables_directory", lambda: gate.directory / "tables")
    monkeypatch.setattr(diff_config, "published_versions", lambda *_: ["0.8.4", "0.19.1", "9.9.9"])

    def read_release(version: str, *_: object) -> ReadRelease:
        config = a_build(version, seed=0).model_copy(update={"unread": ("not followed: vllm.x:1",)})
        return ReadRelease(version, f"vllm-{version}.whl", "00", config, {})

    monkeypatch.setattr(diff_config, "read_release", read_release)
    written = gate("diff-config", "--refresh", "--write", "tables.json")
    assert (written.code, written.out) == (
        0,
        "9.9.9: 1 argument, 0 variables, 0 dependencies; not read: not followed: vllm.x:1\n",
    )
    table = json.loads((gate.directory / "tables.json").read_text())
    assert list(table["releases"])[-2:] == [str(release_tables.known_releases()[-1]), "9.9.9"]
    assert table["arguments"]["seed"][-1] == ["9.9.9", {"default": 0}]
    assert gate("diff-config", "--refresh").code == 0
    assert gate("diff-config", "--refresh").out == "all published releases are known\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["0.19.1"], "name two versions: BASE and CAND"),
        (["0.19.1", "0.20.0", "0.21.0"], "name two versions: BASE and CAND"),
        (["0.19.1", "0.20.0", "--write", "x"], "--write belongs to --refresh"),
        (["--refresh", "--offline"], "leave out --offline"),
        (["--refresh", "nightly"], "is not a vLLM version"),
        (["--refresh", "commit:0123abc"], "is no release"),
    ],
)
def test_what_cannot_be_meant_is_refused(gate: Gate, arguments: list[str], complaint: str) -> None:
    done = gate("diff-config", *arguments)
    assert done.code == 2
    assert complaint in done.err


def test_a_removed_variable_exits_1_and_the_server_would_start(gate: Gate) -> None:
    done = gate("diff-config", "v0.14.1", "v0.15.0", "--env", "VLLM_ATTENTION_BACKEND=FLASHINFER", "--format", "json")
    assert done.code == 1
    assert done.json["starts"] is True
    assert done.json["problems"] == [
        "0.15.0 does not read the variable VLLM_ATTENTION_BACKEND; it is now --attention-backend; 0.14.1 reads it"
    ]
    table = gate("diff-config", "v0.14.1", "v0.15.0", "--env", "VLLM_ATTENTION_BACKEND=FLASHINFER")
    assert "0.15.0 would start with your launch line, and ignore a part of it" in table.out.splitlines()


def test_a_build_that_was_asked_and_one_that_was_not_are_compared_by_one_table(gate: Gate) -> None:
    """0.19.1+cpu was asked and 0.20.0+cpu was not: what is installed and what is demanded are not compared."""
    done = gate("diff-config", "0.19.1+cpu", "0.20.0+cpu", "--format", "json")
    assert (done.json["baseline"]["version"], done.json["candidate"]["version"]) == ("0.19.1+cpu", "0.20.0+cpu")
    changed = [change for change in done.json["config_changes"] if change["kind"] == "dependency_changed"]
    assert [change["before"] for change in changed if change["name"] == "torch"] == ["==2.10.0+cpu"]
    asked = gate("diff-config", "0.19.1+cpu", "0.32.0+cpu", "--format", "json")
    torch = next(change for change in asked.json["config_changes"] if change["name"] == "torch")
    assert not str(torch["before"]).startswith("==")


def test_a_default_that_depends_on_the_platform_is_no_change(gate: Gate) -> None:
    done = gate("diff-config", "0.11.0", "0.33.0", "--format", "json")
    shown = json.dumps([[change["before"], change["after"]] for change in done.json["config_changes"]
                        if change["kind"].endswith("default_changed")])  # fmt: skip
    assert "<platform>" not in shown
    assert "<unknown>" not in shown
