"""What holds for all tests: hypothesis has no deadline and examples may be slow, since a busy machine is not a fault.

The profiles of hypothesis, chosen by REGRESS_GATE_EXAMPLES:

- `quick`, the default: 20 examples a property, new ones each time;
- `same`, the default where CI is set: the same 20 examples each time, so that a red run is caused by the change;
- `fresh`: 100 other examples, for the stage of .ci/run that looks for what the others never try;
- `mutants`: the same 20, for mutmut, which runs a test several times in one process.
"""

import os
import socketserver
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=20, **_PATIENT)
settings.register_profile("same", max_examples=20, derandomize=True, **_PATIENT)
settings.register_profile("fresh", max_examples=100, **_PATIENT)
settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=20,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.load_profile(os.environ.get("REGRESS_GATE_EXAMPLES") or ("same" if os.environ.get("CI") else "quick"))


_report_error = socketserver.BaseServer.handle_error


def _handle_error(server: socketserver.BaseServer, request: Any, client_address: Any) -> None:
    """Servers of tests print nothing when a client is gone: it would stand in what a command is seen to print."""
    if not isinstance(sys.exc_info()[1], ConnectionError):
        _report_error(server, request, client_address)


socketserver.BaseServer.handle_error = _handle_error  # type: ignore[method-assign]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than cores for the whole suite, since many tests wait for a process; none for named tests."""
    if config.known_args_namespace.file_or_dir:
        config.option.dist = "no"
        return 0
    return 1 + (os.cpu_count() or 2)
