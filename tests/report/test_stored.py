"""Stored results: shown again as they were, also those of earlier versions; everything else is refused by name."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.result import DeploymentOut
from regress_gate.report import FORMATS, OF_A_REPORT, OF_A_VERDICT, RenderOptions, format_names, render
from regress_gate.report.document import View
from regress_gate.report.render import terminal
from regress_gate.report.stored import MAX_BYTES, read_stored_file, read_stored_view
from regress_gate.report.views.audit_view import AuditView
from regress_gate.report.views.planning_view import PlanView
from regress_gate.report.views.result_view import ResultView
from tests.factories.audits import a_log, an_audit, observed, statistics_line
from tests.factories.findings import (
    BETTER,
    STEP,
    a_calibration,
    a_detection,
    a_history,
    some_config_changes,
    some_servers,
)
from tests.factories.results import EVERY_KIND, failing


def some_audits(*servers: str) -> AuditView:
    """A log that shows preemptions: of one deployment, or of each of these servers."""
    log = a_log(*[statistics_line(usage=99.0, preemptions=3)] * 6)
    audits = [an_audit(observed(log=log)) for _ in servers or ("",)]
    places = [DeploymentOut(name=name, where="compose.yaml:7", lines={"image": 8}) for name in servers]
    return AuditView([replace(each, deployment=place) for each, place in zip(audits, places or [None], strict=True)])


OLD = sorted((Path(__file__).parent / "stored").glob("*.json"))
AGAIN: dict[str, Callable[[], View]] = {
    **{kind: (lambda build=build: ResultView(build())) for kind, build in EVERY_KIND.items()},  # type: ignore[misc]
    "servers": some_servers,
    "calibrate": a_calibration,
    "diff-config": some_config_changes,
    "history": lambda: a_history(STEP, BETTER),
    "history-not-searched": lambda: a_history(searched=False),
    "detect": a_detection,
    "detect-without-direction": lambda: a_detection(None),
    "audit": some_audits,
    "audit-servers": lambda: some_audits("chat", "embed"),
    "diff-config-untested": lambda: some_config_changes(None, untested="the build is not known"),
}


def stored(view: View) -> bytes:
    return render(view, "json").encode()


def refused(content: bytes | str) -> str:
    with pytest.raises(InputError) as error:
        read_stored_view(content.encode() if isinstance(content, str) else content, "gate.json")
    message = str(error.value)
    assert message.startswith("gate.json:")
    assert len(message.splitlines()) == 1
    return message


def changed(*path: str | int, to: Any) -> str:
    """A failing result with another value at this place."""
    data = json.loads(stored(ResultView(failing())))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return json.dumps(data)


@pytest.mark.parametrize("build", [build for kind, build in AGAIN.items() if kind != "hostile"])
@pytest.mark.parametrize("name", format_names(*OF_A_VERDICT))
def test_a_stored_result_is_shown_as_it_was(build: Callable[[], View], name: str) -> None:
    view = build()
    assert render(read_stored_view(stored(view), "x"), name) == render(view, name)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", format_names(*OF_A_VERDICT))
def test_results_of_earlier_versions_stay_readable(path: Path, name: str) -> None:
    assert render(read_stored_file(path), name)


def test_the_words_of_the_first_version_are_understood() -> None:
    text = render(read_stored_file(Path(__file__).parent / "stored" / "compare-2026-11-21.json"), "table")
    assert "FAIL: do not move" in text
    assert "within_margin" in render(read_stored_file(OLD[1]), "table", RenderOptions(verbose=True))


def test_keys_of_a_later_version_are_ignored() -> None:
    data = json.loads(stored(ResultView(failing())))
    data["from_the_future"] = data["series"][0]["also"] = data["known_issues"][0]["as_well"] = [1]
    assert render(read_stored_view(json.dumps(data).encode(), "x"), "table") == render(ResultView(failing()), "table")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("nonsense", "gate.json:1: is not valid JSON"),
        ('{\n"schema_version": "1",\n"created": ', "gate.json:3: is not valid JSON, or cut short"),
        ('{"decision": NaN}', "is not valid JSON"),
        ('{"decision": 1e999}', "is not valid JSON"),
        (b"\xff\xfe{\x00}\x00", "is not valid JSON"),
        ('"' + "x" * 5000, "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[1]", "is a list, not the JSON object of a result"),
        ("{}", "is no result of regress-gate"),
        ('{"issues": []}', "is the JSON of `issues`"),
        ('{"plan": {}}', "is the JSON of `compare --plan`"),
        (changed("schema_version", to="2"), "has schema_version '2'; this regress-gate reads '1'"),
        (changed("schema_version", to={"a": 1}), "has schema_version a dict"),
        (changed("decision", to="maybe"), "decision: input should be 'pass', 'fail' or 'inconclusive'"),
        (changed("series", 1, "change", to="much"), "series[1].change: input should be a valid number"),
        (changed("series", 1, "margin", to=0), "series[1].margin: is not positive"),
        (changed("series", 0, to=[]), "series[0]: input should be a valid dictionary"),
        (changed("series", to={}), "series: input should be a valid list"),
        (changed("config_changes", 1, to={"name": "x"}), "config_changes[1].kind: field required"),
        (changed("config_changes", 0, "matters", to="x"), "config_changes[0].matters: input should be 'blocks'"),
        (changed("created", to="yesterday"), "created: "),
        (changed("deployment", to={"name": "x", "where": "y:1", "lines": {"image": 0}}), "deployment.lines.image: "),
        (changed("series", 0, "run_values", to=[1.0]), "series[0].run_values: are not those of the runs"),
        (changed("distributions", 0, "levels", 0, to=2.0), "distributions[0].levels: are not rising shares"),
        (changed("distributions", 0, "baseline", "lowest", to=[]), "has not one value for each level"),
        (changed("explanations", 0, "causes", to=[]), "explanations[0].causes: are missing"),
        ('{"deployments": []}', "deployments: is no list of results"),
        ('{"deployments": [{}]}', "deployments[0].tool_version: field required"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused_by_its_place(content: bytes | str, said: str) -> None:
    assert said in refused(content)


@pytest.mark.parametrize(("view", "added"), [(a_history(), "tool_version"), (a_detection(), "source")])
def test_what_an_earlier_json_does_not_hold_is_said_with_the_way_out(view: View, added: str) -> None:
    data = json.loads(stored(view))
    del data[added]
    said = refused(json.dumps(data))
    assert "which does not hold all that a report shows; run regress-gate" in said


@pytest.mark.parametrize(
    ("view", "path", "to", "said"),
    [
        (a_history(STEP), ("lines", 0, "series", 0, "points"), [], "has not one point for each version"),
        (a_history(STEP), ("lines", 0, "series", 0, "metric"), "speed", "lines[0]: "),
        (a_history(STEP), ("change_points", 0, "between"), ["1", "2"], "at no version of its line"),
        (a_history(STEP), ("change_points", 0, "line"), 7, "is on no line"),
        (a_detection(), ("series", 0, "times"), [], "series[0]: "),
        (a_detection(), ("series", 1, "group"), {"gpu": "h100"}, "two series are of the same group"),
        (a_detection(), ("change_points", 0, "index"), 10**6, "at no point of its series"),
        (some_audits(), ("audit", 0, "answer"), "perhaps", "audit[0].answer: "),
    ],
)  # fmt: skip
def test_a_contradiction_in_a_series_is_refused(view: View, path: tuple[str | int, ...], to: Any, said: str) -> None:
    data = json.loads(stored(view))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    assert said in refused(json.dumps(data))


def test_a_file_larger_than_any_result_is_not_read(tmp_path: Path) -> None:
    huge = tmp_path / "gate.json"
    huge.touch()
    os.truncate(huge, MAX_BYTES * 1000)
    with pytest.raises(InputError, match="is larger than 32 MiB"):
        read_stored_file(huge)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, str], ids=["folder", "pipe", "nothing"])
def test_what_is_no_file_is_an_error_that_does_not_wait(make: Callable[[Path], Any], tmp_path: Path) -> None:
    make(tmp_path / "gate.json")
    with pytest.raises(InputError, match=r"gate.json: cannot be read \("):
        read_stored_file(tmp_path / "gate.json")


ALL = [name for name in format_names(*OF_A_REPORT) if not FORMATS[name].is_binary]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "1", "±", "\x1b[31m", "##[error]x", "2026-01-01", "new", "yes", "s", "{}"]),
    st.just([]),
    st.just({}),
    st.just([{}]),
    st.just({"a": [1]}),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


FORGED = [(json.loads(stored(build())), places(json.loads(stored(build())))) for kind, build in AGAIN.items()
          if kind in ("fail", "check", "servers", "calibrate", "diff-config", "history", "detect", "audit-servers")
          ]  # fmt: skip


@given(data=st.data())
def test_a_forged_result_is_refused_or_shown_and_nothing_else_happens(data: st.DataObject) -> None:
    document, known = data.draw(st.sampled_from(FORGED))
    document = json.loads(json.dumps(document))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(known))
        try:
            place = document
            for key in path[:-1]:
                place = place[key]
            if data.draw(st.booleans()):
                place[path[-1]] = data.draw(LEAVES)
            else:
                del place[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    try:
        view = read_stored_view(json.dumps(document).encode(), "gate.json")
    except InputError:
        return
    for name in ALL:
        try:
            assert render(view, name)
        except InputError as refusal:
            assert "this report has no picture" in str(refusal)  # noqa: PT017
    assert terminal.render(view, RenderOptions(verbose=True))


def test_a_plan_has_no_findings() -> None:
    assert PlanView.findings is View.findings
