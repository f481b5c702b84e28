"""Every command that prints a report prints it as a page, too."""

import base64
import hashlib
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Gate
from tests.factories.server_starts import write_starts
from tests.factories.tables import write_nightly
from tests.report.html_page import HtmlPage

COMMANDS = {
    "compare v0.24.0 v0.32.0": "PASS: you may move",
    "compare v0.19.1 v0.20.0 --plan --suite cpu-tiny --testbed cpu-2core": "at most ",
    "check v0.20.0 --from v0.19.1 --accelerator H200 --report-only": "INCONCLUSIVE: not decided",
    "history --detect": "1 change for the worse",
    "detect nightly.csv --value ttft_ms": "1 change point",
    "diff-config v0.24.0 v0.32.0": "227 changes between 0.24.0 and 0.32.0",
    "issues list": "Known issues",
    "issues show VLLM-28882": "VLLM-28882: ",
    "issues sync --offline": "Threads of known issues",
    "baseline list": "Stored versions",
    "baseline show v0.19.1": "Stored runs",
    "suite list": "Suites",
    "suite show cpu-tiny": "cpu-tiny@1",
    "env list": "Environments",
    "waive list": "Waivers",
    "import results --version v0.19.1 --testbed lab --dry-run": "Import",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_report_is_a_page(gate: Gate, command: str) -> None:
    write_starts(gate.directory / "results")
    write_nightly(gate.directory / "nightly.csv")
    done = gate(*shlex.split(command), "--format", "html")
    assert done.code == 0, done.err
    page = HtmlPage(done.out)
    assert page.all("h1")[0].content.startswith(COMMANDS[command])
    (policy,) = re.findall(r"sha256-([^;&]+)&#39;", done.out)
    (style,) = page.all("style")
    assert policy == base64.b64encode(hashlib.sha256(style.content.encode()).digest()).decode()


def test_a_file_holds_what_is_printed(gate: Gate) -> None:
    done = gate("compare", "v0.24.0", "v0.32.0", "--format", "html", "--output", "html:report.html")
    written = Path("report.html").read_text(encoding="utf-8")
    assert written == done.out
    assert written.count("<svg") >= 2  # the shape beside the decision, and pictures
