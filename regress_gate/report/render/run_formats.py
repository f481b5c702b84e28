"""The forms by name. A new one is one module and one entry here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from regress_gate.model.run import Run
from regress_gate.report.render import llm_d_report, long_table
from regress_gate.text import slugify


@dataclass(frozen=True, slots=True)
class RunFormat:
    text: Callable[[Sequence[Run]], str]
    """All runs as one text, which `regress-gate import -` reads."""
    files: Callable[[Sequence[Run]], Iterator[tuple[str, str]]]
    """Names and texts of the files for a folder."""


def render_runs(runs: Sequence[Run], form: str) -> str:
    return RUN_FORMATS[form].text(runs)


def run_files(runs: Sequence[Run], form: str) -> Iterator[tuple[str, str]]:
    """File names, all different, and their texts."""
    taken: dict[str, int] = {}
    for name, text in RUN_FORMATS[form].files(runs):
        taken[name] = taken.get(name, 0) + 1
        stem, dot, ending = name.rpartition(".")
        yield name if taken[name] == 1 else f"{stem}-{taken[name]}{dot}{ending}", text


def _reports(runs: Iterable[Run]) -> Iterator[tuple[str, str]]:
    for run in runs:
        for trial in run.trials:
            label, scenario = slugify(run.label), slugify(trial.scenario)
            yield f"{_place(run)}-{label}-{scenario}-t{trial.ordinal}.json", llm_d_report.render(run, trial)


def _tables(ending: str, text: Callable[[Iterable[Run]], str]) -> Callable[[Sequence[Run]], Iterator[tuple[str, str]]]:
    def tables(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
        for place, members in groupby(sorted(runs, key=_place), key=_place):
            yield f"{place}.{ending}", text(members)

    return tables


def _place(run: Run) -> str:
    return "-".join(map(slugify, (str(run.version), run.testbed.name, str(run.suite))))


RUN_FORMATS: dict[str, RunFormat] = {
    "llm-d": RunFormat(lambda runs: "".join(text for _, text in _reports(runs)), _reports),
    "long": RunFormat(long_table.render_csv, _tables("csv", long_table.render_csv)),
    "long-json": RunFormat(long_table.render_json, _tables("json", long_table.render_json)),
}
