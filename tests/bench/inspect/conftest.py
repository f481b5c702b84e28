"""A directory that looks like a virtual environment, with a small stand-in for vLLM in it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ENVS = """
import os, tempfile, random
environment_variables = {
    "VLLM_PLAIN": lambda: int(os.getenv("VLLM_PLAIN", "3")),
    "VLLM_UNSET": lambda: os.getenv("VLLM_UNSET"),
    "VLLM_CACHE_ROOT": lambda: os.path.expanduser("~/.cache/vllm"),
    "VLLM_THREADS": lambda: max(1, os.cpu_count() // 2),
    "VLLM_RPC_BASE_PATH": lambda: tempfile.gettempdir(),
    "VLLM_BROKEN": lambda: 1 / 0,
}
"""
ARG_UTILS = """
import dataclasses
from typing import Optional

@dataclasses.dataclass
class PassConfig:
    fuse: bool = False

@dataclasses.dataclass
class CompilationConfig:
    mode: int = 3
    pass_config: PassConfig = dataclasses.field(default_factory=PassConfig)
    sizes: list = dataclasses.field(default_factory=lambda: [1, 2])
    seen: int = dataclasses.field(default=0, init=False)

@dataclasses.dataclass
class KVConfig:
    role: str

@dataclasses.dataclass
class AsyncEngineArgs:
    compilation_config: CompilationConfig = dataclasses.field(default_factory=CompilationConfig)
    kv_config: Optional[KVConfig] = None
    other: "OnlyForTypeCheckers" = None
"""
CONFIG = """
import dataclasses

@dataclasses.dataclass
class Target:
    size: int = 1

@dataclasses.dataclass
class SpeculativeConfig:
    method: str = None
    target: Target = None
"""
CLI_ARGS = """
import argparse, os, sys
from vllm.engine.arg_utils import CompilationConfig

def make_arg_parser(parser):
    print("vLLM talks to standard output")
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--max-num-seqs", "-mns", type=int, default=256, help="How many. %% of them.")
    parser.add_argument("--eager", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--dtype", choices=["half", "auto"], default="auto")
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--old", help="An old one. This is deprecated and will be removed in v0.20. Use --new instead.")
    parser.add_argument("--allow-deprecated-things", action="store_true")
    parser.add_argument("--directory", default=os.path.expanduser("~/models"))
    parser.add_argument("--plugins", default={"b", "a"})
    parser.add_argument("--compilation-config", "-cc", default=CompilationConfig())
    parser.add_argument("--kv-config", default=None)
    parser.add_argument("--speculative-config", default=None)
    return parser
"""
SERVE = """
from vllm.entrypoints.openai.cli_args import make_arg_parser

class Serve:
    def subparser_init(self, subparsers):
        parser = make_arg_parser(subparsers.add_parser("serve"))
        parser.add_argument("--grpc", action="store_true")
        return parser

def cmd_init():
    return [Serve()]
"""
FILES = {
    "vllm/__init__.py": "",
    "vllm/config.py": CONFIG,
    "vllm/envs.py": ENVS,
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": ARG_UTILS,
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/cli/__init__.py": "",
    "vllm/entrypoints/cli/serve.py": SERVE,
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/cli_args.py": CLI_ARGS,
    "vllm/utils/__init__.py": "",
    "vllm/utils/argparse_utils.py": "from argparse import ArgumentParser as FlexibleArgumentParser\n",
    "vllm-0.19.1+cpu.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.19.1+cpu\n",
}
MakePython = Callable[..., Path]


@pytest.fixture
def make_python(tmp_path: Path) -> MakePython:
    """Makes the environment, with some of its files otherwise or (None) missing; gives its interpreter."""

    def make(changed: Mapping[str, str | None] | None = None) -> Path:
        for name, text in {**FILES, **(changed or {})}.items():
            if text is not None:
                path = tmp_path / "venv" / "lib" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        return write_python(
            tmp_path / "venv",
            f"import runpy, sys\nsys.path.insert(0, {str(tmp_path / 'venv' / 'lib')!r})\n"
            "program = sys.argv[2]\nsys.argv = [program]\nrunpy.run_path(program, run_name='__main__')\n",
        )

    return make


def write_python(venv: Path, program: str) -> Path:
    """An "interpreter" that runs a program of ours, whatever it is asked to run."""
    path = venv / "bin" / "python"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    path.chmod(0o755)
    return path
