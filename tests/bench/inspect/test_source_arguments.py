"""Arguments and variables read from sources: a small package that declares them as vLLM does, and the real releases."""

from textwrap import dedent
from typing import Any

import pytest

from regress_gate.bench.inspect.source_arguments import SourceTables, mentioned_variables, read_sources
from regress_gate.vllm.build_config import Argument

CONFIG = """
import enum
import os
from dataclasses import field
from typing import Any, ClassVar, Literal, Optional, Union, get_args
import torch
from pydantic import Field, SkipValidation
import vllm.envs as envs
from vllm.config.utils import config
from vllm.platforms import current_platform

Dtype = Literal["auto", "half"]
Wide = Literal["a", *get_args(Dtype)]

class Mode(enum.IntEnum):
    NONE = 0
    FULL = 3

class Backend(enum.Enum):
    FLASH = "x.Flash"
    TRITON = "x.Triton"

@config
class Passes:
    fuse: bool = Field(default=None)
    level: int = 2

@config
class Compilation:
    KINDS: ClassVar[int] = 3
    mode: Mode = Mode.FULL
    passes: Passes = field(default_factory=Passes)
    sizes: list[int] = field(default_factory=lambda: [1, 2 * 2])
    hidden: int = field(default=1, init=False)
    device: str = current_platform.device_type

@config
class SpeculativeConfig:
    method: str | None = None
    tokens: int = 2
    target: Model | None = None

@config
class Model:
    model: str = "org/model"
    dtype: Dtype = "auto"
    format: Wide | str = "a"
    seed: Optional[int] = None
    max_model_len: int = Field(default=None, ge=1)
    share: SkipValidation[float] = Field(default=0.9, gt=0)
    eager: bool = False
    \"\"\"Deprecated: use `--mode` instead. It will be removed in v9.0.\"\"\"
    prefix: bool | None = None
    names: Union[str, list[str], None] = None
    pair: tuple[int, int] = (1, 2)
    overrides: dict[str, Any] = field(default_factory=dict)
    backend: Backend | None = None
    token: bool | str | None = None
    loads: dict | str = "x"
    debug: bool = envs.VLLM_DEBUG
    root: str = os.path.expanduser("~/x")
"""
ARGUMENTS = """
import argparse
import json
from dataclasses import MISSING, dataclass, fields
from vllm.config import Compilation, Model
from vllm.config.utils import get_field

def optional_type(kind):
    return kind

def get_kwargs(cls):
    for field in fields(cls):
        name = field.name
        if contains_type(hints, int):
            sizes = {"batch"}
            if name == "max_model_len":
                kwargs[name]["type"] = human_readable_int_or_auto
            elif name in sizes:
                kwargs[name]["type"] = human_readable_int
        kwargs["nargs"] = "?"
    return kwargs

@dataclass
class EngineArgs:
    model: str = Model.model
    compilation: Compilation = get_field(Model, "overrides")

    @staticmethod
    def add_cli_args(parser):
        model_kwargs = get_kwargs(Model)
        group = parser.add_argument_group(title="Model", description=Model.__doc__)
        for name in ("model", "dtype", "format", "seed", "share", "eager", "prefix", "names", "pair", "overrides"):
            group.add_argument(f"--{name}", **model_kwargs[name])
        group.add_argument("--max-model-len", "-len", **{**model_kwargs["max_model_len"], "default": None})
        narrow = get_kwargs(Model)["dtype"]
        narrow["choices"].remove("half")
        group.add_argument("--narrow", **narrow)
        group.add_argument("--backend", **model_kwargs["backend"])
        group.add_argument("--token", **model_kwargs["token"])
        group.add_argument("--loads", **model_kwargs["loads"])
        group.add_argument("--debug", **model_kwargs["debug"])
        group.add_argument("--root", **model_kwargs["root"])
        if unknown_function():
            group.add_argument("--sometimes", type=int)
        parser.add_argument("--compilation", "-cc", type=optional_type(json.loads), default=None)
        parser.add_argument("--speculative-config", type=optional_type(json.loads), default=None)
        parser.add_argument("--quiet", action="store_true", help="DEPRECATED: has no effect.")
        parser.add_argument("--extra", nargs="*", default=argparse.SUPPRESS)
        return parser

class AsyncEngineArgs(EngineArgs):
    more: int = 1
"""
FRONTEND = """
from vllm.config.utils import config
from vllm.engine.arg_utils import AsyncEngineArgs

@config
class Base:
    host: str | None = None
    port: int = 8000

    @classmethod
    def customize(cls, kwargs):
        kwargs["port"]["type"] = str
        return kwargs

    @classmethod
    def add_cli_args(cls, parser):
        from vllm.engine.arg_utils import get_kwargs
        kwargs = cls.customize(get_kwargs(cls))
        for key, value in kwargs.items():
            flags = value.pop("flags", [])
            parser.add_argument(*flags, f"--{key.replace('_', '-')}", **value)
        return parser

@config
class Frontend(Base):
    api_key: list[str] | None = None

    @classmethod
    def customize(cls, kwargs):
        kwargs = super().customize(kwargs)
        del kwargs["api_key"]["nargs"]
        kwargs["api_key"]["action"] = "append"
        return kwargs

def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser = Frontend.add_cli_args(parser)
    return AsyncEngineArgs.add_cli_args(parser)
"""
ENVS = """
import os
import tempfile
from typing import TYPE_CHECKING
from vllm.platforms import current_platform
if TYPE_CHECKING:
    VLLM_DEBUG: bool = True

def maybe(value):
    if value is None:
        return None
    return int(value)

def with_choices(name, default, choices):
    def get():
        value = os.getenv(name)
        if value is None:
            return default
        raise ValueError
    return get

environment_variables = {
    "VLLM_DEBUG": lambda: bool(int(os.getenv("VLLM_DEBUG", "0"))),
    "VLLM_LEVEL": lambda: os.environ.get("VLLM_LEVEL", "INFO").lower(),
    "VLLM_FEW": lambda: maybe(os.getenv("VLLM_FEW", None)),
    "VLLM_KIND": with_choices("VLLM_KIND", "a", ["a", "b"]),
    "VLLM_SET": lambda: "VLLM_SET" in os.environ,
    "VLLM_PATH": lambda: os.path.join(tempfile.gettempdir(), "x"),
    "VLLM_FAST": lambda: current_platform.is_cuda(),
    "VLLM_BIG": lambda: 1 << 20,
    "VLLM_LIST": lambda: [x.strip() for x in os.getenv("VLLM_LIST", "a, b").split(",")],
    "VLLM_EVIL": lambda: __import__("os").system("touch /tmp/evil"),
}
"""
SOURCES = {
    "vllm/config/__init__.py": CONFIG,
    "vllm/config/utils.py": "def get_field(cls, name):\n    raise TypeError\n",
    "vllm/engine/arg_utils.py": ARGUMENTS,
    "vllm/entrypoints/openai/cli_args.py": FRONTEND,
    "vllm/envs.py": ENVS,
    "vllm/platforms/__init__.py": "current_platform = object()\n",
}


def read(**changed: str | None) -> SourceTables:
    """The tables of the small package; `envs="…"` replaces a file."""
    files: dict[str, str | None] = dict(SOURCES)
    for name, text in changed.items():
        path = next(path for path in files if name in path)
        files[path] = None if text is None else dedent(text)
    return read_sources(files.get)


@pytest.fixture(scope="module")
def arguments() -> dict[str, Argument]:
    tables = read()
    assert tables.problems == ()
    return dict(tables.arguments)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model", {"flags": ("--model",), "default": "org/model", "type": "str"}),
        ("dtype", {"default": "auto", "choices": ("auto", "half"), "type": "str"}),
        ("narrow", {"choices": ("auto",)}),
        ("format", {"choices": None, "names": ("a", "auto", "half")}),
        ("seed", {"type": "int", "optional": True, "default": None}),
        ("share", {"type": "float", "default": 0.9}),
        ("max_model_len", {"flags": ("--max-model-len", "-len"), "type": "size_or_auto", "default": None}),
        ("eager", {"flags": ("--eager", "--no-eager"), "values": "none", "default": False}),
        ("eager", {"deprecated": "Deprecated: use `--mode` instead. It will be removed in v9.0."}),
        ("prefix", {"flags": ("--prefix", "--no-prefix"), "default": None}),
        ("names", {"values": "many", "default": None}),
        ("pair", {"values": "many", "type": "int", "default": [1, 2]}),
        ("overrides", {"type": "json", "default": {}}),
        ("backend", {"names": ("FLASH", "TRITON"), "choices": None, "default": None}),
        ("token", {"flags": ("--token",), "values": "optional"}),
        ("loads", {"type": None, "default": "x"}),
        ("debug", {"default": False}),
        ("root", {"default": "<computed>"}),
        ("sometimes", {"type": "int"}),
        ("quiet", {"values": "none", "default": False, "deprecated": "DEPRECATED: has no effect."}),
        ("extra", {"values": "many", "default": None}),
        ("host", {"type": "str", "optional": True}),
        ("port", {"type": "str", "default": 8000}),
        ("api_key", {"values": "many"}),
        ("compilation", {"flags": ("--compilation", "-cc"), "type": "json", "optional": True}),
        ("compilation.mode", {"flags": ("--compilation.mode",), "default": 3}),
        ("compilation.passes", {"default": "<group>"}),
        ("compilation.passes.level", {"default": 2}),
        ("compilation.sizes", {"default": [1, 4]}),
        ("compilation.device", {"default": "<platform>"}),
    ],
)
def test_an_argument_is_what_argparse_would_make_of_it(
    arguments: dict[str, Argument], name: str, expected: dict[str, Any]
) -> None:
    assert {key: getattr(arguments[name], key) for key in expected} == expected


@pytest.mark.parametrize(
    ("decorators", "ignores"),
    [
        ("from dataclasses import dataclass\n@config\n@dataclass", False),
        ("from pydantic.dataclasses import dataclass\n@config\n@dataclass", True),
        ("from pydantic.dataclasses import dataclass\n@config\n@dataclass(config=ConfigDict(extra='forbid'))", False),
    ],
    ids=["of Python", "of pydantic", "of pydantic, strict"],
)
def test_what_becomes_a_class_only_in_the_engine_has_its_keys(decorators: str, ignores: bool) -> None:
    tables = read(**{"config/__init__": CONFIG.replace("@config\nclass Spec", f"{decorators}\nclass Spec")})
    drafts = {name: one for name, one in tables.arguments.items() if name.startswith("speculative_config")}
    assert {name: one.default for name, one in drafts.items()} == {
        "speculative_config": None,
        "speculative_config.method": None,
        "speculative_config.tokens": 2,
        "speculative_config.target": None,
    }
    assert drafts["speculative_config"].ignores_unknown is ignores


def test_what_is_no_flag_is_left_out(arguments: dict[str, Argument]) -> None:
    assert "model_tag" not in arguments
    assert "compilation.hidden" not in arguments
    assert "compilation.KINDS" not in arguments


def test_variables_have_their_value_with_nothing_set() -> None:
    assert read().env == {
        "VLLM_BIG": 1048576,
        "VLLM_DEBUG": False,
        "VLLM_EVIL": "<unknown>",
        "VLLM_FAST": "<platform>",
        "VLLM_FEW": None,
        "VLLM_KIND": "a",
        "VLLM_LEVEL": "info",
        "VLLM_LIST": ["a", "b"],
        "VLLM_PATH": "<computed>",
        "VLLM_SET": False,
    }


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"cli_args": None}, "no function that makes the parser"),
        ({"cli_args": "def make_arg_parser(parser):\n    return outside(parser)\n"}, "not followed"),
        ({"cli_args": "def make_arg_parser(parser):\n    parser.add_argument(*names())\n"}, "is not known"),
        (
            {"cli_args": "def make_arg_parser(parser):\n    for x in some():\n        parser.add_argument('--x')\n"},
            "not f",
        ),
        ({"cli_args": "def make_arg_parser(parser):\n    raise ValueError\n"}, "cannot be followed"),
        ({"cli_args": "def make_arg_parser(parser)"}, "no function that makes the parser"),
        ({"envs": "x = 1"}, "no table of variables"),
    ],
)
def test_what_cannot_be_followed_is_said(files: dict[str, str | None], complaint: str) -> None:
    assert [problem for problem in read(**files).problems if complaint in problem]


@pytest.mark.parametrize(
    "body",
    [
        "x = 10 ** 10 ** 10",
        "x = 'a' * 10 ** 12",
        "x = [0] * 10 ** 12",
        "x = list(range(10 ** 12))",
        "def f():\n    return f()\nx = f()",
        "x = [[[[a for a in range(9999)] for b in range(9999)] for c in range(9999)] for d in range(9999)]",
        "x = x",
        "import vllm.envs as x",
        "x = ().__class__.__base__.__subclasses__()",
        "x = '{0.__class__}'.format(1)",
    ],
)
def test_hostile_sources_end_soon_and_are_unknown(body: str) -> None:
    text = f"{body}\nenvironment_variables = {{'VLLM_X': lambda: x}}\n"
    tables = read(envs=text)
    assert tables.env.get("VLLM_X", "<unknown>") == "<unknown>" or tables.problems


def test_mentioned_variables_are_whole_texts() -> None:
    assert mentioned_variables(["os.environ['VLLM_A'] # VLLM_B", 'x = "VLLM_C is set"', 'get("VLLM_D")']) == {
        "VLLM_A",
        "VLLM_D",
    }
