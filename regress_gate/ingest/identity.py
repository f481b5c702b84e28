"""Identity of a result: its version, testbed, suite, scenario, run and trial, combined from all sources.

Sources in order of precedence: flags, the file's own metadata, the sidecar `conditions.json`, the path by `--pattern`.
Precedence decides only the spelling of a value: contradicting sources are an error that names both. Identity is never
guessed: what no source states is None, and identification.py derives it or asks for it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Self, TypeVar

from regress_gate.errors import InputError
from regress_gate.ingest.interface import SIDECAR_NAME
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.run import SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.text import did_you_mean, is_valid_name, quoted

if TYPE_CHECKING:
    from regress_gate.ingest.sidecar import Sidecar


PATTERN_FIELDS = ("version", "testbed", "suite", "scenario", "run", "trial")
_PATTERN_PART = re.compile(r"\{([^{}]*)\}|(\*+)|([{}])|([^{}*]+)")
_MAX_PATTERN_LENGTH = 300
_MAX_STARS = 4  # each multiplies the number of ways to match a long name

# Neither a field nor a star matches a slash.
_FIELD_REGEXES = dict.fromkeys(PATTERN_FIELDS, r"[^/]+") | {"trial": r"\d{1,6}"}


@dataclass(frozen=True, slots=True)
class PathPattern:
    """`--pattern '{version}/run{run}/{scenario}-r{trial}.json'`: identity from the location of a file.

    Matched against the end of the absolute path. Everything but fields and `*` is literal text.
    """

    text: str
    _regex: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InputError for unknown or repeated fields."""

        def wrong(what: str, todo: str | None = None) -> InputError:
            return InputError(what, where="--pattern", todo=todo)

        if len(text) > _MAX_PATTERN_LENGTH:
            raise wrong(f"longer than {_MAX_PATTERN_LENGTH} characters")
        pieces, seen, open_ended = [], set[str](), False
        for field, star, brace, literal in (match.groups() for match in _PATTERN_PART.finditer(text)):
            if brace:
                raise wrong(f"{brace!r} without its partner", f"fields are {_field_list()}")
            if literal:
                pieces.append(re.escape(literal))
                open_ended = False
                continue
            if open_ended:
                raise wrong("two fields or stars without text between them", "put text or / between them")
            open_ended = True
            if star:
                pieces.append("[^/]*")
                continue
            if field not in PATTERN_FIELDS:
                raise wrong(f"unknown field {{{field}}}" + did_you_mean(field or "", PATTERN_FIELDS))
            if field in seen:
                raise wrong(f"field {{{field}}} is given twice")
            seen.add(field)
            pieces.append(f"(?P<{field}>{_FIELD_REGEXES[field]})")
        if not seen:
            raise wrong("holds no field", f"fields are {_field_list()}")
        if text.count("*") > _MAX_STARS:
            raise wrong(f"more than {_MAX_STARS} stars")
        return cls(text, re.compile("(?:^|/)" + "".join(pieces).removeprefix("/") + r"\Z"))

    def match(self, path: PurePath) -> Mapping[str, str] | None:
        """The values of the fields for an absolute path; None if the path does not match."""
        match = self._regex.search(path.as_posix())
        return None if match is None else match.groupdict()


def _field_list() -> str:
    return ", ".join(f"{{{name}}}" for name in PATTERN_FIELDS)


T = TypeVar("T")

VERSION_KEYS = ("vllm_version", "engine_version", "version")
ACCELERATOR_KEYS = ("gpu", "gpu_type", "accelerator")
CLIENT_KEYS = ("client_version", "client")
IDENTITY_KEYS = frozenset(
    (*VERSION_KEYS, *ACCELERATOR_KEYS, *CLIENT_KEYS, "testbed", "suite", "scenario", "run", "trial")
)
"""Top-level keys of a result that state its identity (`--metadata key=value`)."""


@dataclass(frozen=True, slots=True)
class IdentityFlags:
    """What the user states for all files of one import."""

    version: Version | None = None
    testbed: Testbed | None = None
    suite: SuiteRef | None = None
    scenario: str | None = None
    run: str | None = None
    """All files come from this one server run."""
    run_per_file: bool = False
    """Each file comes from its own server start."""
    pattern: PathPattern | None = None
    client_version: str | None = None
    """Release of the program that made the files."""
    cold_first: bool = False
    """The first run of each version and testbed was made after a cold start, and does not count."""

    @classmethod
    def parse(
        cls,
        *,
        version: str | None = None,
        testbed: str | None = None,
        testbed_facts: Mapping[str, Any] | None = None,
        suite: str | None = None,
        scenario: str | None = None,
        run: str | None = None,
        run_per_file: bool = False,
        pattern: str | None = None,
        client_version: str | None = None,
        cold_first: bool = False,
    ) -> Self:
        """From the texts of the flags. Raises InputError that names the flag. `testbed_facts`: fields of Testbed."""
        named = {"--testbed": testbed, "--scenario": scenario, "--run": run, "--client-version": client_version}
        for flag, text in named.items():
            if text is not None and not is_valid_name(text):
                raise InputError(
                    f"{quoted(text)} cannot be a name", where=flag, todo="use letters, digits, . _ - and +"
                )
        if run is not None and run_per_file:
            raise InputError("contradicts --run-per-file", where="--run", todo="give one of them")
        if testbed_facts and testbed is None:
            raise InputError("facts need the testbed's name", where="--testbed", todo="give --testbed NAME")
        try:
            suite_ref = None if suite is None else parse_suite(suite)
        except RefusalError as refusal:
            raise InputError(str(refusal), where="--suite") from None
        return cls(
            version=None if version is None else Version.parse(version),
            testbed=None if testbed is None else Testbed(testbed, **(testbed_facts or {})),
            suite=suite_ref,
            scenario=scenario,
            run=run,
            run_per_file=run_per_file,
            pattern=None if pattern is None else PathPattern.parse(pattern),
            client_version=client_version,
            cold_first=cold_first,
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """What the sources state about one result; None if none of them does."""

    version: Version | None = None
    testbed: Testbed | None = None
    """With an empty name if only facts such as the accelerator are stated."""
    suite: SuiteRef | None = None
    scenario: str | None = None
    run: str | None = None
    trial: int | None = None
    client: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Statement:
    value: Any
    origin: str


def identify(
    flags: IdentityFlags,
    metadata: Mapping[str, str],
    trial: int | None,
    sidecar: "Sidecar | None",
    from_path: Mapping[str, str],
) -> Identity:
    """Combine all sources of one result. Raises RefusalError if two contradict each other."""
    statements: dict[str, list[_Statement]] = {
        name: [] for name in ("version", "testbed", "accelerator", "suite", "scenario", "run", "client")
    }

    def add(name: str, value: object, origin: str, read: Callable[[Any], Any] = lambda value: value) -> None:
        if value is not None:
            try:
                statements[name].append(_Statement(read(value), origin))
            except (RefusalError, InputError) as error:
                raise RefusalError(f"{origin}: {error}") from None

    for name in ("version", "testbed", "suite", "scenario", "run"):
        add(name, getattr(flags, name), f"--{name}")
    notes = _add_metadata(metadata, add)
    if sidecar is not None:
        add("version", sidecar.version, SIDECAR_NAME, Version.parse)
        add("testbed", sidecar.testbed, SIDECAR_NAME, _testbed)
        add("suite", sidecar.suite, SIDECAR_NAME, parse_suite)
        add("run", None if sidecar.run is None else str(sidecar.run), SIDECAR_NAME, _checked_name)
        add("client", sidecar.client, SIDECAR_NAME)
    # A flag is for all files and less exact than the file or sidecar: it does not contradict them.
    add("client", flags.client_version, "--client-version")
    for name, read in (
        ("version", Version.parse),
        ("testbed", _testbed),
        ("suite", parse_suite),
        ("scenario", _checked_name),
        ("run", _checked_name),
    ):
        add(name, from_path.get(name), "--pattern", read)
    testbed = _merge_statements("testbed", statements["testbed"], merge_testbeds)
    for fact in statements["accelerator"]:
        testbed = _with_accelerator(testbed, fact)
    return Identity(
        version=_merge_statements("version", statements["version"], merge_versions),
        testbed=testbed,
        suite=_merge_statements("suite", statements["suite"], _equal),
        scenario=_merge_statements("scenario", statements["scenario"], _equal),
        run=_merge_statements("run", statements["run"], _same_run),
        trial=_trial(trial, metadata.get("trial"), from_path.get("trial")),
        client=statements["client"][0].value if statements["client"] else None,
        notes=tuple(notes),
    )


def _add_metadata(metadata: Mapping[str, str], add: Callable[..., None]) -> list[str]:
    """Add the statements of the file's own keys; returns notes on keys that look like identity and are not."""
    notes = []
    for key in VERSION_KEYS:
        origin = f"the file ({key})"
        try:
            add("version", metadata.get(key), origin, Version.parse)
        except RefusalError:
            if key != "version":
                raise
            # The key `version` may mean anything, so another numbering is no reason to refuse.
            notes.append(f"{origin} is {quoted(metadata[key])}, which is no vLLM version, and is not used")
    add("testbed", metadata.get("testbed"), "the file (testbed)", _testbed)
    add("suite", metadata.get("suite"), "the file (suite)", parse_suite)
    add("scenario", metadata.get("scenario"), "the file (scenario)", _checked_name)
    add("run", metadata.get("run"), "the file (run)", _checked_name)
    for key in ACCELERATOR_KEYS:
        add("accelerator", metadata.get(key), f"the file ({key})", _checked_name)
    for key in CLIENT_KEYS:
        add("client", metadata.get(key), f"the file ({key})")
    return notes


def _merge_statements(what: str, statements: list[_Statement], merge: Callable[[T, T], T | None]) -> T | None:
    """The value on which all statements agree; None without any."""
    if not statements:
        return None
    result: T = statements[0].value
    for other in statements[1:]:
        merged = merge(result, other.value)
        if merged is None:
            raise RefusalError(
                f"{what} is {_value_text(statements[0].value)} by {statements[0].origin} "
                f"and {_value_text(other.value)} by {other.origin}; "
                "correct one of them"
            )
        result = merged
    return result


def merge_versions(one: Version, other: Version) -> Version | None:
    """The build that both may mean, with the facts of both; None if they are different builds."""
    if one.number is None or other.number is None:
        if one.commit is None or other.commit is None:
            return None
    elif one.number != other.number:
        return None
    if one.commit and other.commit and not (one.commit.startswith(other.commit) or other.commit.startswith(one.commit)):
        return None
    if one.variant and other.variant and one.variant != other.variant:
        return None
    commit = max(one.commit or "", other.commit or "", key=len) or None
    return Version(one.number or other.number, commit, one.variant or other.variant)


def merge_testbeds(one: Testbed, other: Testbed) -> Testbed | None:
    """One machine with the facts of both; None if their names or facts differ."""
    facts = {}
    for field in fields(Testbed):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if mine is not None and theirs is not None and mine != theirs:
            return None
        facts[field.name] = mine if mine is not None else theirs
    return Testbed(**facts)


def _with_accelerator(testbed: Testbed | None, stated: _Statement) -> Testbed:
    """The testbed with a separately stated accelerator; `H100` and `NVIDIA H100 80GB HBM3` are the same."""
    if testbed is None:
        return Testbed("", accelerator=stated.value)
    known = testbed.accelerator
    if known is None:
        return merge_testbeds(testbed, Testbed(testbed.name, accelerator=stated.value)) or testbed
    if known.lower() in stated.value.lower() or stated.value.lower() in known.lower():
        return testbed
    raise RefusalError(
        f"testbed {testbed.name} has accelerator {known}, {stated.origin} says {stated.value}; correct one of them"
    )


def _equal(one: T, other: T) -> T | None:
    return one if one == other else None


def _same_run(one: str, other: str) -> str | None:
    """`run3`, `run-3` and `3` are one run, in the spelling of the first source."""
    return one if _run_number(one) == _run_number(other) else None


def _run_number(label: str) -> str:
    return re.sub(r"^run[-_= ]?(?=\d+$)", "", label, flags=re.IGNORECASE)


def _trial(in_file: int | None, metadata: str | None, path: str | None) -> int | None:
    """The ordinal, counted from 1. File names of a sweep count from 0, while `in_file` is already shifted."""
    stated = [
        (int(text), origin)
        for text, origin in ((metadata, "the file (trial)"), (path, "--pattern"))
        if text is not None and re.fullmatch(r"[0-9]{1,6}", text)
    ]
    for value, origin in stated:
        if in_file is not None and in_file not in (value, value + 1):
            raise RefusalError(f"trial is {in_file} by the file's run_number and {value} by {origin}")
        if value != stated[0][0]:
            raise RefusalError(
                f"trial is {stated[0][0]} by {stated[0][1]} and {value} by {origin}; correct one of them"
            )
    if in_file is not None or not stated:
        return in_file
    if stated[0][0] == 0:
        raise RefusalError(f"trial is 0 by {stated[0][1]}; trials are counted from 1")
    return stated[0][0]


def parse_suite(text: str) -> SuiteRef:
    """`NAME@VERSION`. Raises RefusalError."""
    name, at, version = text.partition("@")
    if not at or not is_valid_name(name) or not is_valid_name(version):
        raise RefusalError(f"{quoted(text)} is not a suite, write NAME@VERSION")
    return SuiteRef(name, version)


def _testbed(value: Any) -> Testbed:
    if isinstance(value, str):
        return Testbed(_checked_name(value))
    return Testbed(**{**value.model_dump(), "name": _checked_name(value.name)})


def _checked_name(text: str) -> str:
    if not is_valid_name(text):
        raise RefusalError(f"{quoted(text)} cannot be a name, use letters, digits, . _ - and +")
    return text


def _value_text(value: object) -> str:
    if isinstance(value, Testbed):
        return " ".join([value.name, *(f"{key}={fact}" for key, fact in value.facts.items())])
    return str(value)
