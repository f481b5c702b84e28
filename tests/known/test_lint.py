"""Linting: each message, from a record with that one fault; no bad file stops the pass."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from regress_gate.errors import InputError
from regress_gate.known.records.curation import lint_records
from regress_gate.model.documents import LintMessage
from tests.factories.records import REPO, affected, record_data, write

TODAY = date(2026, 11, 21)


def complaints(directory: Path, *records: dict[str, Any]) -> list[LintMessage]:
    for data in records:
        write(directory, data)
    return lint_records(directory, today=TODAY)


def tracker(**changes: Any) -> dict[str, Any]:
    return {"url": f"{REPO}/issues/1", "state": "open", "checked": "2026-11-01", **changes}


def test_a_sound_record_has_no_messages(tmp_path: Path) -> None:
    assert complaints(tmp_path, record_data()) == []


@pytest.mark.parametrize(
    ("changes", "severity", "complaint"),
    [
        pytest.param({"evidence": None}, "error", "key 'evidence' is missing", id="no evidence"),
        pytest.param({"references": []}, "error", "references: List should have at least 1", id="no references"),
        pytest.param({"aliases": ["VLLM-1"]}, "error", "is the id", id="alias is the id"),
        pytest.param({"aliases": ["A-1", "a-1"]}, "error", "alias a-1 is given twice", id="alias twice"),
        pytest.param(
            {
                "tracker": tracker(url=f"{REPO}/issues/2"),
                "references": [{"type": "REPORT", "url": f"{REPO}/issues/2"}, {"type": "FIX", "url": f"{REPO}/pull/3"}],
            },
            "error",
            f"VLLM-1 is tracked at {REPO}/issues/1, not at {REPO}/issues/2",
            id="tracker number",
        ),
        pytest.param(
            {"references": [{"type": "WEB", "url": f"{REPO}/issues/1"}, {"type": "FIX", "url": f"{REPO}/pull/2"}]},
            "error",
            "is not among the references as REPORT",
            id="tracker not a report",
        ),
        pytest.param(
            {"references": [{"type": "REPORT", "url": f"{REPO}/issues/1"}]}, "error", "no FIX reference", id="no fix"
        ),
        pytest.param({"tracker": tracker(state="closed")}, "warning", "closed without state_reason", id="closing"),
        pytest.param(
            {"code": [{"argument": "async_schedulin", "default": True}]},
            "error",
            "no release has async_schedulin (did you mean 'async_scheduling'?)",
            id="argument of no release",
        ),
        pytest.param(
            {"code": [{"env": "VLLM_USE_DEEP_GEM", "default": "1"}]},
            "error",
            "no release has VLLM_USE_DEEP_GEM (did you mean 'VLLM_USE_DEEP_GEMM'?)",
            id="variable of no release",
        ),
        pytest.param(
            {"code": [{"file": "vllm/envs.py", "present": "A_NAME"}, {"file": "vllm/envs.py", "present": ["A_NAME"]}]},
            "error",
            "the condition is given twice",
            id="condition twice",
        ),
        pytest.param(
            {"tracker": tracker(state_reason="stale")},
            "error",
            "an open thread cannot have the reason 'stale'",
            id="open stale",
        ),
        pytest.param({"tracker": tracker(checked="2026-11-22")}, "error", "checked in the future", id="checked"),
        pytest.param({"reviewed": "2026-11-22"}, "error", "reviewed in the future", id="reviewed"),
        pytest.param({"reviewed": "2026-05-24"}, "warning", "over 180 days ago", id="old review"),
        pytest.param(
            {"affected": [affected({"introduced": "0.20.0"}, {"fixed": "0.19.1"})]},
            "error",
            "0.19.1 is not after the event before it",
            id="fixed before introduced",
        ),
        pytest.param(
            {"affected": [affected({"introduced": "0.20.0"}, {"fixed": "0.20.0"})]},
            "error",
            "0.20.0 is not after the event before it",
            id="fixed when introduced",
        ),
        pytest.param(
            {"affected": [affected({"introduced": "0.20.0"}, {"introduced": "0.21.0"}, {"fixed": "0.22.0"})]},
            "error",
            "must alternate",
            id="introduced twice",
        ),
        pytest.param(
            {"affected": [affected(commits=({"introduced": "5a84b76"}, {"fixed": "abcdef0"}))]},
            "warning",
            "no ECOSYSTEM range",
            id="commits only",
        ),
        pytest.param({"version_regression": False}, "warning", "not a version regression", id="no regression"),
        pytest.param(
            {"signature": [{"metric": "ttft", "direction": "worse", "change": [-0.2, 0.1]}]},
            "error",
            "direction worse does not fit the change [-0.2, 0.1]",
            id="worse",
        ),
        pytest.param(
            {"signature": [{"metric": "ttft", "direction": "better", "change": [0.1, 0.2]}]},
            "error",
            "direction better does not fit",
            id="better",
        ),
        pytest.param(
            {"signature": [{"metric": "ttft", "direction": "unchanged", "change": [0.1, 0.2]}]},
            "error",
            "direction unchanged does not fit",
            id="unchanged",
        ),
        pytest.param({"signature": []}, "warning", "performance issue without a signature", id="no signature"),
        pytest.param({"scope": {}}, "warning", "applies to every deployment", id="empty scope"),
        pytest.param({"scope": {"model": ["*"]}}, "error", "matches everything", id="star"),
        pytest.param(
            {"scope": {"architecture": ["*"]}}, "error", "architecture pattern '*' matches", id="architecture"
        ),
        pytest.param(
            {"scope": {"backends": {"moe": ["*"]}}}, "error", "moe pattern '*' matches everything", id="backend"
        ),
        pytest.param({"scope": {"parallel": {}}}, "error", "parallel is empty", id="no sizes"),
        pytest.param({"scope": {"backends": {}}}, "error", "backends is empty", id="no backends"),
        pytest.param({"scope": {"workload": {}}}, "error", "workload is empty", id="no region"),
        pytest.param({"scope": {"platform": ["metal"]}}, "error", "Input should be 'cuda'", id="platform"),
        pytest.param({"scope": {"gpu_arch": ["Hopper"]}}, "error", "String should match pattern", id="level"),
        pytest.param({"scope": {"features": ["music"]}}, "error", "Input should be 'lora'", id="feature"),
        pytest.param({"scope": {"parallel": {"tensor": "many"}}}, "error", "String should match pattern", id="size"),
        pytest.param(
            {"scope": {"dependencies": {"triton": "3.5"}}}, "error", "not a PEP 440 specifier set", id="specifier"
        ),
        pytest.param({"scope": {"dependencies": {"triton": ""}}}, "error", "an empty specifier set", id="no specifier"),
        pytest.param({"changes": {"fixed_by": [{}]}}, "error", "at least one of pull, commit, merged", id="no change"),
        pytest.param({"changes": {"fixed_by": [{"commit": "main"}]}}, "error", "String should match", id="no commit"),
        pytest.param(
            {"changes": {"fixed_by": [{"repo": "https://github.com/a/b", "merged": "2026-11-22"}]}},
            "error",
            "merged in the future",
            id="merged tomorrow",
        ),
        pytest.param(
            {
                "changes": {
                    "introduced_by": [{"pull": 1, "merged": "2026-04-10"}],
                    "fixed_by": [{"pull": 2, "merged": "2026-04-01"}],
                }
            },
            "error",
            "merged on 2026-04-01, before what it fixes (2026-04-10)",
            id="fixed before it came",
        ),
        pytest.param(
            {"changes": {"fixed_by": [{"merged": "2026-05-20", "reverted_by": {"merged": "2026-05-19"}}, {"pull": 4}]}},
            "error",
            "reverted on 2026-05-19, before it was merged",
            id="reverted first",
        ),
        pytest.param(
            {"changes": {"fixed_by": [{"merged": "2026-05-20", "reverted_by": {"pull": 3}}]}},
            "error",
            "every fix was reverted, yet the last event is fixed",
            id="all reverted",
        ),
        pytest.param(
            {"changes": {"introduced_by": [{"pull": 1, "merged": "2026-04-28"}]}},
            "error",
            "introduced 0.20.0 was published on 2026-04-27, before the change was merged (2026-04-28)",
            id="release before the change",
        ),
        pytest.param(
            {"changes": {"fixed_by": [{"pull": 1, "merged": "2026-06-14"}]}},
            "error",
            "fixed 0.23.0 was published on 2026-06-13, before the change was merged (2026-06-14)",
            id="release before the fix",
        ),
        pytest.param(
            {
                "references": [
                    {"type": "REPORT", "url": f"{REPO}/issues/1"},
                    {"type": "FIX", "url": f"{REPO}/pull/2"},
                    {"type": "FIX", "url": f"{REPO}/pull/2/"},
                ]
            },
            "error",
            f"{REPO}/pull/2 is given twice as FIX",
            id="reference twice",
        ),
        pytest.param({"evidence": "TODO: read the thread"}, "error", "evidence still has a TODO", id="draft"),
        pytest.param({"scope": {"model": ["org/[ab"]}}, "error", "unfinished [", id="bracket"),
        pytest.param({"scope": {"accelerator": ["[HB]200"]}}, "error", "with * or ? and no [", id="accelerator class"),
        pytest.param(
            {"scope": {"engine_args": {"enable-expert-parallel": True}}}, "error", "with underscores", id="dashes"
        ),
        pytest.param({"scope": {"engine_args": {"tp": 8}}}, "error", "write its full name", id="short name"),
        pytest.param({"scope": {"engine_args": {"block_size": []}}}, "error", "never matches", id="empty list"),
        pytest.param(
            {"scope": {"unless": [{"engine_args": {"kv_cache_dtype": ["auto", "fp8*"]}}]}},
            "error",
            "values are no patterns, so 'fp8*' never matches",
            id="pattern of values",
        ),
        pytest.param(
            {"scope": {"unless": [{"engine_args": {"block_size": ["*", 8]}}]}},
            "error",
            "stands alone",
            id="any in a list",
        ),
        pytest.param(
            {"scope": {"env": {"VLLM-X": "1"}}}, "error", "not a name of an environment variable", id="env name"
        ),
        pytest.param({"scope": {"env": {"VLLM_X": []}}}, "error", "never matches", id="empty env list"),
        pytest.param({"scope": {"unless": [{"model": ["*"]}]}}, "error", "matches everything", id="exception glob"),
        pytest.param({"scope": {"unless": [{}]}}, "error", "excludes every deployment", id="empty exception"),
        pytest.param(
            {"scope": {"unless": [{"model": ["a/b"], "workload": {"concurrency": "1"}}]}},
            "error",
            "must not contain workload",
            id="exception of a workload",
        ),
        pytest.param(
            {
                "scope": {"env": {"VLLM_X": ["0", "2"]}},
                "workarounds": [{"text": "Turn it off.", "env": {"VLLM_X": "false"}}],
            },
            "error",
            "the workaround VLLM_X=false is part of the scope",
            id="workaround in scope",
        ),
        pytest.param(
            {"scope": {"engine_args": {"moe_backend": "Triton"}}},
            "error",
            "the workaround moe_backend=triton is part of the scope",
            id="workaround argument in scope",
        ),
    ],
)
def test_each_fault_has_its_own_message(tmp_path: Path, changes: dict[str, Any], severity: str, complaint: str) -> None:
    found = complaints(tmp_path, record_data(**changes))
    assert [(one.severity, complaint in one.what) for one in found] == [(severity, True)], [str(one) for one in found]


def test_a_changed_default_may_have_an_empty_scope(tmp_path: Path) -> None:
    assert complaints(tmp_path, record_data(kind="default-change", scope={}, signature=[])) == []


def test_an_empty_scope_is_a_warning_until_a_reason_is_given(tmp_path: Path) -> None:
    assert [one.severity for one in complaints(tmp_path, record_data(scope={}))] == ["warning"]
    assert complaints(tmp_path, record_data(scope={}, details="Every request takes the path that was changed.")) == []


def test_changes_of_other_repositories_say_nothing_of_vllms_releases(tmp_path: Path) -> None:
    change = {"repo": "https://github.com/flashinfer-ai/flashinfer", "pull": 1, "merged": "2026-11-01"}
    assert complaints(tmp_path, record_data(changes={"introduced_by": [change]})) == []


def test_one_of_several_changes_may_be_late(tmp_path: Path) -> None:
    merged = [{"pull": 2, "merged": "2026-06-01"}, {"pull": 3, "merged": "2026-06-20"}]
    assert complaints(tmp_path, record_data(changes={"fixed_by": merged})) == []


def test_the_line_is_the_one_to_change(tmp_path: Path) -> None:
    data = record_data(signature=[{"metric": "ttft", "direction": "worse", "change": [-0.2, 0.1]}])
    (found,) = complaints(tmp_path, data)
    assert found.line is not None
    assert (tmp_path / "VLLM-1.yaml").read_text().splitlines()[found.line - 1].strip() == "change:"
    assert str(found).startswith(f"{tmp_path / 'VLLM-1.yaml'}:{found.line}: error: direction worse")


def test_names_claimed_twice_are_found_across_files(tmp_path: Path) -> None:
    other = record_data(id="SITE-7", aliases=["vllm-1"])
    found = complaints(tmp_path, record_data(), other)
    assert sorted((one.file.name, one.what) for one in found) == [
        ("VLLM-1.yaml", "VLLM-1 already belongs to SITE-7.yaml"),
        ("VLLM-1.yaml", f"{REPO}/issues/1 already belongs to SITE-7.yaml"),
    ]


def test_a_second_file_with_the_same_id_is_named_wrongly_and_a_duplicate(tmp_path: Path) -> None:
    write(tmp_path, record_data(), name="VLLM-1-copy.yaml")
    whats = [one.what for one in complaints(tmp_path, record_data())]
    assert any("call it VLLM-1.yaml" in what for what in whats)
    assert any(what.startswith("VLLM-1 already belongs to") for what in whats)


def test_a_bad_file_does_not_hide_the_faults_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "VLLM-0.yaml").write_text("id: [")
    (tmp_path / "VLLM-3.yml").write_text("id: VLLM-3")
    found = complaints(tmp_path, record_data(scope={}))
    assert [one.file.name for one in found] == ["VLLM-0.yaml", "VLLM-1.yaml", "VLLM-3.yml"]


def test_a_directory_that_does_not_exist_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot list"):
        lint_records(tmp_path / "nowhere", today=TODAY)
