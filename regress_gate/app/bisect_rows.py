"""The builds that a search chooses from, asked of the indexes of packages and of GitHub: between two releases, between
two commits, and what is left out. Not for measuring them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regress_gate.accelerators.registry import default_variant
from regress_gate.app.issue_tracking import open_github
from regress_gate.app.measure_comparison import NotMeasuredError
from regress_gate.app.measurement_task import MeasurementTask
from regress_gate.app.settings import Settings
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE
from regress_gate.bench.inspect.published_wheels import CPU_DISTRIBUTION, DISTRIBUTION, published_versions
from regress_gate.bench.provision.interface import NotPublishedError
from regress_gate.bench.provision.recipe import WHEEL_INDEX, find_wheel
from regress_gate.errors import InputError, RegressGateError
from regress_gate.github import UnavailableError
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.version import Version
from regress_gate.store.repository import find_store
from regress_gate.text import one_line, plural
from regress_gate.watch.candidates import (
    Candidate,
    ChangedFiles,
    changed_files,
    chosen_candidates,
    commits_between,
    has_order,
    releases_between,
)

_PROBED_FROM_AN_END = 60
"""Commits that are asked for a wheel, from each end, before a range is said to have none."""


@dataclass(frozen=True, slots=True)
class BuildFinder:
    """Knows where builds for the machine of a task are published."""

    settings: Settings
    provisioning: ProvisionConfig
    task: MeasurementTask
    """Of both ends."""
    offline: bool

    @property
    def variant(self) -> str | None:
        return self.provisioning.variant or default_variant(self.task.testbed.accelerator)

    def find_row(self, chosen: Iterable[str]) -> tuple[list[Candidate], str]:
        """The builds between the ends of the task, both included, and their kind: `chosen`, where versions are,
        `releases` or `commits`. Raises InputError for ends in another order, NotMeasuredError where commits or their
        wheels are not known."""
        good, bad = self.task.versions[BASELINE], self.task.versions[CANDIDATE]
        if versions := [Version.parse(text) for text in chosen]:
            return chosen_candidates(good, bad, versions), "chosen"
        if has_order(good) and has_order(bad):
            if not good.is_before(bad):
                raise InputError(
                    f"{good} does not come before {bad}", todo="exchange them, and search with --improvement"
                )
            return releases_between(good, bad, self._release_numbers()), "releases"
        with open_github(self.settings.environment, offline=self.offline) as client:
            try:
                row = commits_between(client, good, bad, self.variant)
            except UnavailableError as error:
                raise NotMeasuredError(f"the commits between {good} and {bad} are not known: {error}") from None
        return self._between_wheels(row), "commits"

    def _release_numbers(self) -> list[str]:
        """Published releases; offline, those of which something is stored."""
        store, held = find_store(str(self.settings.store_url.value)), list[Version]()
        if store is not None:
            with store:
                held = [holding.version for holding in store.inventory() if holding.testbed == self.task.testbed.name]
        stored = [version.number for version in held if version.number is not None and has_order(version)]
        if self.offline:
            return list(dict.fromkeys(stored))
        distribution = CPU_DISTRIBUTION if self.variant == "cpu" else DISTRIBUTION
        return list(dict.fromkeys([*published_versions(distribution, self.settings.environment), *stored]))

    def releases_left_out(self, good: Version, bad: Version) -> tuple[list[Version], str]:
        """Releases that lie between two neighbours of a row that somebody chose, or why they are not known."""
        if not (has_order(good) and has_order(bad) and good.is_before(bad)):
            return [], ""
        try:
            row = releases_between(good, bad, self._release_numbers())
        except RegressGateError as error:
            return [], f"releases between {good} and {bad} are not known: {one_line(str(error))}"
        return [one.version for one in row[1:-1]], ""

    def has_wheel(self, version: Version) -> bool:
        """Whether a commit has a wheel for this machine. Raises ProvisionError if the index does not answer."""
        if self.provisioning.way not in (None, ProvisionMethod.VENV):
            return True  # images and launch lines show it when they are started
        index = self.provisioning.wheel_index or WHEEL_INDEX
        try:
            find_wheel(index, version.commit or "", version.variant, version)
        except NotPublishedError:
            return False
        return True

    def _between_wheels(self, row: Sequence[Candidate]) -> list[Candidate]:
        """From the first to the last commit that has a wheel. Raises NotMeasuredError if an end has none near."""

        def nearest(places: Sequence[int]) -> int:
            for at in places[:_PROBED_FROM_AN_END]:
                if self.has_wheel(row[at].version):
                    return at
            tried = plural(min(len(places), _PROBED_FROM_AN_END), "commit")
            raise NotMeasuredError(f"none of {tried} from {row[places[0]].version} has a wheel for this machine")

        places = range(len(row))
        low, high = nearest(places), nearest(places[::-1])
        if low >= high:
            raise NotMeasuredError("there are no two commits with a wheel for this machine between the two versions")
        return list(row[low : high + 1])

    def commits_within(self, good: Version, bad: Version) -> tuple[list[Candidate] | None, str]:
        """The commits with wheels between two neighbouring releases, or why they cannot be searched."""
        if self.provisioning.way not in (None, ProvisionMethod.VENV):
            return None, "they are installed from wheels, and the versions are started otherwise here"
        if self.offline:
            return None, "--offline"
        try:
            with open_github(self.settings.environment, offline=False) as client:
                row = commits_between(client, good, bad, self.variant)
            return self._between_wheels(row), ""
        except (RegressGateError, UnavailableError) as error:
            return None, one_line(str(error))

    def files_of(self, one: Candidate) -> tuple[ChangedFiles | None, str]:
        """The files that a commit changed, or why they are not known."""
        try:
            with open_github(self.settings.environment, offline=self.offline) as client:
                return changed_files(client, one), ""
        except (RegressGateError, UnavailableError) as error:
            return None, f"the files of {one.version} are not known: {one_line(str(error))}"
