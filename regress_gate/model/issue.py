"""A known issue: one curated record of a regression, crash, wrong result or changed default.

Valid OSV (Open Source Vulnerability schema) where OSV has a field. Version strings are checked here. The linter checks
whether a record is consistent as a whole (order of versions, evidence, links). Not for the matching itself.
"""

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, Literal

from packaging.version import Version as Pep440
from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_serializer, model_validator

from regress_gate.errors import InputError
from regress_gate.model.deployment import ArgValue, Feature, Platform
from regress_gate.model.documents import StrictFloat, StrictInt, StrictModel
from regress_gate.model.metric import LATENCIES, METRICS
from regress_gate.model.version import Version, version_key

NumberBound = Annotated[str, StringConstraints(pattern=r"^(<=|>=|<|>|==)?\s*\d+(\.\d+)?$")]
"""A bound on one number: `<=8`, `>1024`, `1`."""
Glob = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
"""A glob pattern; case does not matter."""
Globs = Annotated[list[Glob], Field(min_length=1)]
GpuArch = Annotated[str, StringConstraints(pattern=r"^(sm_|gfx)[0-9a-z*?]+$", max_length=20)]
"""`sm_90` or `gfx942`: the instruction set of a GPU."""


def _specifiers(text: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # few records name a dependency

    try:
        if not SpecifierSet(text):
            raise ValueError("an empty specifier set matches every version: write a bound")
    except InvalidSpecifier:
        raise ValueError(f"{text!r} is not a PEP 440 specifier set: write one like '<0.5.3' or '==3.5.*'") from None
    return text


Specifiers = Annotated[str, StringConstraints(max_length=200), AfterValidator(_specifiers)]
"""A PEP 440 specifier set: `>=0.5,<0.5.3`."""


class WorkloadRegion(StrictModel):
    """The workloads that an issue affects; keys that are not given do not matter."""

    concurrency: NumberBound | None = None
    request_rate: NumberBound | None = None
    input_len: NumberBound | None = None
    output_len: NumberBound | None = None


class ParallelScope(StrictModel):
    """Bounds on the sizes of the parallel groups, and whether experts are distributed over them."""

    tensor: NumberBound | None = None
    pipeline: NumberBound | None = None
    data: NumberBound | None = None
    expert: bool | None = None


class BackendScope(StrictModel):
    """Resolved backends, by their names in the start log."""

    attention: Globs | None = None
    moe: Globs | None = None
    sampler: Globs | None = None
    linear: Globs | None = None


class Scope(StrictModel):
    """The deployments and workloads that an issue affects.

    Every given key must match; a list matches if one of its items does. Texts are glob patterns; case does not matter.
    """

    platform: list[Platform] | None = Field(default=None, min_length=1)
    accelerator: list[str] | None = Field(default=None, min_length=1)
    gpu_arch: list[GpuArch] | None = Field(default=None, min_length=1)
    """For evidence about an instruction set, not about one card."""
    model: list[str] | None = Field(default=None, min_length=1)
    architecture: Globs | None = None
    """As in the model's `config.json`, if a whole family is affected."""
    features: list[Feature] | None = Field(default=None, min_length=1)
    """Any of them, as in every list."""
    all_features: list[Feature] | None = Field(default=None, min_length=2)
    """All of them, for a fault of their combination."""
    quantization: list[str] | None = Field(default=None, min_length=1)
    """Of the weights."""
    kv_cache_dtype: Globs | None = None
    moe_quantization: Globs | None = None
    """Of the experts, if it differs from the weights."""
    parallel: ParallelScope | None = None
    backends: BackendScope | None = None
    dependencies: dict[Glob, Specifiers] | None = None
    """Distribution name to its affected versions."""
    distribution: Globs | None = None
    """Image or fork, if only that one has the issue."""
    engine_args: dict[str, ArgValue | list[ArgValue]] | None = None
    """The argument must be set to this value, or to one of these."""
    env: dict[str, str | list[str]] | None = None
    """The variable must be set to this value, or to one of these."""
    workload: WorkloadRegion | None = None
    unless: list["Scope"] | None = Field(default=None, min_length=1)
    """Exceptions: deployments that are in one of these scopes are not affected."""

    @field_validator("unless")
    @classmethod
    def _exceptions_are_plain(cls, unless: list["Scope"] | None) -> list["Scope"] | None:
        for index, exception in enumerate(unless or []):
            if exception.workload is not None or exception.unless is not None:
                raise ValueError(f"exception {index + 1} must not contain workload or unless")
            if not exception.names_deployment:
                raise ValueError(f"exception {index + 1} excludes every deployment: name a key")
        return unless

    @property
    def names_deployment(self) -> bool:
        """Whether any key describes the deployment, not only the workload."""
        return any(value for name, value in self if name not in ("workload", "unless"))


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]
HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s<>\"']+$", max_length=500)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]
RepoUrl = Annotated[str, StringConstraints(pattern=r"^https://github\.com/[\w.-]+/[\w.-]+$", max_length=200)]
VLLM_REPO = "https://github.com/vllm-project/vllm"


class IssueKind(StrEnum):
    PERFORMANCE = "performance"
    ACCURACY = "accuracy"
    CRASH = "crash"
    HANG = "hang"
    MEMORY = "memory"
    STARTUP = "startup"
    DEFAULT_CHANGE = "default-change"
    REMOVED_FLAG = "removed-flag"
    NOT_A_BUG = "not-a-bug"
    """A report caused by an error of the user, the benchmark or a driver: kept so that it is recognised."""


class Severity(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Confidence(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Reference(StrictModel):
    type: Literal["ADVISORY", "ARTICLE", "DETECTION", "DISCUSSION", "EVIDENCE", "FIX", "INTRODUCED", "REPORT", "WEB"]
    url: HttpsUrl


class Package(StrictModel):
    ecosystem: str = "PyPI"
    name: str = "vllm"


_FIRST = Pep440("0.dev0")  # before every version: what OSV's `introduced: "0"` stands for


class Event(StrictModel):
    """One event of a range: exactly one of the keys is set. `introduced: "0"` means every version so far."""

    introduced: str | None = None
    fixed: str | None = None
    last_affected: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "Event":
        if len(self.model_fields_set) != 1 or None in (getattr(self, name) for name in self.model_fields_set):
            raise ValueError("an event is exactly one of introduced, fixed, last_affected")
        return self

    @property
    def value(self) -> str:
        return self.introduced or self.fixed or self.last_affected or ""

    @cached_property
    def key(self) -> Pep440:
        """Its place among releases. Raises InvalidVersion for a commit."""
        return _FIRST if self.value == "0" else version_key(self.value)


@cache
def _release_problem(text: str) -> str | None:
    """Why a text is not a release; None: it is one. Cached: records name the same releases many times."""
    if text == "0":
        return None
    try:
        version = Version.parse(text)
    except InputError as error:
        return str(error)
    return f"{text!r} is not a release: development builds belong in a GIT range" if version.order_key is None else None


class Range(StrictModel):
    type: Literal["ECOSYSTEM", "GIT"]
    repo: HttpsUrl | None = None
    events: list[Event] = Field(min_length=1)

    @model_validator(mode="after")
    def _well_formed(self) -> "Range":
        if (self.type == "GIT") != (self.repo is not None):
            raise ValueError("repo belongs to a GIT range, and only to it")
        if not any(event.introduced for event in self.events):
            raise ValueError("a range needs an introduced event")
        for event in self.events:
            if self.type == "GIT" and not re.fullmatch(r"0|[0-9a-f]{7,40}", event.value):
                raise ValueError(f"{event.value!r} is not a commit: a GIT range contains hexadecimal commit ids, or 0")
            if self.type == "ECOSYSTEM" and (problem := _release_problem(event.value)) is not None:
                raise ValueError(problem)
        return self

    @cached_property
    def in_order(self) -> list[Event]:
        """The events of releases, the oldest first. At one and the same version a fix outranks an introduction, as in
        OSV's own evaluation order."""
        return sorted(self.events, key=lambda event: (event.key, event.introduced is None))


class Affected(StrictModel):
    package: Package = Package()
    ranges: list[Range] = Field(min_length=1)


class SignaturePart(StrictModel):
    """The effect of an issue on one metric. `change` is a range of relative losses, positive for worse."""

    metric: str
    """A metric name, or a latency family (`ttft`) if the thread does not name the statistic."""
    direction: Literal["worse", "better", "unchanged"]
    change: tuple[StrictFloat, StrictFloat] | None = None
    workload: WorkloadRegion | None = None
    note: Text | None = None

    @field_validator("metric")
    @classmethod
    def _known_metric(cls, name: str) -> str:
        if name not in METRICS and name not in LATENCIES and not name.startswith("accuracy_"):
            raise ValueError(f"unknown metric {name!r}")
        return name

    @field_validator("change")
    @classmethod
    def _ordered(cls, change: tuple[float, float] | None) -> tuple[float, float] | None:
        if change is not None and change[0] > change[1]:
            raise ValueError("the smaller change comes first")
        return change


class Workaround(StrictModel):
    text: Text
    engine_args: dict[str, ArgValue] | None = None
    env: dict[str, str] | None = None
    cost: Text | None = None
    """The cost of the workaround; null: unknown."""

    @property
    def is_checkable(self) -> bool:
        """Whether a deployment's own flags and variables can show that this workaround is active."""
        return bool(self.engine_args or self.env)


class Change(StrictModel):
    """A pull request or commit: at least one of number, commit and day of merging."""

    repo: RepoUrl = VLLM_REPO
    pull: Annotated[StrictInt, Field(ge=1)] | None = None
    commit: Commit | None = None
    merged: date | None = None

    @model_validator(mode="after")
    def _names_something(self) -> "Change":
        if (self.pull, self.commit, self.merged) == (None, None, None):
            raise ValueError("a change has at least one of pull, commit, merged")
        return self


class Fix(Change):
    """A change that fixed the issue, and the change that reverted it."""

    reverted_by: Change | None = None


class Changes(StrictModel):
    """The changes that introduced and fixed the issue, as far as the evidence names them."""

    introduced_by: list[Change] = Field(default_factory=list)
    fixed_by: list[Fix] = Field(default_factory=list)


MAX_CODE_TEXT = 200
Snippet = Annotated[str, StringConstraints(min_length=3, max_length=MAX_CODE_TEXT, pattern=r"^\S(.*\S)?$")]
"""An identifier, or a value with its name, within one line."""
Snippets = Annotated[list[Snippet], Field(min_length=1, max_length=20)]
SourceFile = Annotated[
    str, StringConstraints(pattern=r"^vllm(/[A-Za-z0-9_][A-Za-z0-9_.,=-]*)+$", max_length=MAX_CODE_TEXT)
]
"""A file of the package, as in its wheel: `vllm/platforms/rocm.py`."""
Definition = Annotated[
    str, StringConstraints(pattern=r"^(class|def) [A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", max_length=MAX_CODE_TEXT)
]
"""`class Foo`, `def make`, or a method: `def Foo.make`."""
DistributionName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=MAX_CODE_TEXT)]
"""The normalised name of a package: `flashinfer-python`."""
_CODE_TESTS = {"file": ("present", "absent"), "argument": ("default",), "env": ("default",), "requires": ("version",)}


class CodeCondition(StrictModel):
    """A condition on the source of a build, of identifiers and values only; no copied code.

    Exactly one of `file` (with `present` or `absent`), `argument` and `env` (with `default`), `requires` (with
    `version`).

    `present` holds if one of the texts is in the file, `absent` if none is. In a build without the file, or without the
    class or function that `within` names, `present` does not hold and `absent` does.
    """

    file: SourceFile | None = None
    present: Snippets | None = None
    absent: Snippets | None = None
    within: Definition | None = None
    """Only the text of this class or function of the file counts."""
    argument: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.]*$", max_length=MAX_CODE_TEXT)] | None = None
    """An argument of `vllm serve`, with underscores; a build without it does not meet the condition."""
    env: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=MAX_CODE_TEXT)] | None = None
    """A variable that vLLM declares; a build without it does not meet the condition."""
    default: ArgValue | None = None
    """Null: None."""
    requires: DistributionName | None = None
    """A package that the build's metadata demands; a build that does not demand it does not meet the condition."""
    version: Specifiers | None = None
    """Holds if the build lets such a version be installed."""

    @field_validator("present", "absent", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("default")
    @classmethod
    def _short(cls, value: ArgValue | None) -> ArgValue | None:
        if len(str(value)) > MAX_CODE_TEXT:
            raise ValueError(f"longer than {MAX_CODE_TEXT} characters")
        return value

    @model_validator(mode="after")
    def _one_subject(self) -> "CodeCondition":
        given = self.model_fields_set
        subjects = [key for key in _CODE_TESTS if getattr(self, key) is not None]
        if len(subjects) != 1:
            raise ValueError(f"a condition has exactly one of {', '.join(_CODE_TESTS)}")
        tests = [key for key in ("present", "absent", "default", "version") if key in given]
        if len(tests) != 1 or tests[0] not in _CODE_TESTS[subjects[0]]:
            raise ValueError(f"a condition on {subjects[0]} has exactly one of: {', '.join(_CODE_TESTS[subjects[0]])}")
        if tests[0] == "version" and self.version is None:
            raise ValueError("version is a PEP 440 specifier set: write one like '<0.5.3'")
        if tests[0] in ("present", "absent") and getattr(self, tests[0]) is None:
            raise ValueError(f"{tests[0]} is a text, or a list of which any counts")
        if self.within is not None and self.file is None:
            raise ValueError("within belongs to a file")
        return self

    @model_serializer
    def _given(self) -> dict[str, Any]:
        """Only what is given, and a default of null too, which dumps without empty values would lose."""
        return {key: getattr(self, key) for key in type(self).model_fields if key in self.model_fields_set}

    @property
    def text(self) -> str:
        """The condition in words, for reports: `moe.py has "foo"`."""
        where = self.file if self.within is None else f"{self.within} in {self.file}"
        match self:
            case CodeCondition(present=list() as texts):
                return f"{where} has {' or '.join(map(repr, texts))}"
            case CodeCondition(absent=list() as texts):
                return f"{where} lacks {' and '.join(map(repr, texts))}"
            case CodeCondition(requires=str() as package):
                return f"its metadata allows {package} {self.version}"
        return f"the default of {self.argument or self.env} is {self.default}"


class Tracker(StrictModel):
    """The thread's state when it was last checked. `closed` alone is not evidence of a fix."""

    url: HttpsUrl
    state: Literal["open", "closed", "merged", "unknown"]
    state_reason: Literal["completed", "not_planned", "duplicate", "reopened", "stale", "unknown"] | None = None
    """GitHub's reason; `stale` if the inactivity bot closed it, which GitHub reports as not_planned."""
    checked: date


class KnownIssue(StrictModel):
    """One record: one file in `known_issues/`, named by its id."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*-\d+$", max_length=60)]
    aliases: list[str] = Field(default_factory=list)
    summary: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=160)]
    details: Text | None = None
    kind: IssueKind
    severity: Severity
    version_regression: bool = True
    """False if no earlier version is known to be free of it: an upgrade does not introduce it."""
    references: list[Reference] = Field(min_length=1)
    affected: list[Affected] = Field(min_length=1)
    changes: Changes = Changes()
    code: list[CodeCondition] = Field(default_factory=list, max_length=10)
    """All must hold in a build for it to have the fault; empty: nothing is said."""
    scope: Scope = Scope()
    signature: list[SignaturePart] = Field(default_factory=list)
    workarounds: list[Workaround] = Field(default_factory=list)
    tracker: Tracker
    confidence: Confidence
    evidence: Text
    reviewed: date


class Applies(StrEnum):
    """Whether an issue affects a deployment."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    MITIGATED = "mitigated"


class Status(StrEnum):
    """The status of a fix. `closed` on the tracker alone is never a fix."""

    OPEN = "open"
    CLOSED_UNFIXED = "closed_unfixed"
    FIX_NOT_IN_CANDIDATE = "fix_not_in_candidate"
    FIX_IN_CANDIDATE = "fix_in_candidate"
    MEASURED_FIXED = "measured_fixed"
    ABSENT_IN_CODE = "absent_in_code"
    """The build's own source does not have the fault."""
    UNKNOWN = "unknown"


class Effect(StrEnum):
    """The effect of the move: introduces the issue, keeps it, or resolves it."""

    NEW = "new"
    CARRIED = "carried"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class IssueFinding:
    """An issue that affects one of the two versions. Other issues have no finding."""

    issue: KnownIssue
    applies: Applies
    why: str
    """The reason for `applies`: the scope key that does not match, the missing fact, the active workaround."""
    status: Status
    status_why: str
    """The evidence for the status, and its date."""
    effect: Effect
    effect_why: str
    """The affected versions, and the confidence in them."""
    missing: tuple[str, ...] = ()
    """If `applies` is unknown: the flags that would give the missing facts, for example `--model`."""
