"""Every `regress-gate` command in README.md and docs/ does what is said of it, in the order in which it stands there.

A command ends with 0, or as the comment at its end says: `# exits 1`. What stands below a command is what it prints; a
line that is `…` stands for any number of lines.
"""

import re
import shlex

import pytest

from tests.cli.conftest import ROOT
from tests.factories.server_starts import write_starts
from tests.factories.tables import write_nightly

PAGES = [ROOT / "README.md", ROOT / "ci" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page):
    """(command line, exit code, what it is said to print) of every call of the program in a console block."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for call in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE):
            line, _, printed = call.partition("\n")
            if line.startswith("regress-gate"):
                command, _, comment = line.partition("  # ")
                exits = re.fullmatch(r"exits (\d+)", comment.strip())
                yield command, int(exits[1]) if exits else 0, printed


def pattern_of(printed):
    lines = [r"(?:.*\n)*" if line.strip() == "…" else re.escape(line) + r"\n" for line in printed.splitlines()]
    return "".join(lines)


def test_the_readme_shows_the_commands_that_a_newcomer_needs():
    shown = {command.split()[1] for command, *_ in commands(ROOT / "README.md")}
    assert shown >= {"compare", "check", "import", "baseline", "history"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_every_command_exits_and_prints_as_the_page_says(gate, page):
    for version in ("v0.19.1", "v0.20.0"):
        write_starts(gate.directory / "results" / version)
    write_nightly(gate.directory / "nightly.csv")
    text = page.read_text(encoding="utf-8")
    for content, name in re.findall(r"^```yaml\n(# (\S+\.yaml)\n.*?)^```", text, re.MULTILINE | re.DOTALL):
        (gate.directory / name).write_text(content, encoding="utf-8")
    for command, code, printed in commands(page):
        done = gate(*shlex.split(command)[1:])
        assert done.code == code, f"{command}\n{done.out}{done.err}"
        assert not printed or re.fullmatch(pattern_of(printed), done.out), f"{command}\n{done.out}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_every_link_to_a_file_leads_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
