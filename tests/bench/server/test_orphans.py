"""What a killed regress-gate left running is found and ended; what only looks like it is left alone."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from regress_gate.bench.provision.docker import DockerProvisioner
from regress_gate.bench.server.lifecycle import end_processes
from regress_gate.bench.server.processes import TOKEN_VARIABLE, ProcessIdentity, identify_process
from regress_gate.bench.server.recovery import ServerState, end_orphan, find_orphans, read_states, write_state
from regress_gate.bench.server.server import Server, start_server
from regress_gate.model.version import Version
from tests.bench.provision.fake_docker import FakeDocker
from tests.bench.server.conftest import REQUEST, alive, carriers

ROOT = Path(__file__).parents[3]
TOKENS: set[str] = set()
"""Of the servers that a test has had started."""
TOOL = """
import json, sys, time
from pathlib import Path
from regress_gate.bench.server.server import start_server
from tests.bench.server.conftest import REQUEST, ProgramEnvironment
server = start_server(ProgramEnvironment(sys.argv[1]), REQUEST, log=Path(sys.argv[2], "log"),
                      state_directory=Path(sys.argv[2]))
state = next(Path(sys.argv[2]).glob("*.json"))
while len(json.loads(state.read_text())["members"]) < int(sys.argv[3]):
    time.sleep(0.05)
print("ready", flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(autouse=True)
def nothing_stays(states: Path) -> Iterator[None]:
    """Also where a test fails: what the tests start here is made to outlive its starter."""
    TOKENS.clear()
    yield
    for pid in {pid for token in TOKENS for pid in carriers(token)} | set(writers(states / "log")):
        os.kill(pid, signal.SIGKILL)


def start_tool(states: Path, behaviours: str, processes: int) -> subprocess.Popen[str]:
    tool = subprocess.Popen(
        [sys.executable, "-c", TOOL, behaviours, str(states), str(processes)],
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


def test_the_servers_of_another_machine_that_shares_the_directory_are_left_alone(tmp_path):
    gone = ProcessIdentity(2**22 - 1, "another boot:1")
    state = ServerState("0" * 32, gone, None, (), "a server", "http://127.0.0.1:1", "log", 0.0, host="another machine")
    write_state(tmp_path, state)
    assert find_orphans(tmp_path) == []
    assert [each.token for each in read_states(tmp_path)] == ["0" * 32]


@pytest.mark.parametrize(("behaviours", "processes"), [("well", 1), ("family", 4), ("runaway", 2)])
def test_what_a_killed_tool_left_is_found_and_ended(states: Path, behaviours: str, processes: int) -> None:
    with start_tool(states, behaviours, processes) as tool:
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


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def state_of(member: ProcessIdentity, token: str = "0" * 32) -> ServerState:
    gone = ProcessIdentity(member.pid, "another:1")
    return ServerState(token, gone, member, (member,), "tiny", "http://127.0.0.1:1", "log", 0.0)


def test_a_process_with_the_same_number_is_not_ours(states: Path, innocent: subprocess.Popen[bytes]) -> None:
    write_state(states, state_of(ProcessIdentity(innocent.pid, "another:1")))
    assert find_orphans(states) == []
    assert list(states.glob("*.json")) == []


def test_the_same_process_without_our_token_is_not_ours(states: Path, innocent: subprocess.Popen[bytes]) -> None:
    seen = identify_process(innocent.pid)
    assert seen is not None
    write_state(states, state_of(seen))
    assert find_orphans(states) == []
    assert innocent.poll() is None


def test_a_process_with_our_token_alone_is_ended_because_it_can_only_be_inherited(states: Path) -> None:
    token = "1" * 32
    with carrier(token) as process:
        write_state(states, dataclasses.replace(state_of(ProcessIdentity(2**22, "x:1"), token), members=()))
        (orphan,) = find_orphans(states)
        assert ([each.pid for each in orphan.ours], orphan.doubtful) == ([process.pid], ())
        assert end_orphan(orphan, states, grace=1.0).left == ()
        assert process.wait(10) == -signal.SIGTERM
    assert find_orphans(states) == []


def test_a_carrier_of_our_token_that_is_older_than_the_server_is_reported_and_left_alone(states: Path) -> None:
    token = "3" * 32
    with carrier(token) as process:
        wait_for(lambda: identify_process(process.pid) is not None)
        itself = identify_process(process.pid)
        assert itself is not None
        boot, _, moment = itself.started.rpartition(":")
        younger = ProcessIdentity(2**22, f"{boot}:{float(moment) + 1000:.0f}")
        write_state(states, dataclasses.replace(state_of(younger, token), members=()))
        (orphan,) = find_orphans(states)
        assert (orphan.ours, orphan.doubtful) == ((), (process.pid,))
        assert str(orphan).endswith(f"so left alone: end them with `kill {process.pid}`")
        end_orphan(orphan, states, grace=0.2)
        assert process.poll() is None
        assert len(find_orphans(states)) == 1  # told until it is gone
        process.kill()


def test_a_reader_of_the_log_and_a_process_with_the_same_terminal_are_not_ours(states: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with log.open("rb") as reading:
        plain = [sys.executable, "-c", "import time; time.sleep(600)"]
        with (
            subprocess.Popen(plain, stdin=reading, stdout=subprocess.DEVNULL) as reader,
            subprocess.Popen(plain, stdout=subprocess.DEVNULL) as silent,
        ):
            for place in (str(log), os.devnull):
                write_state(states, dataclasses.replace(state_of(ProcessIdentity(2**22, "x:1")), log=place))
                assert find_orphans(states) == []
            assert (reader.poll(), silent.poll()) == (None, None)
            reader.kill()
            silent.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_grandchild_without_our_environment_is_found_by_the_log_that_it_inherited(states: Path) -> None:
    """The empty environment is that of vLLM's engine processes, which write their title over it."""
    assert len(end_scattered(states, delay=0.3)) > 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("round_", range(40))
def test_grandchildren_that_leave_are_ended_whenever_the_tool_is_killed(states: Path, round_: int) -> None:
    # Killed at once, the tool may leave only the last of a chain of processes: each ends when the next is there.
    assert end_scattered(states, delay=round_ * 0.01)


def test_a_process_that_one_look_at_the_systems_list_missed_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        process, missed = psutil.Process(child.pid), iter([[]])

        def find() -> list[psutil.Process]:
            return next(missed, [process] if child.poll() is None else [])

        try:
            assert end_processes(find, grace=30).left == ()
            assert child.poll() is not None
        finally:
            child.kill()


def end_scattered(states: Path, *, delay: float) -> list[int]:
    """The processes that the killed tool left, none of which is there any more."""
    with start_tool(states, "scatter", 1) as tool:
        token, log = next(states.glob("*.json")).stem, states / "log"
        wait_for(lambda: len(writers(log)) > 1)
        time.sleep(delay)
        tool.send_signal(signal.SIGKILL)
    scattered = writers(log)
    for orphan in find_orphans(states):
        assert orphan.doubtful == ()
        assert end_orphan(orphan, states, grace=0.5).left == ()
    assert (carriers(token), writers(log)) == ([], [])
    assert find_orphans(states) == []
    return scattered


def writers(log: Path) -> list[int]:
    """Every process whose output is this file, found without the code under test."""
    found = subprocess.run(
        ["bash", "-c", f"for p in /proc/[0-9]*; do [ $p/fd/1 -ef {log} ] && basename $p; done"],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    return [pid for pid in map(int, found.stdout.split()) if alive(pid)]


@contextmanager
def carrier(token: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own that has the token and no other mark."""
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env=os.environ | {TOKEN_VARIABLE: token},
        start_new_session=True,
    ) as process:
        TOKENS.add(token)
        wait_for(lambda: process.pid in carriers(token))
        yield process


def test_a_server_whose_tool_was_killed_before_it_wrote_down_the_process_is_ended(states: Path) -> None:
    token = "2" * 32
    with carrier(token) as process:
        unwritten = dataclasses.replace(state_of(ProcessIdentity(2**22, "x:1"), token), leader=None, members=())
        write_state(states, unwritten)
        (orphan,) = find_orphans(states)
        assert ([each.pid for each in orphan.ours], orphan.doubtful) == ([process.pid], ())
        assert end_orphan(orphan, states).left == ()
    assert find_orphans(states) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"token": 1}'])
def test_a_spoilt_state_file_is_passed_over_and_kept(states: Path, text: str) -> None:
    states.mkdir()
    (states / "spoilt.json").write_text(text)
    assert find_orphans(states) == []
    assert (states / "spoilt.json").exists()


class TestContainers:
    """Ending its processes does not end a container: neither the engine's program nor its token reach into it."""

    @pytest.fixture
    def docker(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
        docker = FakeDocker(tmp_path / "docker")
        docker.publish("docker.io/vllm/vllm-openai:v0.19.1")
        monkeypatch.setenv("FAKE_DOCKER", str(docker.folder))
        yield docker
        docker.end()

    @pytest.fixture
    def left(self, docker: FakeDocker, tmp_path: Path, states: Path) -> Iterator[Server]:
        """A server in a container, whose tool and whose engine's program are gone."""
        provisioner = DockerProvisioner(gpus="none", directory=tmp_path / "images", environ=docker.environ())
        environment = provisioner.provision(Version.parse("0.19.1"))
        with start_server(environment, REQUEST, log=tmp_path / "log", state_directory=states) as server:
            os.kill(server.pid, signal.SIGKILL)
            (state,) = read_states(states)
            write_state(states, dataclasses.replace(state, tool=ProcessIdentity(state.tool.pid, "another:1")))
            yield server

    @pytest.mark.usefixtures("left")
    def test_a_container_left_by_a_killed_tool_is_reported_and_ended(self, docker: FakeDocker, states: Path) -> None:
        (name,) = docker.memory["containers"]
        assert len(docker.running()) == 1
        (orphan,) = find_orphans(states)
        assert f"container {name}" in str(orphan)
        report = end_orphan(orphan, states, grace=1.0)
        assert (report.left, report.trouble) == ((), None)
        assert docker.running() == []
        assert find_orphans(states) == []
        assert list(states.glob("*.json")) == []

    @pytest.mark.usefixtures("left")
    def test_a_container_that_is_gone_by_itself_is_no_orphan(self, docker: FakeDocker, states: Path) -> None:
        docker.end()
        docker.remember(containers={})
        assert find_orphans(states) == []
        assert list(states.glob("*.json")) == []

    @pytest.mark.usefixtures("left")
    def test_as_long_as_the_engine_does_not_answer_the_container_is_not_forgotten(
        self, docker: FakeDocker, states: Path
    ) -> None:
        docker.fail("ps", "Cannot connect to the Docker daemon")
        (orphan,) = find_orphans(states)
        assert "may still exist; end it with" in (end_orphan(orphan, states, grace=0.0).trouble or "")
        docker.remember(failures={})
        (orphan,) = find_orphans(states)
        assert end_orphan(orphan, states, grace=0.0).trouble is None
        assert docker.running() == []
