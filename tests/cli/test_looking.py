"""Looking at stored blocks: which decision is asked for, when, and what is said of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from regress_gate.app.compare import ComparisonScope
from regress_gate.app.measure_comparison import InterimAnalysis
from regress_gate.app.measurement_task import MeasurementTask
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE, ExperimentPlan, suite_digest
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.result import Reason, ReasonCode, Result, Verdict
from regress_gate.model.run import BlockPosition, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository, open_store
from regress_gate.suites import load_suite
from tests.cli.conftest import Gate
from tests.factories.results import a_result, a_series
from tests.factories.runs import make_run
from tests.factories.stored_runs import make_trial

VERSIONS = {BASELINE: "0.19.0", CANDIDATE: "0.19.1"}
PASSED = a_result(series=[a_series("c1"), a_series("c2")])
OPEN = a_result(
    series=[a_series("c1"), a_series("c2", verdict=Verdict.UNDECIDED)],
    reasons=[Reason(code=ReasonCode.UNDECIDED, text="1 of 2 gated series are undecided")],
)


@dataclass
class Said:
    """Progress that is kept."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class Desk:
    """Two versions of which blocks are stored, and a decision made to order."""

    store: Repository
    url: str
    result: Result = OPEN
    asked: list[Any] = field(default_factory=list)
    live: Any = field(default_factory=Said)

    @property
    def looks(self) -> InterimAnalysis:
        suite = load_suite("cpu-tiny")
        versions = {side: Version.parse(text) for side, text in VERSIONS.items()}
        what = MeasurementTask(suite, Testbed("lab"), versions, ProvisionConfig(), {})
        settings: Any = SimpleNamespace(store_url=SimpleNamespace(value=self.url), suite=SimpleNamespace(value=None))
        return InterimAnalysis(settings, what, self.decide)

    def decide(self, scope: ComparisonScope) -> Result:
        refs = [str(scope.baseline), str(scope.candidate)]
        self.asked.append((refs, (scope.suite, *scope.testbeds)))
        return self.result

    def measure(self, *blocks: int, most_blocks: int | None = 6, build: str = "") -> None:
        suite = load_suite("cpu-tiny")
        self.store.add_runs(
            make_run(
                f"e1/{block}-{side}",
                version + build,
                make_trial(f"{block} {side}"),
                suite=SuiteRef(suite.name, suite.version),
                testbed=Testbed("lab"),
                place=BlockPosition("e1", block, 1, side, seconds=45.0, most_blocks=most_blocks),
            )
            for block in blocks
            for side, version in VERSIONS.items()
        )

    def ask(self, *, most_blocks: int = 6) -> str | None:
        suite = load_suite("cpu-tiny")
        ref = SuiteRef(suite.name, suite.version)
        plan = ExperimentPlan("e1", ref, suite_digest(suite), "lab", VERSIONS, 6, 1, False, None, most_blocks)
        return self.looks.after_block(self.store, plan, self.live)()


@pytest.fixture
def desk(gate: Gate) -> Iterator[Desk]:
    url = f"sqlite:///{gate.store}"
    with open_store(url, create=True) as store:
        yield Desk(store, url)


class TestAfterABlock:
    def test_one_block_is_nothing_to_look_at(self, desk: Desk) -> None:
        desk.measure(1)
        assert desk.ask() is None
        assert (desk.asked, desk.live.notes) == ([], [])

    def test_it_goes_on_and_says_for_how_long_at_most_while_something_is_undecided(self, desk: Desk) -> None:
        desk.measure(1, 2)
        assert desk.ask() is None
        assert desk.live.notes == [
            "after block 2 of at most 6: 1 of 2 gated series undecided, going on (about 6 min at most)"
        ]

    def test_it_stops_when_the_answer_stands_and_says_why(self, desk: Desk) -> None:
        desk.measure(1, 2, 3)
        desk.result = PASSED
        assert desk.ask() == "all 2 gated series are within their margins"
        assert desk.live.notes == ["stopped after block 3 of at most 6: all 2 gated series are within their margins"]

    def test_the_decision_is_that_on_the_builds_that_were_measured_and_on_nothing_else(self, desk: Desk) -> None:
        desk.measure(1, 2, build="+cpu")
        desk.ask()
        assert desk.asked == [(["0.19.0+cpu", "0.19.1+cpu"], ("cpu-tiny", "lab"))]

    def test_blocks_that_were_stored_before_count_as_far_as_both_sides_have_them(self, desk: Desk) -> None:
        desk.measure(1, 2, 3, 4)
        desk.ask(most_blocks=9)
        assert desk.live.notes[0].startswith("after block 4 of at most 9: ")


class TestStanding:
    def test_what_a_plan_like_this_one_decided_stands(self, desk: Desk) -> None:
        desk.measure(1, 2, 3)
        desk.result = PASSED
        assert desk.looks.find_settled(8) == "3 blocks are stored: all 2 gated series are within their margins"

    def test_what_it_did_not_decide_does_not(self, desk: Desk) -> None:
        desk.measure(1, 2, 3)
        assert desk.looks.find_settled(8) is None

    def test_blocks_that_were_to_be_looked_at_once_have_had_that_look(self, desk: Desk) -> None:
        desk.measure(1, 2, 3, most_blocks=None)
        desk.result = PASSED
        assert desk.looks.find_settled(8) is None
        assert desk.asked == []

    def test_one_that_was_looked_at_often_is_enough(self, desk: Desk) -> None:
        desk.measure(1, 2, most_blocks=None)
        desk.measure(3, most_blocks=6)
        desk.result = PASSED
        assert desk.looks.find_settled(8) is not None

    def test_where_nothing_is_stored_nothing_stands(self, desk: Desk) -> None:
        assert desk.looks.find_settled(8) is None
