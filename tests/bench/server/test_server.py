"""A server is started, waited for, told apart from others, and stopped with everything it has started."""

import json
import math
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Sized
from dataclasses import replace
from http.server import HTTPServer
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

import regress_gate.bench.server.server as module
from regress_gate.bench.server import lifecycle
from regress_gate.bench.server.lifecycle import NICENESS, StopReport, end_processes
from regress_gate.bench.server.server import free_port
from regress_gate.bench.server.server_facts import is_healthy
from regress_gate.bench.server.server_failures import ServerError, ServerFailureKind
from regress_gate.errors import ExitCode
from regress_gate.model.version import Version
from tests.bench.server.conftest import Start, alive, carriers
from tests.bench.server.program import Handler


def token_in(states: Path) -> str:
    return next(states.glob("*.json")).stem


def break_it(url: str) -> None:
    try:
        urllib.request.urlopen(f"{url}/break", timeout=10).close()
    except OSError:
        return


def wait_for(what: Callable[[], Sized], count: int) -> None:
    deadline = time.monotonic() + 60
    while len(what()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_ready_server_has_its_facts_and_leaves_nothing_behind(start: Start, states: Path) -> None:
    server = start()
    token = token_in(states)
    assert server.startup_time is not None
    assert 0 < server.startup_time < 60
    assert server.facts is not None
    assert server.facts.version == Version("0.19.1")
    assert server.facts.kv_cache_tokens == 1600
    assert server.facts.log.architecture == "LlamaForCausalLM"
    assert server.failure(health=True) is None
    assert [process.pid for process in server.processes()] == [server.pid] == carriers(token)
    assert server.peak_memory is not None
    assert server.peak_memory > 2**20
    report = server.stop()
    assert (report.forced, report.left) == (False, ())
    assert server.stop() is report
    assert carriers(token) == []
    assert list(states.glob("*")) == []


def test_a_death_at_the_start_is_noticed_at_once_and_reported_with_its_cause(start: Start, states: Path) -> None:
    with pytest.raises(ServerError) as failed:
        start("die", ready_within=math.inf)  # a start that does not notice the death would never end
    failure = failed.value.failure
    assert failure.kind is ServerFailureKind.DIED_AT_START
    assert failure.kind.may_be_the_version
    assert failure.exit_status == 1
    assert failure.lines == ("ValueError: There is no module or parameter named 'lm_head' in TinyForCausalLM",)
    assert failed.value.exit_code is ExitCode.COULD_NOT_MEASURE
    assert "\n" not in str(failed.value)
    assert list(states.glob("*")) == []


def test_a_server_that_is_never_ready_is_ended_at_the_deadline(start: Start) -> None:
    with pytest.raises(ServerError, match=r"not healthy within 1 s") as failed:
        start("hang", ready_within=1.0)
    assert failed.value.failure.kind is ServerFailureKind.NEVER_READY
    assert failed.value.failure.exit_status is None


def test_one_that_waits_for_a_hub_that_does_not_answer_is_not_its_version(start: Start) -> None:
    says = "print('httpx.ConnectTimeout: timed out', flush=True); import time; time.sleep(600)"
    with pytest.raises(ServerError, match="hub: the server was not healthy within 1 s") as failed:
        start(
            command=(sys.executable, "-c", says),
            ready_within=1.0,
            on_spawn=lambda server: wait_for(server.log.read_bytes, 1),
        )
    assert failed.value.failure.kind is ServerFailureKind.ENVIRONMENT


def test_one_that_is_killed_while_others_hold_the_memory_is_not_its_version(start: Start) -> None:
    server = start()
    server._watch.memory_short = True
    os.kill(server.pid, signal.SIGKILL)
    server._process.wait()
    failure = server.failure()
    assert failure is not None
    assert failure.kind is ServerFailureKind.ENVIRONMENT
    assert failure.text.startswith(
        "the machine ran short of memory, and other processes held most of it: the server ended"
    )


def test_one_that_does_not_end_when_asked_is_killed(start: Start) -> None:
    server = start("stubborn")
    report = server.stop(grace=0.5)
    assert (report.forced, report.left) == (True, ())
    assert not alive(server.pid)


@pytest.mark.parametrize(("behaviours", "children"), [("family", 3), ("runaway", 1), ("family,stubborn", 3)])
def test_children_are_ended_wherever_they_went(start: Start, states: Path, behaviours: str, children: int) -> None:
    server = start(behaviours)
    wait_for(server.processes, 1 + children)
    members = [process.pid for process in server.processes()]
    assert len(members) == 1 + children
    token = token_in(states)
    report = server.stop(grace=1.0)
    assert report.left == ()
    assert [pid for pid in members if alive(pid)] == []
    assert carriers(token) == []


def test_children_are_ended_also_when_the_server_died_before(start: Start) -> None:
    server = start("family,crash")
    wait_for(server.processes, 4)
    members = [process.pid for process in server.processes()]
    break_it(server.url)
    assert server.stop(grace=1.0).left == ()
    assert [pid for pid in members if alive(pid)] == []


def test_a_death_under_load_is_reported_as_a_death(start: Start) -> None:
    server = start("crash")
    break_it(server.url)
    failure = server.failure(health=True)
    assert failure is not None
    assert failure.kind is ServerFailureKind.DIED_UNDER_LOAD
    assert failure.exit_status == -11
    assert "SIGSEGV" in failure.text
    assert failure.lines == ("RuntimeError: CUDA error: an illegal access",)


def test_a_running_server_that_stays_unhealthy_is_reported_as_unhealthy(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNRESPONSIVE_AFTER", 0.5)
    server = start("mute")
    break_it(server.url)
    assert server.failure() is None
    failure = server.failure(health=True)
    assert failure is not None
    assert failure.kind is ServerFailureKind.UNRESPONSIVE


def test_a_server_that_answers_again_after_a_stall_has_not_failed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start("mute")
    break_it(server.url)
    asked: list[bool] = []

    def mended_after_two(url: str, timeout: float) -> bool:
        if len(asked) == 2:
            urllib.request.urlopen(f"{url}/mend", timeout=10).close()
        asked.append(is_healthy(url, timeout))
        return asked[-1]

    monkeypatch.setattr(module, "is_healthy", mended_after_two)
    monkeypatch.setattr(module, "HEALTH_POLL", 0.0)
    assert server.failure(health=True) is None
    assert asked == [False, False, True]


def test_a_port_that_was_taken_meanwhile_is_no_failure_of_the_server(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_HEALTH_TIMEOUT", 0.5)  # what has the port takes connections and never answers
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        # A port that was free may be taken meanwhile, too, by another test.
        free_ones = chain([int(taken.getsockname()[1])], iter(free_port, None))
        server = start(pick_port=lambda: next(free_ones))
    assert server.failure(health=True) is None
    ports = iter([port := int(server.url.rpartition(":")[2])] * 3)
    with pytest.raises(ServerError) as failed:  # with a log of its own: processes with the same log are one server
        start(pick_port=lambda: next(ports), log=tmp_path / "second.log")
    assert failed.value.failure.kind is ServerFailureKind.PORT_TAKEN
    assert not failed.value.failure.kind.may_be_the_version
    assert next(ports, port) == port


def test_another_program_on_the_port_is_not_taken_for_the_server(start: Start) -> None:
    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = Thread(target=other.serve_forever, args=(0.02,))
        thread.start()
        with pytest.raises(ServerError, match="another program answers") as failed:
            start("elsewhere", ready_within=0.5, pick_port=lambda: other.server_port)
        other.shutdown()
        thread.join()
    assert failed.value.failure.kind is ServerFailureKind.PORT_TAKEN


def test_what_serves_out_of_sight_is_not_guessed_at_and_must_not_serve_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "PORT_CLOSE_WAIT", 0.2)
    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = Thread(target=other.serve_forever, args=(0.02,))
        thread.start()
        server = start("elsewhere", group=False, pick_port=lambda: other.server_port)
        assert server.processes() == []
        assert server.peak_memory is None
        report = server.stop()
        assert (report.left, report.trouble) == ((), f"something still answers at {server.url}")
        other.shutdown()
        thread.join()


def test_a_command_that_cannot_run_is_an_error(start: Start, states: Path) -> None:
    with pytest.raises(ServerError, match="no-such-vllm cannot be run") as failed:
        start(command=("/no-such-vllm",))
    assert failed.value.failure.kind is ServerFailureKind.NOT_STARTED
    assert list(states.glob("*")) == []


def test_the_state_file_names_every_process_and_is_private(start: Start, states: Path) -> None:
    server = start("family")
    wait_for(server.processes, 4)
    path = next(states.glob("*.json"))
    wait_for(lambda: json.loads(path.read_text())["members"], 4)
    state = json.loads(path.read_text())
    assert state["leader"]["pid"] == server.pid
    assert {member["pid"] for member in state["members"]} >= {process.pid for process in server.processes()}
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("group", "processes"), [(True, 1), (False, 0)])
def test_a_listener_learns_of_a_server_before_it_is_ready(start: Start, group: bool, processes: int) -> None:
    seen: list[tuple[float | None, int]] = []
    server = start(on_spawn=lambda server: seen.append((server.startup_time, len(server.processes()))), group=group)
    # What a launch line starts may be a program that only talks to what serves, until that is seen.
    assert seen == [(None, processes)]
    assert len(server.processes()) == 1


def test_a_server_that_goes_into_the_background_is_refused_and_ended(start: Start) -> None:
    port = free_port()
    with pytest.raises(ServerError, match="must stay in the foreground") as failed:
        start("daemon", pick_port=lambda: port)
    assert failed.value.failure.kind is ServerFailureKind.DIED_AT_START
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_silent_server_is_described_by_its_exit_status(start: Start) -> None:
    with pytest.raises(ServerError) as failed:
        start("quiet")
    assert failed.value.failure.lines == ()
    assert "exit status 3" in str(failed.value)


def test_no_secret_and_no_control_sequence_leaves_a_log_of_any_size(start: Start) -> None:
    with pytest.raises(ServerError) as failed:
        start("chatty", variables={"HF_TOKEN": "not-by-its-looks"})
    assert failed.value.failure.lines[0] == "ValueError: cannot log in with ***"


def test_what_ending_the_processes_does_not_reach_is_ended_after_them_and_once(start: Start) -> None:
    called = []
    server = start("well", after_stop=lambda: called.append(alive(server.pid)))
    assert server.stop().trouble is None
    server.stop()
    assert called == [False]
    with pytest.raises(ServerError):
        start("die", after_stop=lambda: called.append(False))
    assert called == [False, False]


def refuse() -> None:
    raise OSError("no such container")


def test_what_remains_after_the_stop_is_an_error_and_not_the_versions(start: Start) -> None:
    assert "no such container" in (start("well", after_stop=refuse).stop().trouble or "")
    with pytest.raises(ServerError, match="no such container") as failed, start("well", after_stop=refuse):
        pass
    assert failed.value.failure.kind is ServerFailureKind.NOT_STOPPED
    assert not failed.value.failure.kind.may_be_the_version


def test_a_failed_start_that_leaves_processes_is_no_evidence(start: Start) -> None:
    with pytest.raises(ServerError, match=r"; then .*no such container.*lm_head") as failed:
        start("die", after_stop=refuse)
    assert failed.value.failure.kind is ServerFailureKind.NOT_STOPPED


def test_processes_that_cannot_be_ended_are_named(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start()

    def leave_two(*given: Any, **more: Any) -> StopReport:
        return replace(end_processes(*given, **more), left=(7, 8))

    monkeypatch.setattr(module, "end_processes", leave_two)
    with pytest.raises(ServerError, match="processes 7, 8 of the server could not be ended"), server:
        pass


def test_the_error_before_the_stop_is_reported_first(start: Start) -> None:
    with pytest.raises(ValueError, match="first"), start("well", after_stop=refuse):
        raise ValueError("first")


def test_an_interrupted_stop_kills_the_server_at_once(
    start: Start, states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graces: list[float] = []

    def interrupted_once(find: Any, grace: float, **more: Any) -> StopReport:
        graces.append(grace)
        if len(graces) == 1:
            raise KeyboardInterrupt
        return end_processes(find, grace, **more)

    server = start("stubborn")
    monkeypatch.setattr(module, "end_processes", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    assert graces == [module.STOP_GRACE, 0.0]
    assert not alive(server.pid)
    assert server.stop().left == ()
    assert list(states.glob("*.json")) == []


def test_a_server_has_a_lower_priority_than_the_client(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lower_priority", lifecycle.lower_priority)
    server = start()
    assert psutil.Process(server.pid).nice() == NICENESS
    group = Path(f"/proc/{server.pid}/autogroup")
    if group.exists():
        assert group.read_text().endswith(f"nice {NICENESS}\n")
