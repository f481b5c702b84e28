"""The fleet that `--on` names: its engine, and its hosts as testbeds of one class."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from regress_gate.app.fleet_status import fleet_status
from regress_gate.app.settings import DEFAULT_SUITE, ProgressReporter, Settings
from regress_gate.bench.fleet.block_task import BlockTask
from regress_gate.bench.fleet.executor import FleetExecutor
from regress_gate.bench.fleet.fleet import Fleet, ask_hosts
from regress_gate.bench.fleet.ray_executor import RayExecutor
from regress_gate.bench.fleet.slurm_executor import SlurmExecutor
from regress_gate.errors import InputError, NoDataError
from regress_gate.gate.comparison_choice import check_one_class
from regress_gate.model.run import SuiteRef
from regress_gate.model.testbed import is_wanted_testbed
from regress_gate.paths import fleet_directory
from regress_gate.report.views.fleet_view import step_texts
from regress_gate.suites import load_suite
from regress_gate.text import did_you_mean, plural

ENGINES = ("ray", "slurm")
WORKER = "regress_gate.app.block_worker"
"""The module that hosts start."""


def check_engine(on: str) -> str:
    """What `--on` was given, if it names an engine. Raises InputError for anything else."""
    engine, _, rest = on.partition("://")
    if engine in ENGINES and (rest or "://" not in on):
        return on
    todo = "write ray, ray://HEAD, slurm or slurm://PARTITION"
    raise InputError(f"{on!r} is no engine{did_you_mean(engine, ENGINES)}", where="--on", todo=todo)


@contextmanager
def open_fleet(
    settings: Settings, on: str | None, progress: ProgressReporter, *, one_host: bool = False
) -> Iterator[Fleet | None]:
    """The hosts that the settings' testbeds name, all if none, once each has said which machine it is; None: no engine
    is asked for, and this machine measures. `one_host`: the first of them alone, for what is only comparable on one.

    Raises FleetError if the engine or every host cannot be used, InputError if the hosts are not of one class.
    """
    if on is None:
        yield None
        return
    suite = load_suite(str(settings.suite.value or DEFAULT_SUITE))
    executor = make_executor(on, suite.accelerator)
    document = suite.model_dump(mode="json")
    wanted = tuple(settings.testbeds.value) or ("*",)
    fleet = Fleet(
        executor,
        wanted,
        lambda host: BlockTask(suite=document, testbed=host.testbed).as_text(),
        lambda name: is_wanted_testbed(name, wanted),
        check_one_class,
        progress,
    )
    try:
        progress.say(f"asking the hosts of {on} what they are")
        fleet.survey()
        if one_host:
            fleet.keep_one()
        names = ", ".join(testbed.name for testbed in fleet.testbeds)
        progress.note(f"measuring on {plural(len(fleet.testbeds), 'host')} of {on}: {names}")
        _warn_of_steps(settings, fleet, str(SuiteRef(suite.name, suite.version)), progress)
        yield fleet
    finally:
        fleet.close()


def _warn_of_steps(settings: Settings, fleet: Fleet, suite: str, progress: ProgressReporter) -> None:
    """Name the hosts that have stepped away from the others, before they take part in a decision."""
    try:
        classes = list(fleet_status(replace(settings, suite_flag=suite)))
    except NoDataError:
        return
    for host in (host for one in classes for host in one.hosts if host.name in fleet.names):
        for text in step_texts(host, suite):
            progress.warn(f"{text}; see `regress-gate fleet status`")


@dataclass(frozen=True, slots=True)
class HostFiles:
    """What a host has that is old, or has deleted."""

    name: str
    counts: dict[str, int]
    """See `OldFiles.counts`; empty: not known."""
    error: str | None

    def __bool__(self) -> bool:
        return bool(self.counts.get("logs") or self.counts.get("leftovers"))


def prune_hosts(on: str, before: datetime, kept: Collection[str], *, delete: bool) -> list[HostFiles]:
    """What the hosts of an engine have beside the store that is older than a time (`old_files`), by host; with
    `delete`, it is deleted. `kept` are the experiments whose logs stay. Raises FleetError for an engine that cannot be
    used."""
    task = {"before": before.isoformat(), "kept": sorted(kept), "delete": delete}
    executor = make_executor(on, None)
    try:
        answers = ask_hosts(executor, lambda host: BlockTask({}, host.testbed, prune=task).as_text(), "prune")
    finally:
        executor.close()
    return [HostFiles(name, dict(one.old_files or {}), one.error) for name, one in answers.items()]


def make_executor(on: str, accelerator: str | None) -> FleetExecutor:
    """The engine that `--on` names, for a suite that uses `accelerator`."""
    engine, _, rest = check_engine(on).partition("://")
    if engine == "slurm":
        return SlurmExecutor(rest, accelerator, WORKER, fleet_directory())
    return RayExecutor(rest, accelerator, WORKER)
