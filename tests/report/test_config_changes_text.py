"""Changes of the configuration as a reader sees them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regress_gate.gate.config_changes import ChangeKind, ConfigChange, Matters
from regress_gate.report.config_changes import config_markdown, config_table
from regress_gate.report.interface import Options

from .strategies import hostile_text

B, A, I = Matters.BLOCKS, Matters.AFFECTS, Matters.INFORMS  # noqa: E741
CHANGES = [
    ConfigChange(ChangeKind.FLAG_REMOVED, "--gone", 2, None, B, "0.20.0 has no --gone"),
    ConfigChange(ChangeKind.FLAG_RENAMED, "--old", 2, "--new", B, "0.20.0 has no --old; it is --new now"),
    ConfigChange(ChangeKind.CHOICES_CHANGED, "--backend", "a", None, B, "in 0.20.0 --backend cannot be 'a'"),
    ConfigChange(ChangeKind.RESOLVED_CHANGED, "attention backend", "FLASH_ATTN", "FLASHINFER", A),
    ConfigChange(ChangeKind.DEFAULT_CHANGED, "--max-num-seqs", 256, None, A),
    ConfigChange(ChangeKind.ENV_DEFAULT_CHANGED, "VLLM_X", False, True, A),
    ConfigChange(ChangeKind.ENV_REMOVED, "VLLM_MINE", 1, None, A, "you set it, and it does nothing any more"),
    ConfigChange(
        ChangeKind.LAUNCH_REFUSED, "--typo", 1, None, I, "0.20.0 has no --typo; nor does the baseline take it"
    ),
    ConfigChange(ChangeKind.DEFAULT_CHANGED, "--seed", 0, 1, I, "you set it"),
    ConfigChange(ChangeKind.DEFAULT_CHANGED, "--spec.level", "", ["x"], I),
    ConfigChange(ChangeKind.FLAG_REMOVED, "--a-group-with-a-long-name.and_a_key_of_it", None, None, I),
    ConfigChange(ChangeKind.VALUE_CHANGED, "--quick", "none", "one", I),
    ConfigChange(ChangeKind.ENV_REMOVED, "VLLM_A", 1, None, I),
    ConfigChange(ChangeKind.ENV_REMOVED, "VLLM_B", 1, None, I),
    ConfigChange(ChangeKind.DEPENDENCY_CHANGED, "torch", "2.10.0", "2.13.0", I),
    ConfigChange(ChangeKind.DEPENDENCY_CHANGED, "aiohttp", "3", None, I),
    ConfigChange(ChangeKind.FLAG_ADDED, "--shiny", None, "x", I),
    ConfigChange(ChangeKind.ENV_ADDED, "VLLM_NEW", None, 0, I),
]
HEAD, VERDICT = "vLLM 0.19.1 → 0.20.0", "your launch line would not start on 0.20.0"
TABLE = """\
vLLM 0.19.1 → 0.20.0
your launch line would not start on 0.20.0

Keeps your launch line from starting (3)
  --gone     there is no such argument any more
  --old      now --new
  --backend  in 0.20.0 --backend cannot be 'a'

Taken by neither version (1)
  --typo  0.20.0 has no --typo; nor does the baseline take it

Yours, and no longer what they were (1)
  VLLM_MINE  you set it, and it does nothing any more

Resolved otherwise from the same arguments (1)
  attention backend  FLASH_ATTN → FLASHINFER

Changed defaults of what you have not set (2)
  --max-num-seqs  256 → none
  VLLM_X          false → true

Changed defaults of what you set (1)
  --seed  0 → 1

Removed, renamed and deprecated arguments (1)
  --a-group-with-a-long-name.and_a_key_of_it
      removed

Changed choices and values (1)
  --quick  values taken: none → one

Changed defaults of what is off or without effect (1)
  1 change; --all lists it

Removed variables (2)
  VLLM_A, VLLM_B

Dependencies (2)
  torch  2.10.0 → 2.13.0
  and 1 other; --all lists it

New arguments and variables (2)
  2 changes; --all lists them
"""


def test_the_table_tells_what_breaks_first() -> None:
    assert config_table(CHANGES, Options(width=80), head=HEAD, verdict=VERDICT) == TABLE


def test_everything_leaves_nothing_counted() -> None:
    text = config_table(CHANGES, Options(width=80, verbose=True), head=HEAD, verdict=VERDICT)
    assert "--all" not in text
    assert '--spec.level  "" → ["x"]' in text
    assert "aiohttp  3 → not there" in text
    assert "--shiny   x" in text


def test_without_changes_it_says_so() -> None:
    assert config_table([], Options(), head=HEAD, verdict=None) == f"{HEAD}\n\nnothing has changed\n"
    assert config_markdown([], Options(), head=HEAD, verdict=None).endswith("Nothing has changed.\n")


def test_markdown_has_the_same_sections() -> None:
    text = config_markdown(CHANGES, Options(), head=HEAD, verdict=VERDICT)
    titles = [line for line in TABLE.splitlines() if line.endswith(")") and not line.startswith(" ")]
    assert [line.removeprefix("### ") for line in text.splitlines() if line.startswith("###")] == titles
    assert "| attention backend | FLASH&#95;ATTN → FLASHINFER |" in text.replace("FLASH_ATTN", "FLASH&#95;ATTN")


@given(hostile_text, st.sampled_from(list(ChangeKind)), st.sampled_from(list(Matters)))
@pytest.mark.parametrize("width", [40, 100])
def test_what_a_build_says_is_never_obeyed(width: int, text: str, kind: ChangeKind, matters: Matters) -> None:
    change = ConfigChange(kind, text, text, [text], matters, text)
    table = config_table([change], Options(width=width, verbose=True), head=text, verdict=text)
    assert all(cell_len(line) <= width for line in table.splitlines())
    assert not [sign for sign in table if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
    config_markdown([change], Options(), head=text, verdict=text)
