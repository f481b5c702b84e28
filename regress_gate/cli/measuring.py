"""What `run`, `compare --measure` and `calibrate` are asked to measure: options, the suite, the machine, the builds.

Not for doing it: see `experiments` for plans, `carrying_out` for the measurement.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regress_gate.cli.duration import Duration
from regress_gate.cli.provisioning import build_meant
from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.cli.settings import Settings
    from regress_gate.model.provisioning import ProvisionConfig
    from regress_gate.model.suite import Suite
    from regress_gate.model.testbed import Testbed
    from regress_gate.model.version import Version

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_SUITE = "cpu-tiny"
DEFAULT_RUNS = 5
DEFAULT_BLOCKS = 6
"""Runs a side of `compare --measure`, which mostly ends before them: the last ones are for what is hard to tell."""


def measure_options(command: F) -> F:
    """How much is measured, and how."""
    for option in (
        click.option(
            "--driver", metavar="NAME", help="Measure with vllm-bench, guidellm or aiperf, not our own client."
        ),
        click.option("--wait-for-machine", type=Duration(), help="Wait so long for another run to end (30m)."),
        click.option(
            "--ready-within", type=Duration(), default="30m", help="Longest start of a server.", show_default=True
        ),
        click.option(
            "--resident/--one-at-a-time",
            default=None,
            help="Keep both servers up and take turns, or start one after the other (default).",
        ),
        click.option("--resume", is_flag=True, help="Go on with what an interrupted experiment lacks."),
        click.option("--budget", type=Duration(), help="Begin no block, after the first, that would end later (45m)."),
        click.option(
            "--trials", type=click.IntRange(1, 100), help="Passes of each scenario in a run; default: the suite's."
        ),
        click.option(
            "-n",
            "--runs",
            type=click.IntRange(1, 1000),
            help=f"Server starts a side [default: {DEFAULT_RUNS}; for compare, at most {DEFAULT_BLOCKS}].",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Amount:
    """What the options say of how much is measured."""

    runs: int | None
    trials: int | None
    budget: float | None
    resume: bool
    resident: bool | None
    ready_within: float
    wait_for_machine: float | None
    driver: str | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> "Amount":
        """Take the measuring options out of a command's."""
        return cls(**{name: options.pop(name) for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be measured, before anything is."""

    suite: "Suite"
    testbed: "Testbed"
    versions: "Mapping[str, Version]"
    """By side, in the order of the odd blocks."""
    provisioning: "ProvisionConfig"
    environment: Mapping[str, str]
    """In which servers are started."""


def assignment(
    settings: "Settings", versions: Mapping[str, str], provisioning: "ProvisionConfig", *, plan_only: bool = False
) -> Assignment:
    """The suite, this machine, and the builds that the refs mean now. Raises InputError for a suite that cannot be
    sent as it is, or is made for another accelerator than this machine's."""
    from regress_gate.bench.machine.fingerprint import fingerprint
    from regress_gate.bench.suite_run import load_workloads
    from regress_gate.suites import load_suite

    suite = load_suite(str(settings.suite.value or DEFAULT_SUITE))
    load_workloads(suite)
    testbed = fingerprint(settings.testbed.value, accelerator=suite.accelerator)
    _check_accelerator(suite, testbed, settings.deployment.accelerator, plan_only=plan_only)
    builds = {
        side: build_meant(text, settings, provisioning, accelerator=testbed.accelerator)
        for side, text in versions.items()
    }
    return Assignment(suite, testbed, builds, provisioning, settings.environment)


def _check_accelerator(suite: "Suite", testbed: "Testbed", said: str | None, *, plan_only: bool) -> None:
    """What is found on the machine is believed; where nothing is found, only the user can say what it has.

    A plan may be made elsewhere than on the machine that it is for.
    """
    from regress_gate.known.names import accelerator_matches

    wanted, found = suite.accelerator, testbed.accelerator or "cpu"
    if wanted is None or found == "cpu":
        return
    if testbed.accelerator_count is None:
        if plan_only or (said is not None and accelerator_matches(wanted, said)):
            return
        raise InputError(
            f"suite {suite.name} is made for {wanted}, and no accelerator is found on this machine",
            todo="choose another --suite; if it has one that does not tell, name it in [deployment] of the "
            "configuration file",
        )
    if not any(accelerator_matches(wanted, name) for name in found.split(" + ")):
        raise InputError(
            f"suite {suite.name} is made for {wanted}, and this machine has {found}",
            todo="choose another --suite, or write one with `regress-gate suite new`",
        )
