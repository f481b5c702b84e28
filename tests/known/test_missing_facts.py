"""Of many missing facts, those that would decide the most issues are named."""

from regress_gate.known.matching.findings import match_issues, missing_facts_text, rank_missing_facts
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from tests.factories.records import IN_SCOPE, affected, record

MODEL = {"model": ["org/Model*"]}
RECORDS = [
    record(id="VLLM-1", scope=MODEL),
    record(id="VLLM-2", scope={**MODEL, "accelerator": ["H200"]}),
    record(id="VLLM-3", scope={"engine_args": {"block_size": 64}}),
    record(id="VLLM-4", scope=MODEL, affected=[affected({"introduced": "0.18.0"}, {"fixed": "0.20.0"})]),
]


def test_flags_are_named_by_how_many_issues_wait_for_them() -> None:
    found = match_issues(RECORDS, Deployment(), Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert missing_facts_text(found) == (
        "3 known issues need more facts; most wanted: --serve-command or --deployment (3), --accelerator (1)."
    )


def test_with_the_whole_launch_line_single_flags_are_named() -> None:
    found = match_issues(RECORDS, Deployment(complete=True), Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert missing_facts_text(found, complete=True) == (
        "3 known issues need more facts; most wanted: --model (2), --engine-arg block_size (1), --accelerator (1)."
    )


def test_facts_for_the_decision_are_named_first() -> None:
    found = match_issues(RECORDS, Deployment(), Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert missing_facts_text(found, {"VLLM-3"}, complete=True).endswith(
        "most wanted: --engine-arg block_size (1), --model (2), --accelerator (1)."
    )
    decides = [(("--accelerator",), True), (("--model",), False), (("--model",), False)]
    assert rank_missing_facts(decides) == [("--accelerator", 1), ("--serve-command or --deployment", 2)]


def test_what_settles_issues_alone_comes_before_what_many_need_among_others() -> None:
    missing = [(("--accelerator",), False), (("--quantization", "--env A"), False), (("--env A", "--env B"), False)]
    assert rank_missing_facts(missing) == [
        ("--accelerator", 1),
        ("--env A", 2),
        ("--env B", 1),
        ("--quantization", 1),
    ]


def test_the_launch_line_goes_before_a_single_fact_that_settles_no_more() -> None:
    missing = [(("--accelerator",), False), (("--model", "--engine-arg tensor_parallel_size"), False)]
    assert rank_missing_facts(missing) == [("--serve-command or --deployment", 1), ("--accelerator", 1)]


def test_a_whole_launch_line_is_recognised_by_what_is_not_missing() -> None:
    assert rank_missing_facts([(("--engine-arg block_size",), False)]) == [("--engine-arg block_size", 1)]


def test_nothing_is_asked_where_everything_is_told() -> None:
    assert missing_facts_text(match_issues(RECORDS[:2], IN_SCOPE, None, Version.parse("0.20.0"))) == ""
