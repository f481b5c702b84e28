"""Which stored runs a comparison uses: what each ref means, and that nothing is chosen by chance."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regress_gate.errors import InputError, NoDataError
from regress_gate.gate.comparison_choice import resolve_ref, select_comparison
from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Ref, Version
from regress_gate.store.store_interface import Holding, HoldingOrigin, Pin

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
OLD, NEW, NIGHTLY = "0.19.0", "0.19.1", "0.23.1.dev7+g4080263bb"


def holding(version: str, testbed: str = "lab", **changes: Any) -> Holding:
    facts = {
        "suite": SuiteRef("chat", "1"),
        "runs": 5,
        "trials": 5,
        "scenarios": 1,
        "first": NOON,
        "last": NOON,
        "pinned": False,
        "origin": HoldingOrigin.STORE,
        **changes,
    }
    return Holding(version=Version.parse(version), testbed=testbed, **facts)


def choose(*held: Holding, baseline: str = OLD, candidate: str = NEW, **options: Any) -> tuple[Holding, Holding]:
    choice = select_comparison(Ref.parse(baseline), Ref.parse(candidate), held, [], **options)
    return choice.baseline, choice.candidate


def versions(ref: str, *held: Holding, pins: tuple[Pin, ...] = ()) -> list[str]:
    return [str(one.version) for one in resolve_ref(Ref.parse(ref), held, pins, everything=held)]


class TestRef:
    def test_a_version_means_every_variant_that_is_stored(self) -> None:
        assert versions("v0.19.1", holding("0.19.1+cpu"), holding("0.19.1+cu129"), holding(OLD)) == [
            "0.19.1+cpu",
            "0.19.1+cu129",
        ]

    def test_a_version_that_is_stored_by_exactly_its_name_is_no_build_of_a_fork(self) -> None:
        assert versions("v0.19.1", holding("0.19.1"), holding("0.19.1+fork")) == ["0.19.1"]
        assert versions("v0.19.1", holding("0.19.1", "other"), holding("0.19.1+fork")) == ["0.19.1", "0.19.1+fork"]
        left, right = choose(holding(NEW), holding(f"{NEW}+fork"), baseline=NEW, candidate=f"{NEW}+fork")
        assert (str(left.version), str(right.version)) == (NEW, f"{NEW}+fork")

    def test_latest_is_the_newest_release_by_number_and_no_candidate(self) -> None:
        held = [holding("0.9.2"), holding("0.10.0", "lab"), holding("0.10.0", "other"), holding("0.11.0rc1")]
        assert versions("latest", *held) == ["0.10.0", "0.10.0"]

    def test_nightly_is_the_development_build_that_was_measured_last(self) -> None:
        later = holding("commit:5080263bb", last=NOON + timedelta(hours=1))
        assert versions("nightly", holding(NIGHTLY), later, holding("0.24.0", last=NOON + timedelta(days=1))) == [
            "commit:5080263bb"
        ]
        assert versions("nightly", holding(NIGHTLY), holding("commit:5080263bb", last=None)) == [NIGHTLY]

    def test_pinned_is_the_first_pin_that_has_runs(self) -> None:
        pins = tuple(Pin(Version.parse(text), NOON) for text in ("0.18.0", OLD, NEW))
        assert versions("pinned", holding(NEW), holding(OLD), pins=pins) == [OLD]
        with pytest.raises(NoDataError, match="no pinned version has stored runs"):
            versions("pinned", holding(NEW), pins=pins[:2])

    def test_without_runs_the_error_lists_what_is_stored_once_each(self) -> None:
        with pytest.raises(NoDataError) as refused:
            versions("v9.9.9", holding(OLD, "lab"), holding(OLD, "other"), holding(NEW))
        assert str(refused.value) == (
            "no stored runs for v9.9.9; stored: 0.19.0, 0.19.1 (see `regress-gate baseline list`)"
        )
        with pytest.raises(NoDataError) as refused:
            versions("v9.9.9")
        assert str(refused.value) == (
            "no stored runs for v9.9.9; nothing is stored yet: import results with `regress-gate import`"
        )

    def test_a_long_list_of_what_is_stored_is_cut_after_twenty(self) -> None:
        with pytest.raises(NoDataError, match=r"0\.0\.19, … \(see"):
            versions("v9.9.9", *(holding(f"0.0.{number}") for number in range(21)))
        with pytest.raises(NoDataError, match=r"0\.0\.19 \(see"):
            versions("v9.9.9", *(holding(f"0.0.{number}") for number in range(20)))


class TestChoice:
    def test_both_sides_come_from_the_same_suite_and_testbed(self) -> None:
        held = [holding(OLD, "lab"), holding(NEW, "other"), holding(OLD, "other")]
        assert choose(*held) == (held[2], held[1])

    def test_of_several_ways_none_is_chosen_and_each_is_named(self) -> None:
        held = [holding(version, testbed) for version in (OLD, NEW) for testbed in ("lab", "other")]
        with pytest.raises(InputError) as refused:
            choose(*held)
        assert str(refused.value) == (
            "0.19.0 and 0.19.1 can be compared in more than one way; choose one: "
            "--suite chat@1 --testbed lab (0.19.0 → 0.19.1) | --suite chat@1 --testbed other (0.19.0 → 0.19.1)"
        )
        assert choose(*held, testbeds=("other",)) == (held[1], held[3])

    def test_a_suite_is_named_with_or_without_its_version(self) -> None:
        other = SuiteRef("chat", "2")
        held = [holding(OLD), holding(NEW), holding(OLD, suite=other), holding(NEW, suite=other)]
        assert choose(*held, suite="chat@2") == (held[2], held[3])
        with pytest.raises(InputError, match="more than one way"):
            choose(*held, suite="chat")

    def test_shipped_runs_do_not_replace_those_of_the_user(self) -> None:
        shipped = [holding(version, "demo", origin=HoldingOrigin.SHIPPED) for version in (OLD, NEW)]
        own = [holding(OLD), holding(NEW)]
        assert choose(*shipped) == tuple(shipped)
        assert choose(*shipped, *own) == tuple(own)

    def test_a_build_that_is_partly_shipped_is_one_way(self) -> None:
        own = [holding(OLD), holding(NEW)]
        assert choose(holding(OLD, origin=HoldingOrigin.SHIPPED), *own) == tuple(own)

    def test_without_a_common_testbed_the_pair_is_chosen_all_the_same(self) -> None:
        """The comparison then refuses it with the differences, which says more than "no data"."""
        held = [holding(OLD, "lab"), holding(NEW, "other"), holding(NEW, "third", suite=SuiteRef("bulk", "1"))]
        assert choose(*held) == (held[0], held[1])

    @pytest.mark.parametrize(
        ("refs", "there", "held"),
        [({"baseline": "v9.9.9"}, "other", NEW), ({"candidate": "v9.9.9"}, "lab", OLD)],
    )
    def test_a_side_without_runs_is_answered_with_what_the_other_sides_testbed_has(
        self, refs: dict[str, str], there: str, held: str
    ) -> None:
        with pytest.raises(NoDataError) as refused:
            choose(holding(OLD), holding(NEW, "other"), **refs)
        assert str(refused.value) == (
            f"no stored runs for v9.9.9 on {there}; stored there: {held}; "
            f"`regress-gate run v9.9.9 --suite chat --testbed {there}` would fill the gap"
        )

    def test_a_build_is_not_compared_with_itself(self) -> None:
        with pytest.raises(InputError, match=r"v0\.19\.0 and latest are the same stored build \(0\.19\.0\)"):
            choose(holding(OLD), baseline="v0.19.0", candidate="latest")
