"""What is to be measured: blocks in alternating order, and what of them is still missing."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.experiment.experiment_plan import (
    BASELINE,
    CANDIDATE,
    SINGLE,
    ExperimentPlan,
    Slot,
    missing_units,
    new_experiment_id,
    server_groups,
)
from regress_gate.model.run import BlockPosition, Run, RunFailure, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

BOTH = {BASELINE: "0.19.0", CANDIDATE: "0.19.1"}
SUITE = SuiteRef("small", "1")


def make_plan(**given: Any) -> ExperimentPlan:
    facts = {"versions": BOTH, "blocks": 2, "trials": 1, "resident": False, **given}
    return ExperimentPlan(experiment="e1", suite=SUITE, suite_digest="0" * 64, testbed="lab", **facts)


def make_run(slot: Slot, *, experiment: str = "e1", failure: RunFailure | None = None) -> Run:
    place = BlockPosition(experiment, slot.block, slot.position, slot.side, group=slot.group)
    label = f"{experiment}/{slot}"
    return Run(Version.parse("0.19.1"), Testbed("lab"), SUITE, label, (), place=place, failure=failure)


def order(plan: ExperimentPlan, groups: tuple[str, ...] = ("server",)) -> list[list[str]]:
    return [[f"{slot.block}.{slot.position} {slot.side}" for slot in unit] for unit in plan.units(groups)]


def make_suite(*servers: dict[str, Any]) -> Suite:
    workload = {"input_len": 8, "output_len": 8, "num_requests": 4, "concurrency": 1}
    scenarios = [{"name": f"s{n}", "server": server, "workload": workload} for n, server in enumerate(servers, 1)]
    return Suite.model_validate({"name": "small", "version": "1", "description": "…", "scenarios": scenarios})


class TestUnits:
    def test_blocks_alternate_which_side_is_first(self) -> None:
        assert order(make_plan(blocks=3)) == [
            ["1.1 baseline"],
            ["1.2 candidate"],
            ["2.1 candidate"],
            ["2.2 baseline"],
            ["3.1 baseline"],
            ["3.2 candidate"],
        ]

    def test_resident_servers_are_measured_together(self) -> None:
        assert order(make_plan(resident=True)) == [
            ["1.1 baseline", "1.2 candidate"],
            ["2.1 candidate", "2.2 baseline"],
        ]

    def test_a_plan_of_one_version_is_one_run_a_block(self) -> None:
        plan = make_plan(versions={SINGLE: "0.19.1"}, blocks=3)
        assert order(plan) == [["1.1 single"], ["2.1 single"], ["3.1 single"]]

    def test_each_server_of_a_suite_is_measured_on_both_sides_before_the_next(self) -> None:
        slots = [slot for (slot,) in make_plan(blocks=1).units(["server-a", "server-b"])]
        assert [(slot.group, slot.side, slot.position) for slot in slots] == [
            ("server-a", BASELINE, 1),
            ("server-a", CANDIDATE, 2),
            ("server-b", BASELINE, 3),
            ("server-b", CANDIDATE, 4),
        ]

    @given(st.integers(1, 12), st.integers(1, 3), st.booleans())
    def test_every_side_of_every_block_and_server_has_one_slot(self, blocks: int, servers: int, resident: bool) -> None:
        plan = make_plan(blocks=blocks, resident=resident)
        slots = [slot for unit in plan.units(f"server-{n}" for n in range(servers)) for slot in unit]
        assert set(Counter((slot.block, slot.side, slot.group) for slot in slots).values()) == {1}
        assert len(slots) == blocks * 2 * servers
        assert [slot.block for slot in slots] == sorted(slot.block for slot in slots)
        for block in range(1, blocks + 1):
            assert [slot.position for slot in slots if slot.block == block] == list(range(1, 2 * servers + 1))

    @given(st.integers(1, 6).map(lambda half: 2 * half), st.booleans())
    def test_over_an_even_number_of_blocks_each_side_is_first_equally_often(self, blocks: int, resident: bool) -> None:
        slots = [slot for unit in make_plan(blocks=blocks, resident=resident).units(["server"]) for slot in unit]
        first = Counter(slot.side for slot in slots if slot.position == 1)
        assert first[BASELINE] == first[CANDIDATE] == blocks // 2


class TestGroups:
    def test_scenarios_that_want_the_same_server_share_one(self) -> None:
        (group,) = server_groups(make_suite({"model": "m"}, {"model": "m"}))
        assert (group.name, [scenario.name for scenario in group.scenarios]) == ("server", ["s1", "s2"])

    def test_others_get_a_server_each_named_after_its_first_scenario(self) -> None:
        eager = {"model": "m", "engine_args": {"enforce_eager": True}}
        groups = server_groups(make_suite({"model": "m"}, eager, {"model": "m"}))
        assert [(group.name, [scenario.name for scenario in group.scenarios]) for group in groups] == [
            ("server-s1", ["s1", "s3"]),
            ("server-s2", ["s2"]),
        ]

    def test_the_environment_of_a_server_makes_it_another(self) -> None:
        assert len(server_groups(make_suite({"model": "m"}, {"model": "m", "env": {"X": "1"}}))) == 2


PLANS = st.builds(
    make_plan,
    blocks=st.integers(1, 6),
    resident=st.booleans(),
    versions=st.sampled_from([BOTH, {SINGLE: "0.19.1"}]),
    driver=st.sampled_from([None, "guidellm"]),
    most_blocks=st.none() | st.integers(1, 9),
)


class TestMissing:
    @given(PLANS, st.data())
    def test_runs_that_count_are_not_made_again_and_the_rest_is_made_in_order(
        self, plan: ExperimentPlan, data: st.DataObject
    ) -> None:
        units = list(plan.units(["server"]))
        done = data.draw(st.lists(st.sampled_from(units), unique=True))
        counted = [make_run(slot) for unit in done for slot in unit]
        assert missing_units(plan, ["server"], counted, {}, 3) == [unit for unit in units if unit not in done]

    def test_a_failed_run_counts(self) -> None:
        plan = make_plan()
        failed = make_run(Slot(1, 1, BASELINE, "server"), failure=RunFailure("died_at_start", "it died"))
        assert (Slot(1, 1, BASELINE, "server"),) not in missing_units(plan, ["server"], [failed], {}, 3)

    def test_runs_of_another_experiment_or_of_none_do_not_count(self) -> None:
        plan = make_plan()
        others = [make_run(slot, experiment="e2") for unit in plan.units(["server"]) for slot in unit]
        alone = Run(Version.parse("0.19.1"), Testbed("lab"), SUITE, "imported", ())
        assert missing_units(plan, ["server"], [*others, alone], {}, 3) == list(plan.units(["server"]))

    def test_resident_runs_count_together_or_not_at_all(self) -> None:
        plan = make_plan(resident=True)
        first, second = plan.units(["server"])
        assert missing_units(plan, ["server"], [make_run(first[0])], {}, 3) == [first, second]
        assert missing_units(plan, ["server"], map(make_run, first), {}, 3) == [second]

    @given(PLANS, st.integers(1, 4), st.data())
    def test_a_run_without_attempts_left_is_not_made_again(
        self, plan: ExperimentPlan, limit: int, data: st.DataObject
    ) -> None:
        units = list(plan.units(["server"]))
        tries = {
            (slot.block, slot.side, slot.group): data.draw(st.integers(0, 2 * limit))
            for unit in units
            for slot in unit[:1]
        }
        left = missing_units(plan, ["server"], [], tries, limit)
        assert left == [unit for unit, times in zip(units, tries.values(), strict=True) if times < limit]

    def test_each_server_of_a_suite_is_missing_by_itself(self) -> None:
        plan = make_plan(versions={SINGLE: "0.19.1"}, blocks=1)
        done = make_run(Slot(1, 1, SINGLE, "server-a"))
        assert missing_units(plan, ["server-a", "server-b"], [done], {}, 3) == [(Slot(1, 2, SINGLE, "server-b"),)]


@given(PLANS)
def test_a_plan_survives_being_kept_as_json(plan: ExperimentPlan) -> None:
    again = ExperimentPlan.from_document(json.loads(json.dumps(plan.as_document())))
    assert again == plan
    assert list(again.versions) == list(plan.versions)  # the order is part of it


def test_a_plan_from_before_interim_analyses_has_one_analysis() -> None:
    document = make_plan(most_blocks=6).as_document()
    del document["most_blocks"]
    assert ExperimentPlan.from_document(document) == make_plan()


def test_experiments_sort_by_time_and_two_of_one_second_differ() -> None:
    early, late = (datetime(2026, 11, 21, 7, 0, second, tzinfo=UTC) for second in (1, 2))
    assert new_experiment_id(early) < new_experiment_id(late)
    assert new_experiment_id(early) != new_experiment_id(early)
