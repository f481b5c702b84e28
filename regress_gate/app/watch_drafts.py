"""Drafts of records and of reports for vLLM's tracker, as files, for what the watch is about to tell of.

Nothing is sent, and no file is replaced: a person may have begun to complete it.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from regress_gate.app.settings import DEFAULT_SUITE, Settings
from regress_gate.errors import InputError
from regress_gate.files import create_file
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.store.repository import Repository
from regress_gate.suites import load_suite
from regress_gate.watch.drafts import MeasuredWith, draft_finding_record, draft_upstream_report
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding


def write_drafts(
    settings: Settings, store: Repository, looks: Iterable[LookSummary], directory: Path, *, dry_run: bool
) -> Iterator[str]:
    """Write two files for each regression that these looks, the oldest first, have seen and not seen gone: the record
    `DRAFT-….yaml` and the report `DRAFT-….md`. A dry run writes none. Gives what was done with each file, a sentence.

    Raises InputError for a file that cannot be written.
    """
    newest = {
        finding.key: (finding, look)
        for look in looks
        for finding in look.findings
        if finding.state is not FindingState.UNKNOWN
    }
    scenarios = _scenarios(settings)
    for finding, look in newest.values():
        if finding.state is FindingState.GONE:
            continue
        measured = _measured_with(store, finding, look, scenarios)
        name, record = draft_finding_record(finding, measured, today=datetime.now(UTC).date())
        title, report = draft_upstream_report(finding, look, measured)
        path = directory / name
        for file, text in ((path, record), (path.with_suffix(".md"), f"# {title}\n\n{report}")):
            if file.exists():
                yield f"{file} is there already and is left as it is"
            elif dry_run:
                yield f"{file} would be written"
            else:
                create_file(file, text, todo="move it away", with_folder=True)
                yield f"{file} was written"


def _scenarios(settings: Settings) -> tuple[str, dict[str, Scenario]]:
    """`NAME@VERSION` of the suite in force, and its scenarios by name; none where it cannot be read: the drafts then
    leave the commands to the person."""
    try:
        suite = load_suite(str(settings.suite.value or DEFAULT_SUITE))
    except InputError:
        return "", {}
    return f"{suite.name}@{suite.version}", {one.name: one for one in suite.scenarios}


def _measured_with(
    store: Repository, finding: WatchFinding, look: LookSummary, scenarios: tuple[str, dict[str, Scenario]]
) -> MeasuredWith:
    """From the newest run of the build that was looked at."""
    name, _, version = finding.suite.partition("@")
    runs = store.runs(version=look.candidate, testbed=finding.testbed, suite=SuiteRef(name, version))
    testbed = runs[-1].testbed if runs else Testbed(finding.testbed)
    suite, known = scenarios
    return MeasuredWith(known if suite == finding.suite else {}, testbed, runs[-1].libraries if runs else {})
