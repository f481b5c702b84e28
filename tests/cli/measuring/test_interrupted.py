"""Experiments that end early: by a signal that can be caught, and by one that cannot. Half a run never counts."""

import os
import random
import re
import signal
import time

import pytest

from regress_gate.bench.provision.command import CommandProvisioner
from regress_gate.bench.server.processes import identify_process, is_alive


def read_until(process, phrase):
    """The lines on stderr up to one with the phrase."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if phrase in line:
            return lines
    raise AssertionError(f"it ended before {phrase!r}: {''.join(lines)}")


def check_whole(runs):
    """Every run is one that was made to its end, and none was made twice."""
    assert [run.failure for run in runs] == [None] * len(runs)
    assert [len(run.trials) for run in runs] == [1] * len(runs)
    assert [(run.trials[0].completed, run.trials[0].failed) for run in runs] == [(6, 0)] * len(runs)
    assert all(run.outputs is not None for run in runs)
    assert [run.place.block for run in runs] == list(range(1, len(runs) + 1))


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "starting"),
        (signal.SIGINT, "measuring"),
        (signal.SIGTERM, "measuring"),
        (signal.SIGTERM, "asking"),
        (signal.SIGHUP, "measuring"),
    ],
)
def test_an_interrupted_experiment_stops_its_server_and_is_resumed(lab, number, moment):
    lab.behave({"0.19.1": ["--startup-delay=0.3"]})
    with lab.start("run", "0.19.1", "--runs", 2) as process:
        read_until(process, "run:1 ")
        read_until(process, moment)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted: 1 run of this experiment stored; go on with --resume" in err
    assert err.endswith("regress-gate: error: interrupted\n")
    assert lab.servers() == []
    assert lab.states == []
    check_whole(lab.runs())
    assert lab("run", "0.19.1", "--resume").code == 0
    assert len(lab.runs()) == 2
    check_whole(lab.runs())


def test_who_interrupts_while_versions_are_got_can_go_on(lab, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CommandProvisioner, "provision", interrupt)
        outcome = lab("run", "0.19.1", "--runs", 2)
    assert outcome.code == 130
    assert "interrupted: 0 runs of this experiment stored; go on with --resume" in outcome.err
    assert lab("run", "0.19.1", "--resume").code == 0
    check_whole(lab.runs())
    assert len(lab.runs()) == 2


def test_both_resident_servers_are_stopped(lab):
    with lab.start("compare", "0.19.0", "0.19.1", "--measure", "--resident", "--runs", 1) as process:
        read_until(process, "measuring")
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert lab.servers() == []
    assert lab.runs() == []


def test_who_interrupts_twice_has_no_patience_and_keeps_no_server_either(lab):
    lab.behave({"0.19.1": ["--ignore-sigterm", "--tpot=0.2"]})
    with lab.start("run", "0.19.1", "--runs", 1) as process:
        read_until(process, "measuring")
        process.send_signal(signal.SIGINT)
        time.sleep(1)  # until it waits for the server; earlier, this is a longer test
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert lab.servers() == []
    assert lab.states == []


def test_both_servers_of_a_killed_program_are_ended_by_the_next(lab):
    with lab.start("compare", "0.19.0", "0.19.1", "--measure", "--resident", "--runs", 1) as process:
        read_until(process, "measuring")
        process.kill()
    left = [identify_process(server.pid) for server in lab.servers()]
    assert len(left) == 2
    outcome = lab("run", "0.19.1", "--runs", 1)
    assert outcome.code == 0
    assert outcome.err.count("left by a run that was killed") == 2
    assert not any(is_alive(server) for server in left)
    assert [run.place.side for run in lab.runs()] == ["single"]


PHASES = ["provisioning", "starting", "measuring", "asking", "run:"]


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_is_lost_half_counted_or_left_running(lab, kills):
    """Seeded: a moment is a time after a line of progress, so that a slow machine is killed in the same places."""
    lab.behave({"0.19.1": ["--startup-delay=0.1"]})
    chance = random.Random(20261121)
    left: set = set()
    runs = kills - 2
    wanted = ["--runs", str(runs)]
    told = ""
    for _ in range(kills):
        with lab.start("run", "0.19.1", *wanted) as process:
            lines = read_until(process, chance.choice(PHASES))
            time.sleep(chance.uniform(0.0, 0.15))
            os.kill(process.pid, signal.SIGKILL)
            lines += process.communicate(timeout=60)[1]
        assert process.returncode == -signal.SIGKILL
        told += "".join(lines)
        assert not any(is_alive(server) for server in left), "an orphan outlived the next measurement"
        left = {identify_process(server.pid) for server in lab.servers()}
        assert len(left) <= 1
        check_whole(lab.runs())
        wanted = ["--resume"]
    assert len(re.findall(r"left by a run that was killed: processes \d", told)) >= kills // 4
    outcome = lab("run", "0.19.1", "--resume")
    assert outcome.code == 0
    assert len(lab.runs()) == runs
    check_whole(lab.runs())
    assert not any(is_alive(server) for server in left)
    assert lab.servers() == []
    assert lab.states == []
