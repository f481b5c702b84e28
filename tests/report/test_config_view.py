"""Changes of the configuration as a reader sees them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind
from regress_gate.gate.launch_line import LaunchProblem, LaunchTest, RefusalKind
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from regress_gate.report import RenderOptions, render
from regress_gate.report.views import wording
from regress_gate.report.views.config_view import ConfigChangesView

from .strategies import hostile_text

B, A, I = ChangeRelevance.BLOCKS, ChangeRelevance.AFFECTS, ChangeRelevance.INFORMS  # noqa: E741
CHANGES = [
    ConfigChange(ConfigChangeKind.FLAG_REMOVED, "--gone", 2, None, B, "0.20.0 has no --gone"),
    ConfigChange(ConfigChangeKind.FLAG_RENAMED, "--old", 2, "--new", B, "0.20.0 has no --old; it is --new now"),
    ConfigChange(ConfigChangeKind.CHOICES_CHANGED, "--backend", "a", None, B, "in 0.20.0 --backend cannot be 'a'"),
    ConfigChange(ConfigChangeKind.RESOLVED_CHANGED, "attention backend", "FLASH_ATTN", "FLASHINFER", A),
    ConfigChange(ConfigChangeKind.DEFAULT_CHANGED, "--max-num-seqs", 256, None, A),
    ConfigChange(ConfigChangeKind.ENV_DEFAULT_CHANGED, "VLLM_X", False, True, A),
    ConfigChange(ConfigChangeKind.ENV_REMOVED, "VLLM_MINE", 1, None, A, "you set it, and it no longer has an effect"),
    ConfigChange(
        ConfigChangeKind.LAUNCH_REFUSED,
        "--typo",
        1,
        None,
        I,
        "0.20.0 has no --typo; the baseline does not accept it either",
    ),
    ConfigChange(ConfigChangeKind.DEFAULT_CHANGED, "--seed", 0, 1, I, "you set it"),
    ConfigChange(ConfigChangeKind.DEFAULT_CHANGED, "--spec.level", "", ["x"], I),
    ConfigChange(ConfigChangeKind.FLAG_REMOVED, "--a-group-with-a-long-name.and_a_key_of_it", None, None, I),
    ConfigChange(ConfigChangeKind.VALUE_CHANGED, "--quick", "none", "one", I),
    ConfigChange(ConfigChangeKind.ENV_REMOVED, "VLLM_A", 1, None, I),
    ConfigChange(ConfigChangeKind.ENV_REMOVED, "VLLM_B", 1, None, I),
    ConfigChange(ConfigChangeKind.DEPENDENCY_CHANGED, "torch", "2.10.0", "2.13.0", I),
    ConfigChange(ConfigChangeKind.DEPENDENCY_CHANGED, "aiohttp", "3", None, I),
    ConfigChange(ConfigChangeKind.FLAG_ADDED, "--shiny", None, "x", I),
    ConfigChange(ConfigChangeKind.ENV_ADDED, "VLLM_NEW", None, 0, I),
]
HEAD = "vLLM 0.19.1 → 0.20.0"
TABLE = """\
vLLM 0.19.1 → 0.20.0
your launch line would not start on 0.20.0

Keeps your launch line from starting (3)
  --gone     this argument was removed
  --old      now --new
  --backend  in 0.20.0 --backend cannot be 'a'

Taken by neither version (1)
  --typo  0.20.0 has no --typo; the baseline does not accept it either

Yours, and no longer what they were (1)
  VLLM_MINE  you set it, and it no longer has an effect

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


def view(changes, *, problems=("it would not start",), **facts):
    versions = Version.parse("0.19.1"), Version.parse("0.20.0")
    launch = LaunchTest([LaunchProblem(RefusalKind.FLAG, "gone", text) for text in problems])
    return ConfigChangesView(*versions, Deployment(**facts), launch, changes)


def config_table(changes, options=None, **more):
    return render(view(changes, **more), "table", options)


def config_markdown(changes, **more):
    return render(view(changes, **more), "markdown")


def test_the_table_begins_with_what_breaks() -> None:
    assert config_table(CHANGES, RenderOptions(width=80)) == TABLE


def test_everything_leaves_nothing_counted() -> None:
    text = config_table(CHANGES, RenderOptions(width=80, verbose=True))
    assert "--all" not in text
    assert '--spec.level  "" → ["x"]' in text
    assert "aiohttp  3 → not there" in text
    assert "--shiny   x" in text


def test_without_changes_it_says_so() -> None:
    assert config_table([], problems=()) == f"{HEAD}\nnothing has changed\n"
    assert config_markdown([], problems=()).endswith("nothing has changed\n")


def test_markdown_has_the_same_sections() -> None:
    text = config_markdown(CHANGES)
    titles = [line for line in TABLE.splitlines() if line.endswith(")") and not line.startswith(" ")]
    assert [line.removeprefix("### ") for line in text.splitlines() if line.startswith("###")] == titles
    assert "- attention backend: FLASH_ATTN → FLASHINFER\n" in text


@given(hostile_text, st.sampled_from(list(ConfigChangeKind)), st.sampled_from(list(ChangeRelevance)))
@pytest.mark.parametrize("width", [40, 100])
def test_text_of_a_build_is_never_executed_by_the_terminal(
    width: int, text: str, kind: ConfigChangeKind, matters: ChangeRelevance
) -> None:
    change = ConfigChange(kind, text, text, [text], matters, text)
    table = config_table([change], RenderOptions(width=width, verbose=True), problems=(text,))
    assert all(cell_len(line) <= width for line in table.splitlines())
    assert not [sign for sign in table if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
    config_markdown([change], problems=(text,))


def test_a_default_that_is_a_marker_for_not_set_is_shown_in_words() -> None:
    assert wording.setting("<_UnsetType>") == "not set"
