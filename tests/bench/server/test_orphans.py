"""What a killed regress-gate left running is found and ended; what only looks like it is left alone."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regress_gate.bench.server.orphans import end_orphan, find_orphans
from regress_gate.bench.server.processes import TOKEN_VARIABLE, ProcessMark, mark
from regress_gate.bench.server.state import ServerState, write_state
from tests.bench.server.conftest import alive, carriers

ROOT = Path(__file__).parents[3]
TOKENS: set[str] = set()
"""Of the servers that a test has had started."""
TOOL = """
import sys, time
from pathlib import Path
from regress_gate.bench.server.server import start_server
from tests.bench.server.conftest import REQUEST, ProgramEnvironment
server = start_server(ProgramEnvironment(sys.argv[1]), REQUEST, log=Path(sys.argv[2], "log"),
                      state_directory=Path(sys.argv[2]))
while len(server.processes()) < int(sys.argv[3]):
    time.sleep(0.05)
time.sleep(1.5)
print("ready", flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Also where a test fails: what the tests start here is made to outlive its starter."""
    TOKENS.clear()
    yield
    for pid in [pid for token in TOKENS for pid in carriers(token)]:
        os.kill(pid, signal.SIGKILL)


def start_tool(states: Path, manners: str, processes: int) -> subprocess.Popen[str]:
    tool = subprocess.Popen(
        [sys.executable, "-c", TOOL, manners, str(states), str(processes)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tool.stdout is not None
    ready = tool.stdout.readline()
    TOKENS.update(path.stem for path in states.glob("*.json"))
    assert ready == "ready\n"
    return tool


@pytest.mark.parametrize(("manners", "processes"), [("well", 1), ("family", 4), ("runaway", 2)])
def test_what_a_killed_tool_left_is_found_and_ended(states: Path, manners: str, processes: int) -> None:
    with start_tool(states, manners, processes) as tool:
        token = next(states.glob("*.json")).stem
        assert find_orphans(states) == []  # its tool lives
        tool.send_signal(signal.SIGKILL)
    (orphan,) = find_orphans(states)
    pids = [process.pid for process in orphan.ours]
    assert len(pids) == processes
    assert orphan.doubtful == ()
    assert "tiny on the given command at http://127.0.0.1:" in str(orphan)
    assert end_orphan(orphan, states, grace=1.0).left == ()
    assert [pid for pid in pids if alive(pid)] == []
    assert carriers(token) == []
    assert find_orphans(states) == []
    assert list(states.glob("*.json")) == []


def test_children_are_found_when_the_server_itself_is_gone(states: Path) -> None:
    with start_tool(states, "family", 4) as tool:
        tool.send_signal(signal.SIGKILL)
    leader = json.loads(next(states.glob("*.json")).read_text())["leader"]["pid"]
    os.kill(leader, signal.SIGKILL)
    while alive(leader):
        time.sleep(0.05)
    (orphan,) = find_orphans(states)
    assert len(orphan.ours) == 3
    assert end_orphan(orphan, states, grace=1.0).left == ()


def test_a_tool_that_ends_well_leaves_nothing_to_find(states: Path) -> None:
    with start_tool(states, "well", 1) as tool:
        tool.communicate()
    assert list(states.glob("*.json")) == []


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def state_of(member: ProcessMark, token: str = "0" * 32) -> ServerState:
    gone = ProcessMark(member.pid, "another:1")
    return ServerState(token, gone, member, (member,), "tiny", "http://127.0.0.1:1", "log", 0.0)


def test_a_process_with_the_same_number_is_not_ours(states: Path, innocent: subprocess.Popen[bytes]) -> None:
    write_state(states, state_of(ProcessMark(innocent.pid, "another:1")))
    assert find_orphans(states) == []
    assert list(states.glob("*.json")) == []


def test_the_same_process_without_our_token_is_not_ours(states: Path, innocent: subprocess.Popen[bytes]) -> None:
    seen = mark(innocent.pid)
    assert seen is not None
    write_state(states, state_of(seen))
    assert find_orphans(states) == []
    assert innocent.poll() is None


def test_a_process_with_only_our_token_is_told_and_left_alone(states: Path) -> None:
    token = "1" * 32
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env=os.environ | {TOKEN_VARIABLE: token},
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 20
        while process.pid not in carriers(token) and time.monotonic() < deadline:
            time.sleep(0.05)
        write_state(states, dataclasses.replace(state_of(ProcessMark(2**22, "x:1"), token), members=()))
        (orphan,) = find_orphans(states)
        assert (orphan.ours, orphan.doubtful) == ((), (process.pid,))
        end_orphan(orphan, states, grace=0.2)
        assert process.poll() is None
        assert len(find_orphans(states)) == 1  # told until it is gone
        process.kill()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"token": 1}'])
def test_a_spoilt_state_file_is_passed_over_and_kept(states: Path, text: str) -> None:
    states.mkdir()
    (states / "spoilt.json").write_text(text)
    assert find_orphans(states) == []
    assert (states / "spoilt.json").exists()
