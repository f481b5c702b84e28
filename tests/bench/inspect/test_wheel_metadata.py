"""What METADATA demands: each kind of line, and lines that anybody may write."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from regress_gate.bench.inspect.wheel_metadata import (
    ANY_MACHINE,
    X86_64,
    DemandedVersions,
    demanded_versions,
    linux_machine,
)


def demanded(*lines: str, machines: Sequence[dict[str, str]] | None = None) -> DemandedVersions | None:
    text = "Metadata-Version: 2.4\nName: vllm\n" + "".join(f"Requires-Dist: {line}\n" for line in lines)
    return demanded_versions(text, machines or [X86_64])


def test_names_are_normalised_and_lines_of_one_package_are_joined() -> None:
    assert demanded("FlashInfer.Python ==0.6.8", "flashinfer_python>=0.6", "numpy") == {
        "flashinfer-python": SpecifierSet("==0.6.8,>=0.6"),
        "numpy": SpecifierSet(),
    }


def test_extras_and_other_machines_are_not_demanded() -> None:
    assert demanded("ray>=2; extra == 'ray'", "triton==3; platform_machine == 's390x'", "torch[opt]==2.9") == {
        "torch": SpecifierSet("==2.9")
    }
    assert demanded("ray>=2; extra == 'ray'") == {}


def test_one_of_several_lines_counts_on_each_machine() -> None:
    lines = ("torch==2.9; platform_machine == 'x86_64'", "torch==2.9; platform_machine != 'x86_64'")
    assert demanded(*lines, machines=ANY_MACHINE) == {"torch": SpecifierSet("==2.9")}
    other = (lines[0], "torch==2.8; platform_machine != 'x86_64'")
    assert demanded(*other, machines=ANY_MACHINE) == {"torch": None}
    assert demanded(*other, machines=[linux_machine("aarch64", "3.12")]) == {"torch": SpecifierSet("==2.8")}


@pytest.mark.parametrize(
    "line", ["torch @ https://example.org/torch.whl", "torch===2.9-own", "torch==2.9; sys_platform ~= 'linux'"]
)
def test_what_names_no_comparable_versions_is_not_known(line: str) -> None:
    assert demanded(line, "torch>=2") == {"torch": None}


@pytest.mark.parametrize(
    "metadata", [None, "", "Name: vllm\n", "Name: vllm\nRequires-Dist: torch==2.9\nRequires-Dist: !\n"]
)
def test_missing_and_unreadable_metadata_is_not_known(metadata: str | None) -> None:
    assert demanded_versions(metadata, [X86_64]) is None


@given(
    st.lists(
        st.text(max_size=40) | st.from_regex(r"[a-z]{1,5}(==|<|~=)[0-9.]{1,5}(; ?[a-z_]{5,16} ?(<|==|in) ?'.{0,5}')?")
    )
)
def test_whatever_the_lines_say_nothing_is_raised(lines: list[str]) -> None:
    found = demanded(*lines, machines=ANY_MACHINE)
    assert found is None or all(versions is None or isinstance(versions, SpecifierSet) for versions in found.values())
