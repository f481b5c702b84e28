"""Whether a build has an issue, by its source: each kind of condition, what is unknown, and what a record may say."""

from collections.abc import Mapping
from typing import Any

import pytest

from regress_gate.bench.inspect.wheel_metadata import ANY_MACHINE, demanded_versions
from regress_gate.errors import InputError
from regress_gate.known.matching.versions import BuildSource, all_hold
from regress_gate.model.documents import Document, validate
from regress_gate.model.issue import CodeCondition, KnownIssue
from regress_gate.model.version import Version
from regress_gate.vllm.build_config import Argument, BuildConfig
from tests.factories.records import record, record_data

MODULE = """
import torch

class Slow:
    def run(self):
        return copy_kv_blocks(1)

    def stop(self): ...

@register("fast")
class Fast:
    def run(self):
        return swap_kv_blocks(2)

def copy_all(): ...

if torch:
    def platform_only(): return wide_kernel
"""


def source(
    files: Mapping[str, str] | None = None,
    config: BuildConfig | None = None,
    unread: tuple[str, ...] = (),
    metadata: str | None = None,
) -> BuildSource:
    known = config or BuildConfig(
        version=Version.parse("0.20.0"),
        arguments={
            "async_scheduling": Argument(flags=("--async-scheduling",), default=True),
            "moe_backend": Argument(flags=("--moe-backend",), default=None),
            "download_dir": Argument(flags=("--download-dir",), default="<platform>"),
            "gpu_memory_utilization": Argument(flags=("--gpu-memory-utilization",), default=0.92),
        },
        env={"VLLM_USE_DEEP_GEMM": True, "VLLM_MOE_CHUNK": 65536},
        packages={},
        unread=unread,
    )
    return BuildSource(
        (files or {"vllm/moe.py": MODULE}).get, lambda: known, lambda: demanded_versions(metadata, ANY_MACHINE)
    )


def holds(*, of: BuildSource | None = None, **condition: Any) -> bool | None:
    return (of or source()).holds(CodeCondition.model_validate(condition))


def test_a_text_is_present_or_absent_in_a_file() -> None:
    assert holds(file="vllm/moe.py", present="copy_kv_blocks") is True
    assert holds(file="vllm/moe.py", present="no_such_name") is False
    assert holds(file="vllm/moe.py", present=["no_such_name", "swap_kv_blocks"]) is True
    assert holds(file="vllm/moe.py", absent="no_such_name") is True
    assert holds(file="vllm/moe.py", absent=["no_such_name", "swap_kv_blocks"]) is False


def test_a_missing_file_contains_nothing() -> None:
    assert holds(file="vllm/other.py", present="copy_kv_blocks") is False
    assert holds(file="vllm/other.py", absent="copy_kv_blocks") is True


def test_only_the_named_class_function_or_method_counts() -> None:
    assert holds(file="vllm/moe.py", present="copy_kv_blocks", within="class Slow") is True
    assert holds(file="vllm/moe.py", present="copy_kv_blocks", within="class Fast") is False
    assert holds(file="vllm/moe.py", present="copy_kv_blocks", within="def Slow.run") is True
    assert holds(file="vllm/moe.py", absent="copy_kv_blocks", within="def Slow.stop") is True
    assert holds(file="vllm/moe.py", present='register("fast")', within="class Fast") is True
    assert holds(file="vllm/moe.py", present="wide_kernel", within="def platform_only") is True
    assert holds(file="vllm/moe.py", present="copy_kv_blocks", within="class Gone") is False
    assert holds(file="vllm/moe.py", absent="copy_kv_blocks", within="class Gone") is True


def test_a_form_feed_or_windows_line_ends_shift_no_lines() -> None:
    files = {"vllm/moe.py": "first = 1\n\x0c\nclass A:\n    one = 1\n\nclass B:\n    two = 2\n".replace("\n", "\r\n")}
    assert holds(of=source(files), file="vllm/moe.py", present="two = 2", within="class B") is True
    assert holds(of=source(files), file="vllm/moe.py", present="one = 1", within="class B") is False


@pytest.mark.parametrize("text", ["class Broken(:\n", "(" * 50_000, "x = '\x00'"])
def test_what_is_no_python_says_nothing_of_its_classes(text: str) -> None:
    broken = source({"vllm/moe.py": text})
    assert holds(of=broken, file="vllm/moe.py", present="anything", within="class Broken") is None
    assert holds(of=broken, file="vllm/moe.py", present="anything") is False


def test_defaults_of_arguments_and_variables() -> None:
    assert holds(argument="async_scheduling", default=True) is True
    assert holds(argument="async_scheduling", default=False) is False
    assert holds(argument="gpu_memory_utilization", default=0.92) is True
    assert holds(argument="gpu_memory_utilization", default=0.9) is False
    assert holds(argument="moe_backend", default=None) is True
    assert holds(argument="async_scheduling", default=None) is False
    assert holds(argument="missing", default=True) is False
    assert holds(env="VLLM_USE_DEEP_GEMM", default="1") is True
    assert holds(env="VLLM_USE_DEEP_GEMM", default="0") is False
    assert holds(env="VLLM_MOE_CHUNK", default=65536) is True
    assert holds(env="VLLM_MISSING", default="1") is False


def test_defaults_that_are_not_known_decide_nothing() -> None:
    assert holds(argument="download_dir", default="/tmp") is None
    assert holds(of=BuildSource({}.get, lambda: None, lambda: None), env="VLLM_USE_DEEP_GEMM", default="1") is None
    partly = source(unread=("arguments: a decorator",))
    assert holds(of=partly, argument="missing", default=True) is None


METADATA = """Metadata-Version: 2.4
Name: vllm
Requires-Dist: torch==2.11.0+cpu
Requires-Dist: Flashinfer_Python==0.6.8.post1
Requires-Dist: transformers!=5.0.*,!=5.5.0,>=4.56.0
Requires-Dist: numpy
Requires-Dist: xgrammar<1.0.0,>=0.1.32; platform_machine == "x86_64" or platform_machine == "aarch64"
Requires-Dist: triton==3.6.0; platform_machine == "x86_64"
Requires-Dist: setuptools<81.0.0,>=77.0.3; python_version > "3.11"
Requires-Dist: ray>=2.48; extra == "ray"
Requires-Dist: cumm-cu11 @ https://example.org/cumm.whl
"""


@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [
        ("torch", "==2.11.0", True),
        ("torch", ">=2.11,<2.12", True),
        ("torch", "<2.11", False),
        ("flashinfer-python", ">=0.6.8,<0.6.9", True),
        ("flashinfer-python", ">=0.6.9", False),
        ("transformers", ">=5", True),
        ("transformers", "==5.0.*", False),
        ("transformers", "<4.56", False),
        ("numpy", ">=2", True),
        ("xgrammar", "<0.1.32", False),
        ("xgrammar", "==0.2.8", True),
        ("triton", "==3.6.0", None),
        ("setuptools", "<81", None),
        ("cumm-cu11", ">=1", None),
        ("ray", ">=1", False),
        ("amd-aiter", ">=0", False),
    ],
)
def test_a_requirement_holds_if_it_allows_such_a_version(package: str, version: str, expected: bool | None) -> None:
    assert holds(of=source(metadata=METADATA), requires=package, version=version) is expected


def test_requirements_that_cannot_be_read_are_not_known() -> None:
    assert holds(requires="torch", version="==2.11.0") is None
    for metadata in ("", "Name: vllm\n", METADATA + "Requires-Dist: not a requirement!\n"):
        assert holds(of=source(metadata=metadata), requires="ray", version=">=1") is None


def test_all_conditions_must_hold() -> None:
    assert all_hold([True, True]) is True
    assert all_hold([True, None, False]) is False
    assert all_hold([True, None]) is None
    assert all_hold([]) is None
    both = record(
        code=[{"file": "vllm/moe.py", "present": "copy_kv_blocks"}, {"argument": "async_scheduling", "default": True}]
    )
    assert source().has_fault(both) is True
    assert source().has_fault(record()) is None, "a record without conditions says nothing"


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ({"file": "vllm/moe.py"}, "a condition on file has exactly one of: present, absent"),
        ({"file": "vllm/moe.py", "present": "abc", "absent": "def"}, "exactly one of: present, absent"),
        ({"file": "vllm/moe.py", "default": 1}, "a condition on file has exactly one of: present, absent"),
        ({"file": "vllm/moe.py", "present": None}, "present is a text"),
        ({"argument": "x", "env": "X", "default": 1}, "exactly one of file, argument, env, requires"),
        ({"requires": "torch"}, "a condition on requires has exactly one of: version"),
        ({"requires": "torch", "default": "2"}, "a condition on requires has exactly one of: version"),
        ({"requires": "torch", "version": None}, "version is a PEP 440 specifier set"),
        ({"requires": "torch", "version": ""}, "an empty specifier set matches every version"),
        ({"requires": "torch", "version": "2.11"}, "is not a PEP 440 specifier set"),
        ({"requires": "Flashinfer_Python", "version": "<1"}, "match pattern"),
        ({"file": "vllm/moe.py", "version": "<1"}, "a condition on file has exactly one of: present, absent"),
        ({"argument": "x"}, "a condition on argument has exactly one of: default"),
        ({"env": "X", "default": "1", "within": "class A"}, "within belongs to a file"),
        ({"file": "vllm/moe.py", "present": "a" * 201}, "at most 200 characters"),
        ({"file": "vllm/moe.py", "present": "one\ntwo"}, "match pattern"),
        ({"file": "../moe.py", "present": "abc"}, "match pattern"),
        ({"file": "vllm/../moe.py", "present": "abc"}, "match pattern"),
        ({"file": "vllm/moe.py", "present": "abc", "within": "Foo"}, "match pattern"),
        ({"file": "vllm/moe.py", "presnt": "abc"}, "did you mean 'present'"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(condition: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as error:
        validate(KnownIssue, Document(record_data(code=[condition]), "r.yaml", {}))
    assert complaint in str(error.value)


def test_a_dump_keeps_exactly_what_was_given() -> None:
    code = [{"argument": "moe_backend", "default": None}, {"file": "vllm/moe.py", "absent": ["one_name"]}]
    issue = record(code=code)
    assert issue.model_dump(mode="json", exclude_none=True, exclude_defaults=True)["code"] == code
    assert KnownIssue.model_validate_json(issue.model_dump_json(exclude_none=True)) == issue
