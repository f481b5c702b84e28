"""What the store keeps of a machine: what only informs follows the machine, hardware must stay the same."""

import pytest

from regress_gate.errors import InputError
from regress_gate.model.testbed import Testbed
from regress_gate.store import rows

BEFORE = {"cpu": "EPYC", "driver": "570.86.15", "os": "Ubuntu 22.04", "python": "3.11.9"}


def test_a_new_driver_system_or_python_of_the_tool_replaces_the_old_one() -> None:
    now = Testbed("lab", cpu="EPYC", driver="575.51.03", os="Ubuntu 24.04", python="3.12.1")
    assert rows.merge_testbed_facts(now, BEFORE, None) == now.facts


def test_facts_that_a_result_lacks_are_kept() -> None:
    assert rows.merge_testbed_facts(Testbed("lab", python="3.12.1"), BEFORE, None) == {**BEFORE, "python": "3.12.1"}


@pytest.mark.parametrize("fact", ["cpu", "accelerator"])
def test_other_hardware_is_another_testbed(fact: str) -> None:
    with pytest.raises(InputError, match=f"{fact} is EPYC in the store and Xeon here.*another testbed name"):
        rows.merge_testbed_facts(Testbed("lab", **{fact: "Xeon"}), {fact: "EPYC"}, None)
