"""Suites: shipped ones by name, and those of users by path.

Results store the suite's name and version, not its content.
"""

from importlib import resources
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.model.documents import Document, parse_yaml, validate
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.text import did_you_mean


def shipped_suites() -> dict[str, Suite]:
    """All shipped suites by name."""
    suites = {}
    for entry in sorted(resources.files(__name__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            document = parse_yaml(entry.read_text(encoding="utf-8"), f"suites/{entry.name}")
            suite = validate(Suite, document)
            suites[suite.name] = suite
    return suites


def find_shipped_suite(ref: SuiteRef) -> Suite | None:
    """The shipped suite in exactly this version, or None: default limits and margins then apply."""
    suite = shipped_suites().get(ref.name)
    return suite if suite is not None and suite.version == ref.version else None


def is_suite_path(name: str) -> bool:
    """Whether the user gave a file, not the name of a suite."""
    return name.endswith((".yaml", ".yml"))


def read_document(file: Path) -> Document:
    """The file's data with their lines, not yet checked against the schema. Raises InputError."""
    try:
        return parse_yaml(file.read_text(encoding="utf-8"), file)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=file) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=file) from None


def suite_template(name: str) -> str:
    """The text of a new suite with that name: complete and commented."""
    text = (resources.files(__name__) / "template.txt").read_text(encoding="utf-8")
    return text.replace("NAME", name, 1)


def load_suite(name: str) -> Suite:
    """The suite in a YAML file, or the shipped one of that name (`NAME` or `NAME@VERSION`).

    Raises InputError with file and line, or with the nearest known name.
    """
    if is_suite_path(name):
        return validate(Suite, read_document(Path(name)))
    suites = shipped_suites()
    wanted, _, version = name.partition("@")
    if wanted not in suites:
        raise InputError(f"no suite {wanted!r} is shipped" + did_you_mean(wanted, suites), where="--suite")
    if version not in ("", suites[wanted].version):
        raise InputError(f"{wanted} is shipped in version {suites[wanted].version}, not {version}", where="--suite")
    return suites[wanted]
