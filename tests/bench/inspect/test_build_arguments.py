"""Reading arguments from the Python of an environment: with a small stand-in for vLLM, and failures."""

import json
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from regress_gate.bench.inspect import installed_build as program
from regress_gate.bench.inspect import probe
from regress_gate.bench.inspect.installed_build import inspect_environment, inspect_python, run_program
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.model.version import Version
from regress_gate.vllm.build_config import COMPUTED, Argument, BuildConfig
from tests.fake_vllm.environment import FakeEnvironment

from .conftest import MakePython, write_python

VERSION = Version.parse("0.19.1+cpu")


def test_the_arguments_of_the_serve_command(make_python: MakePython) -> None:
    arguments = inspect_python(make_python()).arguments
    assert arguments["max_num_seqs"] == Argument(flags=("--max-num-seqs", "-mns"), default=256)
    assert arguments["eager"] == Argument(flags=("--eager", "--no-eager"), default=False, values="none")
    assert arguments["dtype"] == Argument(flags=("--dtype",), default="auto", choices=("auto", "half"))
    assert arguments["names"].values == "many"
    assert arguments["plugins"].default == ["a", "b"]
    assert arguments["grpc"].values == "none", "what the command itself adds is there too"
    assert "model_tag" not in arguments
    assert "help" not in arguments


def test_a_type_that_cannot_be_resolved_is_logged(make_python: MakePython) -> None:
    python = make_python()
    command = [str(python), "-I", probe.__file__]
    said = run_program(command, python.parent.parent, environ=os.environ, time_limit=60, max_output=2**20)
    assert said.code == 0
    assert "the type of other, OnlyForTypeCheckers, cannot be read: NameError" in said.log


def test_the_text_of_a_deprecation_is_kept(make_python: MakePython) -> None:
    arguments = inspect_python(make_python()).arguments
    assert arguments["old"].deprecated == "This is deprecated and will be removed in v0.20. Use --new instead."
    assert arguments["allow_deprecated_things"].deprecated is None


def test_keys_of_groups_are_arguments_of_their_own(make_python: MakePython) -> None:
    arguments = inspect_python(make_python()).arguments
    found = {name: one.default for name, one in arguments.items() if name.startswith(("compilation", "kv"))}
    assert found == {
        "compilation_config": "<group>",
        "compilation_config.mode": 3,
        "compilation_config.pass_config": "<group>",
        "compilation_config.pass_config.fuse": False,
        "compilation_config.sizes": [1, 2],
        "kv_config": None,
        "kv_config.role": "<required>",
    }
    assert arguments["compilation_config.mode"].flags == ("--compilation-config.mode",)


def test_what_becomes_a_class_only_in_the_engine_has_its_keys(make_python: MakePython) -> None:
    arguments = inspect_python(make_python()).arguments
    drafts = [name for name in arguments if name.startswith("speculative_config")]
    assert drafts == ["speculative_config", "speculative_config.method", "speculative_config.target"]


def test_a_build_without_that_class_has_only_the_argument(make_python: MakePython) -> None:
    arguments = inspect_python(make_python({"vllm/config.py": "raise ImportError\n"})).arguments
    assert [name for name in arguments if name.startswith("speculative_config")] == ["speculative_config"]


def test_defaults_that_depend_on_the_machine_are_marked(make_python: MakePython) -> None:
    config = inspect_python(make_python())
    assert config.arguments["directory"].default == COMPUTED
    assert config.env == {
        "VLLM_PLAIN": 3,
        "VLLM_UNSET": None,
        "VLLM_CACHE_ROOT": COMPUTED,
        "VLLM_THREADS": COMPUTED,
        "VLLM_RPC_BASE_PATH": COMPUTED,
        "VLLM_BROKEN": "<ZeroDivisionError>",
    }


def test_the_callers_settings_do_not_change_defaults(make_python: MakePython, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLAIN", "77")
    monkeypatch.setenv("VLLM_UNSET", "secret")
    config = inspect_python(make_python())
    assert (config.env["VLLM_PLAIN"], config.env["VLLM_UNSET"]) == (3, None)


def test_the_version_is_the_installed_one_unless_given(make_python: MakePython) -> None:
    python = make_python()
    assert inspect_python(python).version == VERSION
    assert inspect_python(python, Version.parse("commit:0123abc+cpu")).version == Version.parse("commit:0123abc+cpu")
    assert inspect_python(python).packages["vllm"] == "0.19.1+cpu"


@pytest.mark.parametrize("text", [None, "raise RuntimeError('moved')\n"])
def test_without_the_table_of_variables_there_are_still_arguments(make_python: MakePython, text: str | None) -> None:
    said: list[str] = []
    config = inspect_python(make_python({"vllm/envs.py": text}), progress=said.append)
    assert config.arguments["max_num_seqs"].default == 256
    assert config.env == {}
    assert "gives no env (" in said[-1]


def test_a_parser_that_has_moved_is_found(make_python: MakePython) -> None:
    from .conftest import CLI_ARGS

    moved = {
        "vllm/entrypoints/cli/serve.py": None,
        "vllm/entrypoints/openai/cli_args.py": None,
        "vllm/entrypoints/launchers/cli_args.py": CLI_ARGS,
    }
    assert inspect_python(make_python(moved)).arguments["max_num_seqs"].default == 256


def test_no_arguments_and_no_variables_is_an_error(make_python: MakePython) -> None:
    broken = {"vllm/__init__.py": "raise ImportError('libcuda.so.1 is missing')\n"}
    with pytest.raises(ProvisionError, match=r"cannot be read: no arguments \(ImportError: libcuda"):
        inspect_python(make_python(broken))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import sys; sys.exit('out of memory')", "cannot be read: out of memory"),
        ("pass", "cannot be read"),
        ("print('no JSON')", "cannot be parsed"),
        ("print('{}')", "cannot be parsed"),
        ("print('[' * 100000)", "cannot be parsed"),
        ('print(\'{"missing": {}, "arguments": {"a": 1}}\')', "cannot be parsed"),
    ],
)
def test_an_invalid_answer_is_an_error(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ProvisionError) as error:
        inspect_python(write_python(tmp_path, text + "\n"), VERSION)
    assert complaint in str(error.value)
    assert str(error.value).startswith("the arguments of 0.19.1+cpu ")
    assert "\n" not in str(error.value)


def test_a_missing_python_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProvisionError, match="does not start"):
        inspect_python(tmp_path / "bin" / "python", VERSION)


def test_a_hanging_python_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    python = write_python(
        tmp_path,
        "import os, pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('still compiling', file=sys.stderr, flush=True)\ntime.sleep(600)\n",
    )
    with pytest.raises(ProvisionError, match="were not read within 5 s: still compiling"):
        inspect_python(python, VERSION, time_limit=5)
    assert [pid for pid in map(int, pids.read_text().split()) if _runs(pid)] == []


def _runs(pid: int) -> bool:
    """Whether it still runs after a while: a killed process may take a moment to go."""
    for _ in range(100):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.1)
    return True


def test_only_an_environment_of_the_tool_can_be_inspected() -> None:
    with pytest.raises(
        ProvisionError, match=r"the arguments of 0\.19\.1\+cpu cannot be read: it is not in an environment of"
    ):
        inspect_environment(FakeEnvironment(VERSION, {}))


def test_the_program_writes_a_file_that_can_be_shipped(
    make_python: MakePython, capsys: pytest.CaptureFixture[str]
) -> None:
    venv = make_python().parent.parent
    for directory in (venv, venv.parent):  # an environment, and an entry of the cache
        assert program.main([str(directory)]) == 0
        written: Any = json.loads(capsys.readouterr().out)
        assert BuildConfig.from_document(written).version == VERSION
    assert program.main([]) == 2
    assert program.main([os.devnull]) == 4
    assert "does not start" in capsys.readouterr().err
