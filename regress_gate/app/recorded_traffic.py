"""What the recorded traffic of a suite asks for, before any of it is sent: for `suite show`, `lint` and `--plan`."""

from regress_gate.bench.load.pass_requests import read_scenario_trace
from regress_gate.bench.load.trace import trace_facts
from regress_gate.errors import InputError
from regress_gate.model.suite import Scenario, Suite, TraceFacts


def suite_traces(suite: Suite) -> dict[str, TraceFacts | str]:
    """By scenario that has a trace: its facts, or why the file cannot be used."""
    found: dict[str, TraceFacts | str] = {}
    for scenario in suite.scenarios:
        try:
            trace = read_scenario_trace(scenario)
        except InputError as error:
            found[scenario.name] = str(error)
        else:
            if trace is not None:
                found[scenario.name] = trace_facts(trace)
    return found


def trace_error(scenario: Scenario) -> str | None:
    """Why the recorded traffic of a scenario cannot be sent; None where it can, or where it has none."""
    try:
        read_scenario_trace(scenario)
    except InputError as error:
        return str(error)
    return None
