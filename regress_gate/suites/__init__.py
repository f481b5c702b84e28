"""The suites that come with the program, by name. Results remember the suite's name and version, not its text."""

from importlib import resources

from regress_gate.model.documents import parse_yaml, validate
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Suite


def shipped_suites() -> dict[str, Suite]:
    """All shipped suites by name; each stands in a file of that name."""
    found = {}
    for entry in sorted(resources.files(__name__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            document = parse_yaml(entry.read_text(encoding="utf-8"), f"suites/{entry.name}")
            suite = validate(Suite, document)
            found[suite.name] = suite
    return found


def find_suite(ref: SuiteRef) -> Suite | None:
    """The shipped suite in exactly this version; None for any other, whose limits and margins are then the defaults."""
    suite = shipped_suites().get(ref.name)
    return suite if suite is not None and suite.version == ref.version else None
