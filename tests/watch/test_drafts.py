"""Drafts from a finding: valid where a program reads them, and refused until a person has completed them."""

import re
from datetime import date
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from regress_gate.known.records.curation import lint_records
from regress_gate.known.records.loading import load_records
from regress_gate.model.issue import IssueKind
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.suites import load_suite
from regress_gate.watch.drafts import MeasuredWith, draft_finding_record, draft_upstream_report
from tests.factories.results import a_series, an_issue
from tests.factories.watching import BAD, a_finding, a_look, a_regression

TODAY = date(2026, 11, 23)
TESTBED = Testbed("secret-host-7", accelerator="NVIDIA H100 80GB HBM3", accelerator_count=1, driver="580.65")
HOSTILE = "x: [y\n# z @team <!-- --> ``` \x1b[31m hf_abcdefghijklmnop"


def scenario(**changes: object) -> Scenario:
    given = {
        "name": "chat-c8",
        "server": {
            "model": "Qwen/Qwen3-8B",
            "engine_args": {"max_model_len": 4096, "enable_prefix_caching": False},
            "env": {"VLLM_USE_V1": "1", "HF_TOKEN": "hf_abcdefghijklmnop"},
        },
        "workload": {"input_len": 512, "output_len": 128, "concurrency": 8, "num_requests": 200, "seed": 7},
        **changes,
    }
    return Scenario.model_validate(given)


MEASURED = MeasuredWith({"chat-c8": scenario()}, TESTBED, {"torch": "2.9.1"})


def lint(tmp_path: Path, name: str, text: str) -> tuple[list[str], list[str]]:
    (tmp_path / name).write_text(text)
    messages = lint_records(tmp_path, today=TODAY)
    return (
        [one.what for one in messages if one.severity == "error"],
        [one.what for one in messages if one.severity == "warning"],
    )


def test_a_record_loads_and_only_its_placeholders_are_errors(tmp_path: Path) -> None:
    name, text = draft_finding_record(a_finding(), MEASURED, today=TODAY)
    errors, warnings = lint(tmp_path, name, text)
    assert errors == ["summary still has a TODO", "evidence still has a TODO"]
    assert warnings == ["no ECOSYSTEM range: the record cannot be matched with any release"]
    (record,) = load_records(tmp_path)
    assert record.scope.model == ["Qwen/Qwen3-8B"]
    assert record.scope.engine_args == {"max_model_len": 4096, "enable_prefix_caching": False}
    assert record.scope.env == {"VLLM_USE_V1": "1"}
    assert record.affected[0].ranges[0].events[0].introduced == BAD.commit
    (part,) = record.signature
    assert (part.metric, part.change) == ("output_throughput", (0.07, 0.11))
    assert "secret-host-7" not in text
    assert "hf_" not in text


def test_a_completed_record_passes_the_linter(tmp_path: Path) -> None:
    thread = "https://github.com/vllm-project/vllm/issues/99999"
    finding = a_finding(first_bad=Version.parse("0.24.0"))
    name, text = draft_finding_record(finding, MEASURED, today=TODAY, thread=thread)
    assert name == "VLLM-99999.yaml"
    assert lint(tmp_path, name, text.replace("TODO", "done")) == ([], [])


@pytest.mark.parametrize(
    ("metric", "kind"),
    [("peak_memory", IssueKind.MEMORY), ("startup_time", IssueKind.STARTUP), ("tpot_median", IssueKind.PERFORMANCE)],
)
def test_the_kind_follows_from_the_metric(tmp_path: Path, metric: str, kind: IssueKind) -> None:
    name, text = draft_finding_record(a_finding(series=(a_series(name=metric),)), MEASURED, today=TODAY)
    lint(tmp_path, name, text)
    (record,) = load_records(tmp_path)
    assert (record.kind, record.signature[0].change) == (kind, None)


@pytest.mark.parametrize("suite", ["cpu-tiny", "h100-llama8b", "l4-rerank", "h100-lora", "h100-structured-output"])
def test_every_scenario_of_a_shipped_suite_has_its_drafts(tmp_path: Path, suite: str) -> None:
    every = {one.name: one for one in load_suite(suite).scenarios}
    finding = a_finding(series=tuple(a_regression(name) for name in every))
    measured = MeasuredWith(every, TESTBED)
    name, text = draft_finding_record(finding, measured, today=TODAY)
    assert lint(tmp_path, name, text)[0] == ["summary still has a TODO", "evidence still has a TODO"]
    assert "vllm serve" in draft_upstream_report(finding, a_look(0, finding), measured)[1]


def test_without_any_facts_the_gaps_are_marked(tmp_path: Path) -> None:
    finding = a_finding(series=(), first_bad=Version.parse("0.24.1.dev7"), last_good=None)
    name, text = draft_finding_record(finding, MeasuredWith({}, Testbed("x")), today=TODAY)
    errors, _ = lint(tmp_path, name, text)
    assert len([one for one in errors if one.endswith("still has a TODO")]) == len(errors) == 4


def test_texts_stay_texts() -> None:
    bad = scenario(server={"model": HOSTILE, "engine_args": {"served": HOSTILE}, "env": {"A": HOSTILE}}, name="chat-c8")
    measured = MeasuredWith({"chat-c8": bad}, Testbed(HOSTILE, accelerator=HOSTILE), {HOSTILE: HOSTILE}, HOSTILE)
    finding = a_finding(title=HOSTILE, known_issues=(an_issue(summary=HOSTILE),))
    _, text = draft_finding_record(finding, measured, today=TODAY)
    assert set(yaml.safe_load(text)) == set(yaml.safe_load(draft_finding_record(a_finding(), MEASURED, today=TODAY)[1]))
    title, report = draft_upstream_report(finding, a_look(0, finding), measured)
    assert "\n" not in title
    for written in (text, title, report):
        assert "hf_abcdefghijklmnop" not in written
        assert "\x1b" not in written
    tokens = [one for block in MarkdownIt().parse(report) for one in (block, *(block.children or ()))]
    markup = " ".join(one.content for one in tokens if one.type.startswith("html"))
    assert set(re.findall(r"<[^>]*>", markup)) == {"<details>", "<summary>", "</summary>", "</details>"}


def test_a_report_for_upstream_has_what_a_maintainer_asks_for() -> None:
    environment = "PyTorch version: 2.9.1\nHF_TOKEN=hf_abcdefghijklmnop\nVLLM_USE_V1=1\n"
    measured = MeasuredWith(MEASURED.scenarios, TESTBED, {"torch": "2.9.1"}, environment)
    finding = a_finding(known_issues=(an_issue(),))
    title, report = draft_upstream_report(finding, a_look(0, finding), measured)
    assert title == (
        "[Performance]: output_throughput -9.0% [-11.0%, -7.0%], worse since 0.23.1rc1.dev1403 on NVIDIA H100 80GB HBM3"
    )
    for part in (
        "compare/1111111aa...4080263bb",
        "512.0 → 466.0 tok/s",
        "n=5",
        "VLLM_USE_V1=1 vllm serve Qwen/Qwen3-8B --port=8000 --max-model-len=4096 --no-enable-prefix-caching",
        "vllm bench serve --model=Qwen/Qwen3-8B --port=8000 --dataset-name=random --random-input-len=512",
        "--max-concurrency=8",
        "driver: 580.65",
        "torch (library): 2.9.1",
        "HF_TOKEN=***",
        "issues/28882",
    ):
        assert part in report, part
    assert "secret-host-7" not in report
