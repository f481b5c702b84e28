"""Runs for the tests of the store: small ones by hand, and hypothesis strategies for all that a run may be."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
from hypothesis import strategies as st

from regress_gate.model.run import (
    Answer,
    BlockPosition,
    Conditions,
    Outputs,
    Run,
    RunFailure,
    SuiteRef,
    Trial,
    TrialSource,
)
from regress_gate.model.samples import Samples
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

SUITE = SuiteRef("imported", "1")
LAB = Testbed("lab", accelerator="cpu", cpu_count=2)
IMPORTED = datetime(2026, 7, 24, 10, 0, tzinfo=UTC)


def make_samples(itl: Sequence[Sequence[float]] = ((0.01, 0.02), (0.015,)), *, start: bool = False) -> Samples:
    size = len(itl)
    return Samples(
        ttft=np.arange(1, size + 1) / 10,
        itl=np.array([gap for gaps in itl for gap in gaps], dtype=np.float64),
        itl_start=np.cumsum([0, *map(len, itl)], dtype=np.int64),
        input_tokens=np.full(size, 128),
        output_tokens=np.array([len(gaps) + 1 for gaps in itl], dtype=np.int64),
        ok=np.ones(size, dtype=np.bool_),
        start=np.arange(size) / 100 if start else None,
    )


def make_source(content: str, **given: Any) -> TrialSource:
    """The source that a file of that content is."""
    given = {"position": 0, "path": f"{content}.json", "format": "vllm-serve", "imported_at": IMPORTED, **given}
    return TrialSource(sha256=sha256(content.encode("utf-8", "surrogatepass")).hexdigest(), **given)


def make_trial(content: str, scenario: str = "c1", ordinal: int = 1, **given: Any) -> Trial:
    given = {
        "completed": 32,
        "failed": 0,
        "duration": 9.5,
        "metrics": {"ttft_median": 0.125, "output_throughput": 168.8},
        "workload": {"model": "tiny", "request_rate": None, "max_concurrency": 1},
        "source": make_source(content),
        **given,
    }
    return Trial(scenario=scenario, ordinal=ordinal, **given)


def make_run(label: str = "run1", *trials: Trial, version: str = "0.19.0+cpu", **given: Any) -> Run:
    given = {"testbed": LAB, "suite": SUITE, **given}
    return Run(version=Version.parse(version), label=label, trials=trials, **given)


def microseconds(times: Any) -> list[float | None]:
    """Times as the store keeps them."""
    return [None if np.isnan(time) else float(np.rint(time * 1e6) / 1e6) for time in times]


def plain_samples(samples: Samples | None) -> Any:
    """Samples as values that can be compared, times rounded to microseconds."""
    if samples is None:
        return None
    return {
        "ttft": microseconds(samples.ttft),
        "itl": microseconds(samples.itl),
        "itl_start": samples.itl_start.tolist(),
        "input_tokens": samples.input_tokens.tolist(),
        "output_tokens": samples.output_tokens.tolist(),
        "ok": samples.ok.tolist(),
        "start": None if samples.start is None else microseconds(samples.start),
    }


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
"""Quotes, control characters, emoji, right-to-left marks: everything but what no database keeps."""
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**63 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | FLOATS | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
CONDITIONS = st.builds(Conditions, st.none() | FLOATS, gpu_throttled=st.none() | FLOATS)
PLACES = st.builds(
    BlockPosition,
    NAMES,
    COUNTS,
    COUNTS,
    NAMES,
    st.booleans(),
    st.booleans(),
    NAMES,
    st.none() | NAMES,
    st.none() | NAMES,
    st.none() | FLOATS,
    st.none() | COUNTS,
)
FAILURES = st.builds(RunFailure, NAMES, NAMES, st.lists(NAMES, max_size=3).map(tuple), st.none() | FLOATS)
ANSWERS = st.builds(Answer, NAMES, *(st.lists(values, max_size=3).map(tuple) for values in (NAMES, FLOATS, FLOATS)))
OUTPUTS = st.builds(Outputs, NAMES, st.lists(ANSWERS, max_size=3).map(tuple))
VERSIONS = st.builds(
    Version,
    st.sampled_from(["0.19.0", "0.20.0rc1", "0.23.1rc1.dev1403"]),
    st.none() | st.text("0123456789abcdef", min_size=7, max_size=40),
    st.none() | st.sampled_from(["cpu", "cu129"]),
) | st.builds(Version, st.none(), st.text("0123456789abcdef", min_size=7, max_size=40))
SUITES = st.builds(SuiteRef, NAMES, NAMES)
TESTBEDS = st.builds(
    Testbed,
    name=NAMES,
    accelerator=st.none() | NAMES,
    cpu_count=st.none() | st.integers(0, 512),
    memory_bytes=st.none() | st.integers(0, 2**50),
    os=st.none() | NAMES,
)


@st.composite
def request_samples(draw: st.DrawFn) -> Samples:
    seconds = st.floats(-1e6, 1e6) | st.just(float("nan"))
    lengths = draw(st.lists(st.integers(0, 5), max_size=6))
    size = len(lengths)

    def column(values: st.SearchStrategy[Any], length: int, kind: Any) -> Any:
        return np.array(draw(st.lists(values, min_size=length, max_size=length)), dtype=kind)

    return Samples(
        ttft=column(seconds, size, np.float64),
        itl=column(seconds, sum(lengths), np.float64),
        itl_start=np.cumsum([0, *lengths], dtype=np.int64),
        input_tokens=column(st.integers(0, 2**40), size, np.int64),
        output_tokens=column(st.integers(0, 2**40), size, np.int64),
        ok=column(st.booleans(), size, np.bool_),
        start=column(seconds, size, np.float64) if draw(st.booleans()) else None,
    )


@st.composite
def baselines(draw: st.DrawFn) -> list[Run]:
    """The runs of one version, testbed and suite, as a store may hold them."""
    version, testbed, suite = draw(VERSIONS), draw(TESTBEDS), draw(SUITES)
    runs = []
    for number, label in enumerate(draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))):
        places = draw(st.lists(st.tuples(NAMES, st.integers(1, 9)), max_size=3, unique=True))
        trials = tuple(
            Trial(
                scenario=scenario,
                ordinal=ordinal,
                completed=draw(st.none() | COUNTS),
                failed=draw(COUNTS),
                duration=draw(st.none() | FLOATS),
                metrics=draw(st.dictionaries(NAMES, FLOATS, max_size=3)),
                workload=draw(st.dictionaries(NAMES, VALUES, max_size=3)),
                source=make_source(
                    f"{number} {scenario} {ordinal}",
                    position=draw(COUNTS),
                    path=draw(NAMES),
                    imported_at=draw(TIMES),
                    tool=draw(st.none() | NAMES),
                    client_version=draw(st.none() | NAMES),
                    command=draw(st.none() | NAMES),
                ),
                conditions=draw(CONDITIONS),
                started=draw(st.none() | TIMES),
                server_metrics=draw(st.dictionaries(NAMES, FLOATS, max_size=3)),
                samples=draw(st.none() | request_samples()),
            )
            for scenario, ordinal in places
        )
        runs.append(
            Run(
                version=version,
                testbed=testbed,
                suite=suite,
                label=label,
                trials=trials,
                started=draw(st.none() | TIMES),
                conditions=draw(CONDITIONS),
                libraries=draw(st.dictionaries(NAMES, NAMES, max_size=3)),
                metrics=draw(st.dictionaries(NAMES, FLOATS, max_size=3)),
                place=draw(st.none() | PLACES),
                failure=draw(st.none() | FAILURES),
                void=draw(st.none() | NAMES),
                server=draw(st.dictionaries(NAMES, VALUES, max_size=3)),
                outputs=draw(st.none() | OUTPUTS),
            )
        )
    return runs
