"""`issues` and `check`: the records as people read them, and what they say about a move of one deployment."""

import json
import shutil

import pytest
from jsonschema import Draft202012Validator

from tests.cli.conftest import ROOT
from tests.known.test_release_index import index

SCHEMA = Draft202012Validator(json.loads((ROOT / "regress_gate" / "report" / "result.schema.json").read_text()))
MOVE = ("check", "v0.19.1", "--from", "v0.19.0")
R1_ON_H200 = ("--accelerator", "H200", "--model", "deepseek-ai/DeepSeek-R1")
MIXTRAL = ("--accelerator", "H200", "--model", "mistralai/Mixtral-8x7B-v0.1")


def checked(gate, *arguments):
    done = gate(*arguments, "--format", "json")
    assert done.err == ""
    SCHEMA.validate(done.json)
    assert done.code == done.json["exit_code"]
    assert done.json["series"] == []
    return done.json


def issue(result, id_):
    (found,) = [issue for issue in result["known_issues"] if issue["id"] == id_]
    return found


class TestCheck:
    def test_a_stale_closed_issue_is_never_taken_for_fixed(self, gate):
        result = checked(gate, *MOVE, *R1_ON_H200, "--engine-arg", "enable_expert_parallel=true")
        found = issue(result, "VLLM-28882")
        assert found["applies"] in ("yes", "unknown")
        assert found["status"] == "closed_unfixed"
        assert found["effect"] == "carried"

    @pytest.mark.parametrize(
        "argument", ["enable_expert_parallel", "--enable-expert-parallel", "enable_expert_parallel=True"]
    )
    def test_an_engine_argument_may_be_written_as_vllm_does(self, gate, argument):
        found = issue(checked(gate, *MOVE, *R1_ON_H200, "--engine-arg", argument), "VLLM-28882")
        assert found["applies"] == "yes"

    def test_a_missing_fact_is_named_with_the_flag_that_gives_it(self, gate):
        found = issue(checked(gate, *MOVE, *R1_ON_H200), "VLLM-28882")
        assert found["applies"] == "unknown"
        assert "--engine-arg enable_expert_parallel" in found["why"]

    def test_what_the_move_brings_blocks_with_exit_1_and_its_workaround(self, gate):
        result = checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL, "--quantization", "none")
        assert (result["decision"], result["exit_code"]) == ("fail", 1)
        found = issue(result, "VLLM-41306")
        assert (found["applies"], found["effect"], found["blocks"]) == ("yes", "new", True)
        assert found["workarounds"][0]["engine_args"] == {"moe_backend": "triton"}

    def test_an_active_workaround_mitigates(self, gate):
        flags = (*MIXTRAL, "--quantization", "none", "--engine-arg", "moe_backend=triton")
        result = checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *flags)
        assert (issue(result, "VLLM-41306")["applies"], result["exit_code"]) == ("mitigated", 0)

    def test_a_fact_that_would_decide_is_asked_for_with_exit_3(self, gate):
        result = checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL)
        assert (result["decision"], result["exit_code"]) == ("inconclusive", 3)
        assert "--quantization" in result["reasons"][0]["text"]

    def test_the_other_way_it_is_resolved(self, gate):
        result = checked(gate, "check", "v0.23.0", "--from", "v0.20.0", *MIXTRAL, "--quantization", "none")
        found = issue(result, "VLLM-41306")
        assert (found["effect"], found["blocks"]) == ("resolved", False)

    def test_without_a_version_to_come_from_everything_counts(self, gate):
        assert checked(gate, "check", "v0.20.0", *MIXTRAL, "--quantization", "none")["exit_code"] == 1

    def test_a_development_build_is_never_said_to_be_free_by_its_number(self, gate):
        nightly = "0.23.1rc1.dev1403+g4080263bb"
        result = checked(gate, "check", nightly, "--from", "v0.19.1", *MIXTRAL, "--quantization", "none")
        assert issue(result, "VLLM-41306")["applies"] != "no"
        assert result["decision"] != "pass"

    def test_the_deployment_of_the_file_is_used_and_flags_go_before_it(self, gate):
        (gate.directory / "regress-gate.toml").write_text(
            "[deployment]\naccelerator = 'H200'\nmodel = 'mistralai/Mixtral-8x7B-v0.1'\nquantization = 'none'\n"
        )
        move = ("check", "v0.20.0", "--from", "v0.19.1")
        assert gate(*move).code == 1
        assert gate(*move, "--accelerator", "MI300X").code == 0

    def test_a_policy_that_never_blocks(self, gate):
        (gate.directory / "regress-gate.toml").write_text("[gate]\nblock_severity = 'never'\n")
        assert gate("check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL, "--quantization", "none").code == 0

    @pytest.mark.parametrize("format_", ["table", "markdown"])
    def test_what_the_deployment_says_never_steers_the_terminal(self, gate, format_):
        evil = "\x1b[31mH200\u202e"
        for flag in ("--accelerator", "--model", "--quantization"):
            done = gate(
                *MOVE, flag, evil, "--engine-arg", f"{evil}={evil}", "--env", f"A={evil}", "-v", "--format", format_
            )
            assert (done.out + done.err).replace("\n", "").isprintable()

    def test_latest_is_the_newest_release_whatever_was_measured(self, gate):
        done = gate("check", "latest", "--format", "json")
        assert done.json["candidate"]["version"] == "0.33.0"
        assert done.err.startswith("regress-gate: note: releases after 2026-11-22 are not known; name an index with")
        assert gate("check", "v0.32.0", "--from", "latest", "--format", "json").json["move"] == "downgrade"

    def test_latest_comes_from_the_index_unless_it_may_not_be_asked(self, gate):
        day = [{"upload_time": "2026-11-25T00:00:00"}]
        with index(json.dumps({"releases": {"0.33.0": day, "0.34.0": day}}).encode()) as (url, asked):
            (gate.directory / "regress-gate.toml").write_text(f"[check]\nrelease_index = '{url}'\n")
            offline = gate("check", "latest", "--offline", "--format", "json")
            assert (offline.json["candidate"]["version"], asked) == ("0.33.0", [])
            assert "offline: releases after 2026-11-22 are not known" in offline.err
            assert checked(gate, "check", "latest")["candidate"]["version"] == "0.34.0"

    def test_other_refs_are_looked_up_in_the_store(self, gate):
        done = gate("check", "pinned")
        assert (done.code, done.error.partition(";")[0]) == (5, "no pinned version has stored runs")
        gate.import_starts("v0.20.0")
        assert gate("baseline", "pin", "v0.20.0").code == 0
        assert checked(gate, "check", "pinned")["candidate"]["version"] == "0.20.0"

    @pytest.mark.parametrize("ref", ["nightly", "nightly@2026-11-20", "run:3"])
    def test_a_ref_that_nothing_stored_has_is_refused_with_what_to_give(self, gate, ref):
        done = gate("check", ref)
        todo = "name a version, which needs no stored runs: v0.33.0, latest or commit:SHA"
        assert (done.code, done.error) == (5, f"nothing that is stored is {ref}; {todo}")

    def test_without_a_version_to_come_from_it_says_what_lists_all_changes(self, gate):
        command = "`regress-gate diff-config BASE 0.20.0` lists all that changed."
        assert command in checked(gate, "check", "v0.20.0", *MIXTRAL)["advice"]
        assert command not in checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL)["advice"]


class TestIssues:
    def test_the_list_as_json_is_every_record(self, gate):
        listed = gate("issues", "list", "--format", "json")
        assert listed.json["schema_version"] == "1"
        files = {path.stem for path in (ROOT / "known_issues").glob("*-*.yaml")}
        assert {record["id"] for record in listed.json["issues"]} == files

    def test_a_kind_can_be_chosen(self, gate):
        listed = gate("issues", "list", "--kind", "performance", "--format", "json").json["issues"]
        assert listed
        assert {record["kind"] for record in listed} == {"performance"}

    @pytest.mark.parametrize("id_", ["VLLM-28882", "vllm-28882", "28882", "#28882"])
    def test_a_record_is_shown_by_any_spelling_of_its_id(self, gate, id_):
        shown = gate("issues", "show", id_)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith("VLLM-28882: ")
        assert "closed (stale)" in shown.out
        assert "ttft worse by 50 % at concurrency=<=8" in shown.out
        assert "output_throughput better by 6 % at" in shown.out
        assert gate("issues", "show", id_, "--format", "json").json["id"] == "VLLM-28882"

    def test_a_record_shows_the_settings_of_its_workarounds(self, gate):
        words = " ".join(gate("issues", "show", "VLLM-41306").out.split())
        assert "Choose the former backend by hand. --moe-backend triton" in words
        assert "Take FlashInfer out of the choice. VLLM_USE_FLASHINFER_MOE_FP16=0" in words

    def test_a_record_without_a_thread_shows_what_was_read(self, gate):
        shown = "".join(gate("issues", "show", "REL-0240-91").out.split())
        assert "sourcenothread;read2026-" in shown
        assert "/blob/v0.24.0/vllm/config/vllm.py" in shown
        assert "#REL" not in shown

    def test_the_shipped_records_have_no_lint_errors(self, gate):
        done = gate("issues", "lint")
        assert done.code == 0, done.out
        assert ", 0 errors, " in done.err

    def test_a_bad_record_fails_the_lint_with_file_and_line_and_stops_the_list(self, gate):
        shutil.copytree(ROOT / "known_issues", gate.directory / "mine")
        path = gate.directory / "mine" / "VLLM-28882.yaml"
        path.write_text(path.read_text().replace("severity: high", "severty: high"))
        line = path.read_text().splitlines().index("severty: high") + 1
        complaint = f"mine/VLLM-28882.yaml:{line}: error: unknown key 'severty' (did you mean 'severity'?)"
        linted = gate("issues", "lint", "mine")
        assert linted.code == 2
        assert complaint in linted.out.splitlines()
        refused = gate("issues", "list", "--directory", "mine")
        assert (refused.code, refused.out) == (2, "")
        assert f"mine/VLLM-28882.yaml:{line}: unknown key 'severty'" in refused.error
