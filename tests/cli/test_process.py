"""What only a real process shows: exit codes, closed pipes, Ctrl-C, full disks, and what start-up costs."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT
from tests.factories.server_starts import write_starts

STATISTICS = {"numpy", "scipy", "pandas"}
DATABASE = {"sqlalchemy", "alembic"}


def imported_by(*arguments):
    script = (
        "import sys\nfrom regress_gate.cli.main import run\n"
        f"try:\n    run({list(arguments)!r})\nexcept SystemExit:\n    pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


class TestExitCodes:
    def test_a_pass_is_0_with_a_report_on_stdout_alone(self, gate):
        done = gate.process("compare", "v0.24.0", "v0.32.0")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("PASS")

    def test_an_error_is_one_line_on_stderr_alone(self, gate):
        done = gate.process("compare", "v0.19.0", "v9.9.9")
        assert (done.code, done.out) == (5, "")
        assert done.error.startswith("no stored runs for v9.9.9 on cpu-2core; stored there: 0.19.0")

    def test_a_terminal_that_knows_only_ascii_gets_ascii(self, gate):
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
        done = gate.process("compare", "v0.24.0", "v0.32.0", env=environment, encoding="ascii")
        assert (done.code, done.err) == (0, "")


class TestClosedEnds:
    def test_a_reader_that_leaves_changes_neither_the_decision_nor_stderr(self, gate):
        gate.import_starts("0.19.1")
        gate.import_starts("0.20.0", speed=1.3)
        done = gate.shell(
            "regress-gate compare v0.19.1 v0.20.0 -v | true; echo ${PIPESTATUS[0]}\n"
            "regress-gate issues list --format json | head -1 >/dev/null; echo ${PIPESTATUS[0]}"
        )
        assert done.err == ""
        assert done.out.split() == ["1", "0"]

    def test_a_report_that_cannot_be_written_is_no_success(self, gate):
        # No file may grow: the same as a full disk, on every system.
        done = gate.shell(
            "ulimit -f 0; regress-gate compare v0.24.0 v0.32.0 >full; echo $?; regress-gate --help >full; echo $?"
        )
        assert done.out.split() == ["4", "4"]
        lines = done.err.splitlines()
        assert len(lines) == 2
        assert all(line.startswith("regress-gate: error: ") and "File too large" in line for line in lines)

    def test_without_stdout_or_stderr_the_exit_code_still_says_it(self, gate):
        done = gate.shell(
            "regress-gate compare v0.24.0 v0.32.0 >&-; echo $?; regress-gate compare v0.19.0 v9.9.9 2>&-; echo $?"
        )
        assert (done.out.split(), done.err) == (["0", "5"], "")

    def test_a_report_to_the_device_of_stdout_leaves_the_device_alone(self, gate):
        done = gate.shell("regress-gate check v0.19.1 -q --output json:/dev/stdout | head -c 1")
        assert (done.out, done.err) == ("{", "")
        before = Path(os.devnull).stat().st_rdev
        assert gate("check", "v0.19.1", "-q", "--output", f"json:{os.devnull}").code in (0, 1, 3)
        assert Path(os.devnull).stat().st_rdev == before


class TestInterrupt:
    def test_ctrl_c_is_130_in_one_line_and_nothing_is_stored(self, gate):
        write_starts(gate.directory / "results", starts=1)
        command = [
            sys.executable,
            "-m",
            "regress_gate",
            "import",
            "results",
            "-",
            "--version",
            "v1",
            "--testbed",
            "lab",
        ]
        # Tests that were themselves started in the background ignore Ctrl-C, and their children would too.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        signal.signal(signal.SIGINT, before)
        try:
            # Ready when it reads: what is written to a pipe that nobody reads fills it.
            os.set_blocking(process.stdin.fileno(), False)
            deadline, sent = time.monotonic() + 30, 0
            while time.monotonic() < deadline and sent < 200_000:
                try:
                    sent += os.write(process.stdin.fileno(), b" " * 4096)
                except BlockingIOError:
                    time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
        assert sent >= 200_000
        assert process.returncode == 130
        assert err.decode().split("\n") == ["", "regress-gate: error: interrupted", ""]
        assert out == b""
        assert not gate.store.exists()


class TestStartUp:
    def test_help_imports_nothing_that_is_slow(self):
        assert not imported_by("--help") & {*STATISTICS, *DATABASE, "pydantic", "yaml", "rich", "jinja2"}

    @pytest.mark.usefixtures("gate")
    def test_a_check_pays_for_neither_statistics_nor_a_database(self):
        assert not imported_by("check", "v0.19.1") & {*STATISTICS, *DATABASE}

    @pytest.mark.usefixtures("gate")
    def test_a_comparison_of_shipped_baselines_pays_for_no_database_and_no_pandas(self):
        assert not imported_by("compare", "v0.19.0", "v0.19.1") & {*DATABASE, "pandas"}

    def test_the_help_of_no_command_loads_statistics_a_database_or_an_http_client(self):
        code = (
            "import sys\nfrom regress_gate.cli.main import COMMANDS, main\nimport click\n"
            "for name in COMMANDS:\n    main.get_command(click.Context(main), name)\n"
            "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert not set(done.stdout.split()) & {*STATISTICS, *DATABASE, "httpx", "github", "requests"}

    def test_help_takes_a_few_times_the_processor_of_python_alone(self):
        def processor_seconds(*arguments):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

        # Processor time of both, in turns, and the least of each: what else the machine does counts for neither.
        rounds = range(3)
        click_alone = min(processor_seconds("-c", "import click") for _ in rounds)
        assert min(processor_seconds("-m", "regress_gate", "--help") for _ in rounds) < 4 * click_alone + 0.1
