"""All rules together: every rule has an answer for every deployment, and no answer is better than a guess."""

import re
from datetime import date
from pathlib import Path

import pytest

from regress_gate.gate.audit.engine import RULES, answer, run_rules
from regress_gate.gate.audit.observations import Targets
from regress_gate.gate.audit.rule import Answer, FindingSeverity, Rule, clear, fires
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Severity
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import Decision
from regress_gate.vllm.log_signals import SIGNALS
from tests.factories.audits import a_log, a_window, an_audit, ask, observed, statistics_line

THRASHING = a_log(*[statistics_line(usage=99.0, preemptions=3)] * 6)
UNTUNED = "Using default MoE config. Performance might be sub-optimal! Config file not found at /x/E=8,N=7168.json"


def test_ids_are_unique_and_each_rule_says_what_to_do_and_where_it_is_from() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.why
        assert rule.remedy
        assert rule.url.startswith("https://")
        assert set(rule.signals) <= SIGNALS.keys()


def test_the_page_lists_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "audit.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+\d{3}) \| (\w+) \| (.+?) \|", page, re.MULTILINE)
    assert listed == [(rule.id, rule.severity.value, rule.title) for rule in RULES]


def test_of_a_deployment_of_which_nothing_is_known_nothing_is_told() -> None:
    audit = an_audit(observed(None, deployment=Deployment()))
    assert audit.answered == 0
    assert audit.decision is Decision.INCONCLUSIVE
    assert audit.exit_code == 3
    assert all(one.outcome.needs for one in audit.of(Answer.CANNOT_TELL))


def test_a_rule_is_not_asked_for_other_releases() -> None:
    rule = Rule("X001", "x", FindingSeverity.LOW, "x", "x", "", "https://x", lambda _: fires("x"), versions=">=0.24")
    assert answer(rule, observed("0.19.1")).answer is Answer.NOT_APPLICABLE
    assert answer(rule, observed("0.24.0")).answer is Answer.FIRES


def test_an_unknown_release_may_not_print_what_a_rule_reads() -> None:
    def check(_: object) -> object:
        return clear("x")

    rule = Rule("X001", "x", FindingSeverity.LOW, "x", "x", "", "https://x", check, ">=0.24", ("moe_default",))  # type: ignore[arg-type]
    assert answer(rule, observed(None)).needs == ("VERSION, the vLLM that runs",)


@pytest.mark.parametrize("version", ["0.10.0", "0.34.0", "0.35.0rc1"])
def test_of_a_release_whose_lines_are_not_known_a_missing_line_says_nothing(version: str) -> None:
    clean = observed(version, log=a_log(version=version), engine_args={"enforce_eager": False}, complete=False)
    of_lines = [one for one in run_rules(clean) if one.rule.signals and one.outcome.answer is Answer.CLEAR]
    assert [one.rule.id for one in of_lines if not one.outcome.evidence] == []
    assert ask("CG002", clean).needs == ("a regress-gate that knows this release (`audit` knows 0.11 to 0.33)",)
    assert ask("MOE001", observed(version, log=a_log(UNTUNED, version=version))).answer is Answer.FIRES
    tuned = a_log("Using configuration from /x.json for MoE layer.", version=version)
    assert ask("MOE001", observed(version, log=tuned)).answer is Answer.CLEAR


SHAPES = "config. Performance might be sub-optimal! Config file not found at /x/"


@pytest.mark.parametrize(
    ("rule", "line", "said"),
    [
        (
            "MOE001",
            f"Using default MoE {SHAPES}E=8,N=7168,device_name=NVIDIA_H200,dtype=int8_w8a16.json",
            ["(E=8, N=7168, dtype=int8_w8a16)", "--model my/model --tp-size 4 --dtype int8_w8a16 --tune"],
        ),
        (
            "FP8001",
            f"Using default W8A8 Block FP8 kernel {SHAPES}N=1536,K=7168,dtype=fp8_w8a8,block_shape=[128,64].json",
            ["for my/model ", "N=1536, K=7168", "--tp-size 4 --input-type fp8 --block-n 128 --block-k 64"],
        ),
        (
            "SSM001",
            f"Using default Mamba SSU {SHAPES}headdim=64,dstate=256,device_name=NVIDIA_H200,cache_dtype=float32.json",
            ["for my/model ", "headdim=64, dstate=256", "cache_dtype=float32", "--dstate 256 --save-configs"],
        ),
        (
            "LORA002",
            "Using default LoRA kernel configs",
            ["model_bench --models my/model --tp-sizes 4 --lora-ranks 32 --num-loras 8"],
        ),
    ],
)
def test_a_tuning_command_is_for_this_model_and_the_matrices_of_the_line(rule: str, line: str, said: list[str]) -> None:
    args = {"tensor_parallel_size": 4, "max_lora_rank": 32, "max_loras": 8}
    outcome = ask(rule, observed(log=a_log(line), model="my/model", accelerator="H200", engine_args=args))
    assert outcome.answer is Answer.FIRES
    assert "on H200" in outcome.remedy
    for part in said:
        assert part in outcome.remedy


@pytest.mark.parametrize(
    ("severity", "block", "expected"),
    [
        (FindingSeverity.HIGH, Severity.HIGH, True),
        (FindingSeverity.MEDIUM, Severity.HIGH, False),
        (FindingSeverity.MEDIUM, Severity.MEDIUM, True),
        (FindingSeverity.LOW, Severity.LOW, False),
        (FindingSeverity.NOTE, Severity.LOW, False),
        (FindingSeverity.CRITICAL, "never", False),
    ],
)
def test_the_severity_that_blocks_a_check_blocks_an_audit_but_low_ones_and_notes_never(
    severity: FindingSeverity, block: Severity, expected: bool
) -> None:
    assert severity.blocks(Policy(block_severity=block)) is expected


def test_a_severe_finding_fails_and_a_mild_one_does_not() -> None:
    assert an_audit(observed(log=THRASHING)).exit_code == 1
    mild = an_audit(observed(log=a_log(UNTUNED)))
    assert [one.rule.id for one in mild.of(Answer.FIRES)] == ["MOE001"]
    assert mild.exit_code == 0


def test_a_waiver_covers_a_finding_until_its_day() -> None:
    def waiver(until: date) -> Waiver:
        return Waiver(finding="KV003", until=until, max_change=1.0, owner="me", reason="bigger cards come")

    held = an_audit(observed(log=THRASHING), waivers=[waiver(date(2026, 12, 1))])
    assert (held.exit_code, held.waivers[0].state) == (0, "used")
    late = an_audit(observed(log=THRASHING), waivers=[waiver(date(2026, 11, 1))])
    assert (late.exit_code, late.waivers[0].state) == (1, "expired")


def test_findings_come_first_and_the_most_severe_of_them_first() -> None:
    results = an_audit(observed(log=a_log(UNTUNED, *[statistics_line(usage=99.0, preemptions=3)] * 6))).results
    ranks = [one.rule.severity.rank for one in results if one.outcome.answer is Answer.FIRES]
    assert len(ranks) >= 2
    assert ranks == sorted(ranks, reverse=True)
    assert all(one.outcome.answer is Answer.FIRES for one in results[: len(ranks)])
    assert len(results) == len(run_rules(observed()))


def test_a_missing_log_is_no_clear_log() -> None:
    assert ask("MOE001", observed()).answer is Answer.CANNOT_TELL


PAGE = Path(__file__).parents[3] / "docs" / "audit.md"
WORDS = {">=": "from", "<": "before"}


def releases_text(versions: str) -> str:
    """As the page says it: `from 0.18, before 0.20`."""
    parts = [re.fullmatch(r"(>=|<)([\d.]+)", one) for one in versions.split(",") if one]
    return ", ".join(f"{WORDS[part[1]]} {part[2]}" for part in parts if part) or "all"


def sources_text(rule: Rule) -> str:
    return "metrics" if rule.metrics else "log" if rule.signals else "launch line, model, accelerator or environment"


def test_the_page_has_every_rule_with_its_releases_and_what_it_reads() -> None:
    table = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in PAGE.read_text().split("\n")]
    rows = [row for row in table if len(row) == 5 and re.fullmatch(r"[A-Z]+8?\d{3}", row[0])]
    assert rows == [
        (rule.id, rule.severity.value, rule.title, releases_text(rule.versions), sources_text(rule)) for rule in RULES
    ]


def test_every_range_of_a_rule_can_be_said_in_the_words_of_the_page() -> None:
    ranges = [one for rule in RULES for one in rule.versions.split(",") if one]
    assert all(re.fullmatch(r"(>=|<)[\d.]+", one) for one in ranges)


def test_the_same_server_under_another_load_keeps_what_was_derived_of_it() -> None:
    seen = observed(log=a_log(UNTUNED), engine_args={"max_num_seqs": 8})
    facts = seen.facts
    loaded = seen.under_load(a_window({"vllm:num_requests_running": 600.0}), Targets(64))
    assert loaded.facts is facts
    assert (loaded.targets, loaded.log, loaded.arguments) == (Targets(64), seen.log, seen.arguments)
    assert (seen.metrics, seen.targets) == (None, Targets())
