"""The JSON format: the contract of schema_version 1, valid for every result."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from jsonschema import Draft202012Validator, FormatChecker

from regress_gate.model.result import Result, WorkaroundOut
from regress_gate.redaction import redact
from regress_gate.report.schema import (
    AUDIT_PAGE,
    AUDIT_PATH,
    PAGE,
    SCHEMA_PATH,
    SERVERS_PATH,
    audit_page_text,
    audit_schema,
    page_text,
    schema,
    schema_text,
    servers_schema,
)
from regress_gate.report.views.audit_view import AuditView
from tests.factories.results import (
    EVERY_KIND,
    a_change,
    a_result,
    a_series,
    an_issue,
    failing,
    filled_with,
    render_result,
)
from tests.factories.views import EVERY_VIEW

from .strategies import hostile_text

SCHEMA = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=FormatChecker())

CONTRACT = {
    "": "schema_version tool_version created decision exit_code reasons baseline candidate testbed series known_issues "
    "waivers change_points config_changes plan",
    "reasons": "code text series issue",
    "series": "scenario metric unit direction gated baseline candidate change interval confidence p_worse q_worse "
    "margin verdict runs_needed natural_change natural_interval",
    "known_issues": "id applies why status effect blocks matched_series score workarounds",
}


def document(result: Result) -> Any:
    def reject(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(render_result(result, "json"), parse_constant=reject)


@pytest.mark.parametrize(
    ("path", "made"), [(SCHEMA_PATH, schema), (SERVERS_PATH, servers_schema), (AUDIT_PATH, audit_schema)]
)
def test_the_schema_file_is_current(path: Path, made: Callable[[], dict[str, Any]]) -> None:
    current = path.read_text(encoding="utf-8") == schema_text(made())
    assert current, "run: python -m regress_gate.report.schema"


def test_a_check_of_several_servers_has_a_schema_of_its_own() -> None:
    several = json.loads(json.dumps(EVERY_VIEW["servers"]("two servers").data()))
    validator = Draft202012Validator(servers_schema(), format_checker=FormatChecker())
    validator.validate(several)
    several["deployments"][0]["decision"] = "maybe"
    assert not validator.is_valid(several)


@pytest.mark.parametrize("servers", [1, 2])
def test_an_audit_has_a_schema_of_its_own(servers: int) -> None:
    view = EVERY_VIEW["audit"]("a & <b>")
    assert isinstance(view, AuditView)
    audit = json.loads(json.dumps(AuditView([*view.audits] * servers).data()))
    validator = Draft202012Validator(audit_schema(), format_checker=FormatChecker())
    Draft202012Validator.check_schema(validator.schema)
    validator.validate(audit)
    first = audit["deployments"][0] if "deployments" in audit else audit
    # Without that the schema would let anything pass: every key that is printed has to be known to it.
    parts = validator.schema["$defs"]
    assert first.keys() == parts["AuditOut"]["properties"].keys()
    assert {key for rule in first["audit"] for key in rule} == parts["AuditRuleOut"]["properties"].keys()
    evidence = [one for rule in first["audit"] for one in rule["evidence"]]
    assert {key for one in evidence for key in one} == parts["AuditEvidenceOut"]["properties"].keys()
    first["audit"][0]["answer"] = "maybe"
    assert not validator.is_valid(audit)


@pytest.mark.parametrize("made", [schema, audit_schema])
def test_every_key_is_described(made: Callable[[], dict[str, Any]]) -> None:
    whole = made()
    objects = {name: part for name, part in {"Result": whole, **whole["$defs"]}.items() if "properties" in part}
    silent = [
        f"{name}.{key}"
        for name, part in objects.items()
        for key, value in part["properties"].items()
        if not value.get("description")
    ]
    assert not silent, "add a line below the field in model/result.py or report/audit_document.py"


def test_the_page_has_the_tables_of_the_schema() -> None:
    for path, with_tables in ((PAGE, page_text), (AUDIT_PAGE, audit_page_text)):
        page = path.read_text(encoding="utf-8")
        assert page == with_tables(page), "run: python -m regress_gate.report.schema"


def test_the_schema_is_valid() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("build", EVERY_KIND.values(), ids=EVERY_KIND)
def test_every_result_obeys_the_schema_and_reads_back(build: Callable[[], Result]) -> None:
    VALIDATOR.validate(document(build()))
    again = Result.model_validate(document(build()))
    # What looks like a secret of an address is masked in the hostile text, so that only the JSON is the same.
    assert again == build() or build is EVERY_KIND["hostile"]
    assert document(again) == document(build())


@given(text=hostile_text)
@example(text="https://host.example/\x1bs3cr3t-aB3dE9")
@example(text="A://#\x1b")
def test_any_text_survives_as_it_is_in_pure_ascii(text: str) -> None:
    rendered = render_result(filled_with(text), "json")
    assert rendered.isascii()
    assert not [char for char in rendered if char != "\n" and not char.isprintable()]
    assert json.loads(rendered)["advice"] == redact(text)
    VALIDATOR.validate(json.loads(rendered))


@pytest.mark.parametrize("part", CONTRACT)
def test_every_key_of_the_contract_is_there(part: str) -> None:
    told = document(failing())
    for entry in told[part] if part else [told]:
        assert set(CONTRACT[part].split()) <= set(entry)


@pytest.mark.parametrize(
    ("metric", "natural", "interval"),
    [("ttft_p99", 0.1, [-0.02, None]), ("output_throughput", -0.1, [None, 0.02])],
)
def test_a_series_has_its_loss_and_what_happened(metric: str, natural: float, interval: list[float | None]) -> None:
    (series,) = document(a_result(series=[a_series(name=metric, change=0.1, interval=(-0.02, None))]))["series"]
    assert (series["change"], series["interval"]) == (0.1, [-0.02, None])
    assert (series["natural_change"], series["natural_interval"]) == (natural, interval)


def test_a_change_of_nothing_has_no_sign() -> None:
    (series,) = document(a_result(series=[a_series(name="goodput", change=0.0, interval=(0.0, 0.0))]))["series"]
    assert str(series["natural_change"]) == "0.0"


def test_the_time_is_written_in_utc_with_a_z() -> None:
    created = datetime(2026, 11, 21, 11, 30, tzinfo=timezone(timedelta(hours=2)))
    assert document(a_result(created=created))["created"] == "2026-11-21T09:30:00Z"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_lacks_is_null(number: float) -> None:
    workaround = WorkaroundOut(text="x", engine_args={"limit": number})
    result = a_result(
        config_changes=[a_change(before=number, after=[number, 1.0])],
        known_issues=[an_issue(workarounds=[workaround])],
    )
    told = document(result)
    assert [(change["before"], change["after"]) for change in told["config_changes"]] == [(None, [None, 1.0])]
    assert told["known_issues"][0]["workarounds"][0]["engine_args"] == {"limit": None}


def test_numbers_are_not_rounded() -> None:
    result = a_result(series=[a_series(change=0.1 + 0.2)])
    assert document(result)["series"][0]["change"] == 0.1 + 0.2
