"""CPU time of processes that start and end is neither lost nor counted twice."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from regress_gate.bench.machine.conditions import ProcessTreeCpuTime

# Every process burns when it is told to, and says when it has. `child` starts one, `end` waits for the child's end.
PARENT = """
import subprocess, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
if __name__ == "__main__":
    child = None
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "burn":
            burn(0.2)
        elif word == "short":
            subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1]], input="burn", text=True, check=True,
                           stdout=subprocess.DEVNULL)
        elif word == "child":
            child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[1]], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
            child.stdout.readline()
            word = str(child.pid)
        elif word == "work":
            child.stdin.write("burn\\n")
            child.stdin.flush()
            child.stdout.readline()
        elif word == "end":
            child.stdin.write("burn\\n")
            child.stdin.close()
            child.wait()
        print(word, flush=True)
"""
TICKS = 0.06
"""Counters go in hundredths of a second, and several of them are added."""


class Family:
    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PARENT, PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.parent = psutil.Process(self.popen.pid)
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == "ready\n"

    def tell(self, word: str) -> str:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.write(f"{word}\n")
        self.popen.stdin.flush()
        return self.popen.stdout.readline().strip()

    def all_time(self) -> float:
        return sum(self.parent.cpu_times()[:4])


@pytest.fixture
def family() -> Iterator[Family]:
    made = Family()
    yield made
    assert made.popen.stdin is not None
    assert made.popen.stdout is not None
    made.popen.stdin.close()
    made.popen.wait()
    made.popen.stdout.close()


def test_time_before_the_first_reading_does_not_count(family: Family) -> None:
    family.tell("burn")
    family.tell("short")
    assert ProcessTreeCpuTime().used([family.parent]) == 0.0


def test_children_between_two_readings_count(family: Family) -> None:
    time = ProcessTreeCpuTime()
    time.used([family.parent])
    before = family.all_time()
    family.tell("short")
    assert time.used([family.parent]) == pytest.approx(family.all_time() - before, abs=TICKS)
    assert time.used([family.parent]) >= 0.2


def test_a_child_that_was_read_counts_once_and_completely(family: Family) -> None:
    time = ProcessTreeCpuTime()
    time.used([family.parent])
    before = family.all_time()
    child = psutil.Process(int(family.tell("child")))
    family.tell("work")
    seen = time.used([family.parent, child])
    assert seen >= 0.2
    family.tell("end")
    spent = family.all_time() - before
    assert time.used([family.parent]) == pytest.approx(spent, abs=TICKS)
    assert spent >= seen + 0.1


def test_a_child_older_than_the_first_reading_counts_from_there(family: Family) -> None:
    child = psutil.Process(int(family.tell("child")))
    family.tell("work")
    before = family.all_time() + sum(child.cpu_times()[:2])
    time = ProcessTreeCpuTime()
    time.used([family.parent, child])
    family.tell("end")
    assert time.used([family.parent]) == pytest.approx(family.all_time() - before, abs=TICKS)


def test_used_time_never_decreases(family: Family) -> None:
    time = ProcessTreeCpuTime()
    time.used([family.parent])
    family.tell("burn")
    used = time.used([family.parent])
    assert used >= 0.1
    assert time.used([]) == used
