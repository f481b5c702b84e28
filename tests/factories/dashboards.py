"""Stores to build dashboards of, and what must hold for every dashboard that was built."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zlib import crc32

import numpy as np

from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from tests.factories.stored_runs import make_source, make_trial
from tests.report.html_page import HtmlPage

FIRST_DAY = datetime(2026, 1, 1, 2, tzinfo=UTC)
LAB = Testbed("lab", accelerator="H100", accelerator_count=1, cpu="x86-64", cpu_count=16)


SOAK = SuiteRef("soak", "1")


def nightly(number: int) -> str:
    return f"0.30.1rc1.dev{number}"


def long_history(
    nights: int,
    scenarios: tuple[str, ...] = ("chat",),
    *,
    step_at: int | None = None,
    testbed: Testbed = LAB,
    suite: SuiteRef = SOAK,
) -> Iterator[Run]:
    """Two runs a night; from the night `step_at` on, latencies are a fifth larger."""
    generator = np.random.default_rng([20261123, crc32(f"{testbed.name} {suite}".encode())])
    for night in range(nights):
        factor = 1.2 if step_at is not None and night >= step_at else 1.0
        for start in range(2):
            when = FIRST_DAY + timedelta(days=night, hours=start)
            trials = []
            for scenario in scenarios:
                values = {"ttft_median": 0.1 * factor, "tpot_median": 0.01 * factor, "output_throughput": 900.0}
                noise = generator.lognormal(0, 0.01, len(values))
                metrics = {name: float(value * each) for (name, value), each in zip(values.items(), noise, strict=True)}
                content = f"{testbed.name} {suite} {night} {start} {scenario}"
                trials.append(make_trial(content, scenario, metrics=metrics, started=when, source=make_source(content)))
            yield Run(
                version=Version.parse(nightly(night)),
                testbed=testbed,
                suite=suite,
                label=f"night{night}-{start}",
                trials=tuple(trials),
                started=when,
            )


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def pages_of(folder: Path) -> dict[str, HtmlPage]:
    return {name: HtmlPage(content.decode()) for name, content in files_of(folder).items() if name.endswith(".html")}


def check_dashboard(folder: Path, *, is_whole: bool = True) -> None:
    """Every link leads to a file and a place in it, every page is reached from the first, nothing is loaded.

    `is_whole`: false for what a killed build leaves, where pages may be that nothing leads to yet.
    """
    pages = pages_of(folder)
    assert "index.html" in pages
    seen, todo = set[str](), ["index.html"]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        page = pages[name]
        ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
        assert len(ids) == len(set(ids)), name
        for element in page.elements:
            for attribute in ("href", "src"):
                if (target := element.attributes.get(attribute)) is None:
                    continue
                parts = urlsplit(target)
                if parts.scheme:
                    assert parts.scheme == "https", target
                    assert element.tag == "a", target
                    continue
                assert not target.startswith("/"), target
                path = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
                assert path.resolve().is_relative_to(folder.resolve()), target
                assert path.is_file(), f"{name} leads to {target}"
                there = str(path.resolve().relative_to(folder.resolve()))
                if parts.fragment:
                    assert parts.fragment in {e.attributes.get("id") for e in pages[there].elements}, target
                if there in pages:
                    todo.append(there)
    assert seen == set(pages) or not is_whole
    for name in files_of(folder):
        assert name == name.lower() or name == ".nojekyll", name
        assert len(Path(name).name) <= 140
        if name.endswith(".json"):
            json.loads((folder / name).read_text())
