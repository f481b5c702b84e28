"""The finer facts of an accelerator keep machines apart where both sides know them, and only there."""

from dataclasses import fields

import pytest

from regress_gate.model.testbed import Testbed, compare_testbeds
from regress_gate.store.baseline_model import TestbedPart
from tests.factories.runs import TESTBED

FINER = {
    "accelerator_sm": ("9.0", "8.9"),
    "accelerator_memory_bytes": (143_771 * 2**20, 97_871 * 2**20),
    "accelerator_max_clock_mhz": (1980, 1785),
    "accelerator_power_limit_watts": (700, 500),
}


def with_facts(name: str, **facts: object) -> Testbed:
    return Testbed(**{**TESTBED.facts, "name": name, **facts})


@pytest.mark.parametrize(("fact", "values"), FINER.items())
@pytest.mark.parametrize("name", ["bench-1", "bench-2"])
def test_a_known_difference_blocks_and_is_named(fact: str, values: tuple[object, object], name: str) -> None:
    one, other = with_facts("bench-1", **{fact: values[0]}), with_facts(name, **{fact: values[1]})
    found = compare_testbeds(one, other)
    assert not found.comparable
    assert f"{fact}: {values[0]} → {values[1]}" in [str(difference) for difference in found.differences]


@pytest.mark.parametrize(("fact", "values"), FINER.items())
def test_what_one_side_does_not_know_does_not_block(fact: str, values: tuple[object, object]) -> None:
    known = with_facts("bench-1", **{fact: values[0]})
    for other in (TESTBED, with_facts("bench-2")):
        assert compare_testbeds(known, other).comparable
        assert compare_testbeds(other, known).comparable


def test_an_accelerators_memory_may_differ_by_what_firmware_reserves() -> None:
    one, other = (with_facts("bench-1", accelerator_memory_bytes=size) for size in (143_771 * 2**20, 143_156 * 2**20))
    assert compare_testbeds(one, other).comparable


def test_an_exported_baseline_can_hold_every_fact() -> None:
    assert set(TestbedPart.model_fields) == {field.name for field in fields(Testbed)}
