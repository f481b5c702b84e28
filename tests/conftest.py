"""What holds for all tests: hypothesis has no deadline, because a busy machine is not a fault.

The profiles of hypothesis, chosen by REGRESS_GATE_EXAMPLES:

- `quick`, the default: 20 examples a property, new ones each time;
- `same`, the default where CI is set: the same 20 examples each time, so that a red run is caused by the change;
- `fresh`: 200 new examples, for the stage of .ci/run that looks for what the others never try;
- `mutants`: the same 20, for mutmut, which runs a test several times in one process.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("same", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("fresh", deadline=None, max_examples=200)
settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=20,
    derandomize=True,
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile(os.environ.get("REGRESS_GATE_EXAMPLES") or ("same" if os.environ.get("CI") else "quick"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than cores for the whole suite, since many tests wait for a process; none for named tests."""
    if config.known_args_namespace.file_or_dir:
        config.option.dist = "no"
        return 0
    return 1 + (os.cpu_count() or 2)
