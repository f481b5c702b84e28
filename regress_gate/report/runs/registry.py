"""The forms by name. A new one is one module and one entry here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from regress_gate.ingest.text import sanitised
from regress_gate.model.run import Run
from regress_gate.report.runs import llm_d, long_table


@dataclass(frozen=True, slots=True)
class Form:
    text: Callable[[Sequence[Run]], str]
    """All runs as one text, which `regress-gate import -` reads."""
    files: Callable[[Sequence[Run]], Iterator[tuple[str, str]]]
    """Names and texts of the files for a folder."""


def render(runs: Sequence[Run], form: str) -> str:
    return FORMS[form].text(runs)


def files(runs: Sequence[Run], form: str) -> Iterator[tuple[str, str]]:
    """File names, all different, and their texts."""
    taken: dict[str, int] = {}
    for name, text in FORMS[form].files(runs):
        taken[name] = taken.get(name, 0) + 1
        stem, dot, ending = name.rpartition(".")
        yield name if taken[name] == 1 else f"{stem}-{taken[name]}{dot}{ending}", text


def _reports(runs: Iterable[Run]) -> Iterator[tuple[str, str]]:
    for run in runs:
        for trial in run.trials:
            label, scenario = sanitised(run.label), sanitised(trial.scenario)
            yield f"{_place(run)}-{label}-{scenario}-t{trial.ordinal}.json", llm_d.render(run, trial)


def _tables(ending: str, text: Callable[[Iterable[Run]], str]) -> Callable[[Sequence[Run]], Iterator[tuple[str, str]]]:
    def tables(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
        for place, members in groupby(sorted(runs, key=_place), key=_place):
            yield f"{place}.{ending}", text(members)

    return tables


def _place(run: Run) -> str:
    return "-".join(map(sanitised, (str(run.version), run.testbed.name, str(run.suite))))


FORMS: dict[str, Form] = {
    "llm-d": Form(lambda runs: "".join(text for _, text in _reports(runs)), _reports),
    "long": Form(long_table.render_csv, _tables("csv", long_table.render_csv)),
    "long-json": Form(long_table.render_json, _tables("json", long_table.render_json)),
}
