"""Metrics, testbeds, policies, suites, issue records, waivers, deployments and the configuration as a whole."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regress_gate.errors import InputError
from regress_gate.model.config import Config
from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import parse_toml, parse_yaml, validate
from regress_gate.model.issue import KnownIssue, Severity
from regress_gate.model.metric import METRICS, Direction, Scale, metric
from regress_gate.model.policy import Policy, PolicyOverrides, Waiver
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed, compare_testbeds
from regress_gate.suites import find_shipped_suite, shipped_suites
from regress_gate.text import did_you_mean
from tests.factories.runs import TESTBED, TODAY, make_issue

KNOWN_ISSUE = """\
id: VLLM-1
summary: A made-up issue for the tests
kind: performance
severity: high
references:
  - {type: REPORT, url: https://github.com/vllm-project/vllm/issues/1}
affected:
  - ranges:
      - type: ECOSYSTEM
        events: [{introduced: "0.19.1"}, {fixed: "0.20.0"}]
scope:
  workload: {concurrency: "<=8"}
signature:
  - {metric: ttft, direction: worse, change: [0.3, 0.7]}
tracker: {url: https://github.com/vllm-project/vllm/issues/1, state: open, checked: 2026-11-01}
confidence: high
evidence: made up
reviewed: 2026-11-21
"""
SUITE = """\
name: mine
version: 2
description: made up
scenarios:
  - name: c1
    server: {model: m}
    workload: {concurrency: 1}
  - name: c8
    server: {model: m, engine_args: {dtype: auto}}
    workload: {concurrency: 8}
"""


def refused(model, text):
    parse = parse_toml if model is Config else parse_yaml
    with pytest.raises(InputError) as caught:
        validate(model, parse(text, "file"))
    return str(caught.value)


class TestMetrics:
    def test_the_names_of_the_contract_are_there_with_unit_and_direction(self):
        for family in ("ttft", "tpot", "itl", "e2el"):
            for statistic in ("mean", "median", "p90", "p95", "p99"):
                known = METRICS[f"{family}_{statistic}"]
                assert (known.unit, known.direction, known.scale) == ("s", Direction.LOWER, Scale.RATIO)
        for name in ("request_throughput", "output_throughput", "total_throughput", "goodput"):
            assert (METRICS[name].unit, METRICS[name].direction) == ("1/s", Direction.HIGHER)
        assert METRICS["kv_cache_tokens"].direction is Direction.HIGHER
        assert METRICS["failed_requests"].scale is Scale.DIFFERENCE

    @pytest.mark.parametrize(
        ("name", "least"), [("ttft_p99", 100), ("ttft_p95", 20), ("ttft_p90", 10), ("ttft_mean", 1)]
    )
    def test_a_percentile_needs_requests_beyond_it(self, name, least):
        assert metric(name).min_requests == least

    def test_accuracies_are_made_on_demand(self):
        assert metric("accuracy_gsm8k").direction is Direction.HIGHER
        assert metric("accuracy_gsm8k").scale is Scale.DIFFERENCE

    @pytest.mark.parametrize(
        ("name", "near"), [("ttft_p9", "ttft_p9"), ("throughput", "throughput"), ("accuracy_", "")]
    )
    def test_an_unknown_name_is_refused_with_the_nearest(self, name, near):
        with pytest.raises(InputError, match=rf"unknown metric '{name}' \(.*{near}"):
            metric(name)

    def test_nothing_near_lists_what_is_known(self):
        assert did_you_mean("zzz", ["alpha", "beta"]) == " (known: alpha, beta)"
        assert did_you_mean("alpa", ["alpha", "beta"]) == " (did you mean 'alpha'?)"
        assert did_you_mean("a", []) == ""
        assert did_you_mean("?", map(str, range(20))).endswith(", 7, …)")


OTHER_HARDWARE = {"accelerator": "H100", "accelerator_count": 2, "cpu": "arm64", "cpu_count": 8, "memory_bytes": 2**36}


class TestTestbeds:
    def test_a_machine_is_comparable_with_itself(self):
        assert compare_testbeds(TESTBED, TESTBED).comparable
        assert compare_testbeds(Testbed("unknown"), Testbed("unknown")).comparable

    @pytest.mark.parametrize(("fact", "value"), OTHER_HARDWARE.items())
    @pytest.mark.parametrize("name", ["bench-1", "bench-2"])
    def test_other_hardware_is_refused_by_name_of_the_fact(self, fact, value, name):
        other = Testbed(**{**TESTBED.facts, fact: value, "name": name})
        found = compare_testbeds(TESTBED, other)
        assert not found.comparable
        assert f"{fact}: {TESTBED.facts[fact]} → {value}" in [str(difference) for difference in found.differences]

    @pytest.mark.parametrize("fact", OTHER_HARDWARE)
    def test_an_unknown_fact_blocks_between_two_machines_and_not_within_one(self, fact):
        facts = {key: value for key, value in TESTBED.facts.items() if key != fact}
        assert not compare_testbeds(TESTBED, Testbed("bench-2", **facts)).comparable
        assert compare_testbeds(TESTBED, Testbed("bench-1", **facts)).comparable

    def test_twins_are_comparable(self):
        assert compare_testbeds(TESTBED, Testbed("bench-2", **TESTBED.facts)).comparable

    @pytest.mark.parametrize("fact", ["driver", "os", "python"])
    def test_software_is_reported_and_does_not_block(self, fact):
        one, other = (Testbed("bench-1", **TESTBED.facts, **{fact: value}) for value in ("1", "2"))
        (difference,) = compare_testbeds(one, other).differences
        assert (difference.what, difference.blocks) == (fact, False)

    @pytest.mark.parametrize(("factor", "comparable"), [(0.99, True), (1.015, True), (0.95, False), (1.05, False)])
    def test_memory_may_differ_by_what_firmware_reserves(self, factor, comparable):
        other = Testbed(**{**TESTBED.facts, "memory_bytes": int(2**37 * factor), "name": "bench-1"})
        assert compare_testbeds(TESTBED, other).comparable is comparable

    @given(
        st.builds(Testbed, st.sampled_from("ab"), st.sampled_from([None, "H100", "H200"]), st.none() | st.just(1)),
        st.builds(Testbed, st.sampled_from("ab"), st.sampled_from([None, "H100", "H200"]), st.none() | st.just(1)),
    )
    def test_comparability_has_no_direction(self, one, other):
        assert compare_testbeds(one, other).comparable is compare_testbeds(other, one).comparable


class TestPolicy:
    def test_a_margin_for_all_metrics_applies_to_ratios_and_not_to_differences(self):
        policy = Policy(margins={"*": 0.2, "accuracy_*": 0.03})
        assert policy.margin("ttft_p99") == 0.2
        assert policy.margin("failed_requests") == 0.01
        assert policy.margin("accuracy_gsm8k") == 0.03

    @pytest.mark.parametrize("wrong", [{"confidence": 0.05}, {"false_alarm_budget": 0.9}, {"confidence": 1.0}])
    def test_a_confidence_and_an_error_taken_for_each_other_are_refused(self, wrong):
        with pytest.raises(ValidationError):
            Policy(**wrong)

    @pytest.mark.parametrize(
        ("name", "margin"),
        [
            ("ttft_median", 0.05),
            ("ttft_mean", 0.05),
            ("output_throughput", 0.05),
            ("ttft_p99", 0.10),
            ("itl_p90", 0.10),
            ("failed_requests", 0.01),
            ("accuracy_gsm8k", 0.01),
            ("startup_time", 0.20),
        ],
    )
    def test_the_default_margins(self, name, margin):
        assert Policy().margin(name) == margin

    def test_a_later_pattern_goes_before_an_earlier_one(self):
        policy = Policy(margins={"ttft_p99": 0.3, "*_p99": 0.2})
        assert policy.margin("ttft_p99") == 0.2
        assert Policy(margins={"*_p99": 0.2, "ttft_p99": 0.3}).margin("ttft_p99") == 0.3

    def test_what_no_pattern_matches_keeps_its_default(self):
        assert Policy(margins={"ttft_*": 0.3}).margin("itl_p99") == 0.10

    def test_a_layer_goes_before_those_below_pattern_by_pattern(self):
        suite = PolicyOverrides(margins={"*": 0.3, "failed_requests": 0.05}, expected_cv=0.15)
        user = PolicyOverrides(margins={"ttft_*": 0.1}, block_severity="never")
        policy = Policy().over(suite, user)
        assert [policy.margin(name) for name in ("ttft_p99", "itl_p99", "failed_requests")] == [0.1, 0.3, 0.05]
        assert (policy.expected_cv, policy.block_severity, policy.confidence) == (0.15, "never", 0.9)

    def test_a_pattern_that_a_layer_repeats_goes_before_all_of_the_layers_below(self):
        suite = PolicyOverrides(margins={"*": 0.3, "ttft_p99": 0.5})
        assert Policy().over(suite, PolicyOverrides(margins={"*": 0.1})).margin("ttft_p99") == 0.1

    def test_no_layer_changes_nothing(self):
        assert Policy().over(PolicyOverrides()) == Policy()

    @pytest.mark.parametrize(
        ("name", "gates"),
        [("ttft_p99", True), ("ttft_p95", False), ("accuracy_mmlu", True), ("total_throughput", False)],
    )
    def test_which_metrics_gate_by_default(self, name, gates):
        assert Policy().gates(name) is gates

    @pytest.mark.parametrize(
        ("line", "what"),
        [
            ("metrics = ['ttft_p98']", "did you mean 'ttft_p9"),
            ("metrics = ['tftt*']", "unknown metric 'tftt*'"),
            ("margins = {ttft = 0.1}", "unknown metric 'ttft'"),
            ("margins = {ttft_p99 = 0}", "greater than 0"),
            ("margins = {ttft_p99 = 1}", "less than 1"),
            ("margins = {ttft_p99 = 10}", "less than 1"),
            ("margins = {ttft_p99 = '10%'}", "valid number"),
            ("margins = {ttft_p99 = nan}", "finite number"),
            ("false_alarm_budget = 0.0", "greater than 0"),
            ("confidence = 95", "less than 1"),
            ("block_severity = 'hihg'", "'low', 'medium', 'high' or 'critical'"),
            ("on_inconclusive = 'ignore'", "'pass' or 'fail'"),
        ],
    )
    def test_a_policy_that_means_nothing_is_refused(self, line, what):
        message = refused(Config, f"[gate]\n{line}\n")
        assert message.startswith("file:2: gate")
        assert what in message


class TestSuite:
    def test_every_shipped_suite_loads_and_is_found_by_name_and_version_only(self):
        suites = shipped_suites()
        assert "cpu-demo" in suites
        for name, suite in suites.items():
            assert find_shipped_suite(SuiteRef(name, suite.version)) == suite
            assert find_shipped_suite(SuiteRef(name, suite.version + "0")) is None
        assert find_shipped_suite(SuiteRef("unheard-of", "1")) is None

    def test_the_demo_describes_itself_and_limits_outside_load(self):
        suite = shipped_suites()["cpu-demo"]
        assert "no advice on GPUs" in suite.notice
        assert suite.conditions.max_outside_cpu_cores == 0.1
        assert suite.deployment().accelerator == "cpu"
        assert suite.deployment().engine_args["enforce_eager"] is True

    def test_a_version_may_be_written_as_a_number(self):
        assert validate(Suite, parse_yaml(SUITE, "x")).version == "2"

    def test_the_deployment_is_what_all_scenarios_share(self):
        suite = validate(Suite, parse_yaml(SUITE, "x"))
        assert (suite.deployment().model, suite.deployment().engine_args) == ("m", {})

    @pytest.mark.parametrize(
        ("old", "new", "what"),
        [
            ("name: c8", "name: c1", "file:1: scenario 'c1' is given twice"),
            ("version: 2", "version: true", "file:2: version"),
            ("version: 2", "version: 1.10", "file:2: version"),
            ("name: mine", "name: ../mine", "file:1: name"),
            ("name: c8", "name: 'c 8'", "file:8: scenarios.1.name"),
            (
                "concurrency: 8",
                "concurency: 8",
                "file:10: unknown key 'concurency' in scenarios.1.workload (did you mean",
            ),
            ("concurrency: 8", "concurrency: 0", "file:10: scenarios.1.workload.concurrency"),
            ("concurrency: 8", "concurrency: '8'", "file:10: scenarios.1.workload.concurrency"),
            ("concurrency: 8", "request_rate: 0", "file:10: scenarios.1.workload.request_rate"),
            ("dtype: auto", "dtype: [a]", "file:9: scenarios.1.server.engine_args.dtype"),
            ("    server: {model: m}\n", "", "file:5: key 'scenarios.0.server' is missing"),
        ],
    )
    def test_a_suite_that_means_nothing_is_refused_at_its_line(self, old, new, what):
        assert refused(Suite, SUITE.replace(old, new)).startswith(what)

    def test_a_suite_without_scenarios_is_refused(self):
        assert "scenarios" in refused(Suite, SUITE.partition("scenarios")[0] + "scenarios: []")


class TestIssueRecord:
    def test_a_whole_record_loads(self):
        issue = validate(KnownIssue, parse_yaml(KNOWN_ISSUE, "x"))
        assert issue.reviewed == date(2026, 11, 21)
        assert issue.affected[0].package.name == "vllm"
        assert issue.signature[0].change == (0.3, 0.7)

    @pytest.mark.parametrize(
        ("old", "new", "what"),
        [
            ("id: VLLM-1", "id: vllm-1", "file:1: id"),
            ("id: VLLM-1", "id: ../VLLM-1", "file:1: id"),
            ("kind: performance", "kind: slow", "file:3: kind"),
            ("severity: high", "severity: urgent", "file:4: severity"),
            ("https://github.com/vllm-project/vllm/issues/1}", "http://example.org}", "file:6: references.0.url"),
            ("type: ECOSYSTEM", "type: SEMVER", "file:9: affected.0.ranges.0.type"),
            ('introduced: "0.19.1"', "introduced: 0.19", "file:10: affected.0.ranges.0.events.0.introduced"),
            ('introduced: "0.19.1"', "introduced: soon", "file:9: affected.0.ranges.0"),
            ('introduced: "0.19.1"', "introduced: 0.23.1rc1.dev1403", "file:9: affected.0.ranges.0"),
            ('introduced: "0.19.1"', "introduced: ~", "file:10: affected.0.ranges.0.events.0"),
            ('{introduced: "0.19.1"}, ', "", "file:9: affected.0.ranges.0: a range needs an introduced event"),
            ('{introduced: "0.19.1"}, {fixed', '{introduced: "0.19.1", fixed', "file:10: affected.0.ranges.0.events.0"),
            ("type: ECOSYSTEM", "type: GIT", "file:9: affected.0.ranges.0: repo"),
            ('"<=8"', "about 8", "file:12: scope.workload.concurrency"),
            (
                "concurrency:",
                "concurency:",
                "file:12: unknown key 'concurency' in scope.workload (did you mean 'concurrency'?)",
            ),
            ("workload:", "workloads:", "file:12: unknown key 'workloads' in scope (did you mean 'workload'?)"),
            ("metric: ttft", "metric: tfft", "file:14: signature.0.metric"),
            ("[0.3, 0.7]", "[0.7, 0.3]", "file:14: signature.0.change"),
            ("[0.3, 0.7]", "['30%', 0.7]", "file:14: signature.0.change.0"),
            ("[0.3, 0.7]", "[0.3]", "file:14: "),
            ("checked: 2026-11-01", "checked: yesterday", "file:15: tracker.checked"),
            ("evidence: made up\n", "", "file:1: key 'evidence' is missing"),
            ("evidence: made up", "evidence: '  '", "file:17: evidence"),
        ],
    )
    def test_a_record_that_means_nothing_is_refused_at_its_line(self, old, new, what):
        assert old in KNOWN_ISSUE
        assert refused(KnownIssue, KNOWN_ISSUE.replace(old, new, 1)).startswith(what)

    def test_severities_have_ranks(self):
        assert sorted(Severity, key=lambda severity: severity.rank) == ["low", "medium", "high", "critical"]

    @pytest.mark.parametrize(
        ("fix", "checkable"), [({}, False), ({"env": {"A": "1"}}, True), ({"engine_args": {"a": 1}}, True)]
    )
    def test_a_workaround_in_words_cannot_be_checked_in_a_deployment(self, fix, checkable):
        (work,) = make_issue(workarounds=[{"text": "do so", **fix}]).workarounds
        assert work.is_checkable is checkable


class TestWaiver:
    WAIVER = "[[waivers]]\nfinding = 'c8/ttft_*'\nuntil = 2026-12-31\nmax_change = 0.2\nowner = 'me'\nreason = 'so'\n"

    def test_a_date_may_be_written_with_and_without_quotes(self):
        for text in (self.WAIVER, self.WAIVER.replace("2026-12-31", "'2026-12-31'")):
            (waiver,) = validate(Config, parse_toml(text, "x")).waivers
            assert waiver.until == date(2026, 12, 31)

    @pytest.mark.parametrize("key", ["finding", "until", "max_change", "owner", "reason"])
    def test_every_key_is_required(self, key):
        text = "".join(line for line in self.WAIVER.splitlines(True) if not line.startswith(key))
        assert refused(Config, text) == f"file:1: key 'waivers.0.{key}' is missing"

    @pytest.mark.parametrize(
        ("old", "new", "what"),
        [
            ("until", "untill", "file:3: unknown key 'untill' in waivers.0 (did you mean 'until'?)"),
            ("2026-12-31", "'soon'", "file:3: waivers.0.until"),
            ("0.2", "0", "file:4: waivers.0.max_change"),
            ("0.2", "inf", "file:4: waivers.0.max_change"),
            ("0.2", "'20%'", "file:4: waivers.0.max_change"),
            ("0.2", "true", "file:4: waivers.0.max_change"),
            ("'me'", "' '", "file:5: waivers.0.owner"),
            ("'so'", "''", "file:6: waivers.0.reason"),
        ],
    )
    def test_a_hole_in_the_gate_is_refused(self, old, new, what):
        assert refused(Config, self.WAIVER.replace(old, new, 1)).startswith(what)

    def test_it_holds_until_the_end_of_its_last_day(self):
        waiver = Waiver(finding="x", until=TODAY, max_change=0.1, owner="me", reason="so")
        assert not waiver.is_expired(TODAY)
        assert waiver.is_expired(TODAY + timedelta(days=1))

    @pytest.mark.parametrize(
        ("pattern", "finding", "covers"),
        [
            ("c8/ttft_p99", "c8/ttft_p99", True),
            ("c8/*", "c8/ttft_p99", True),
            ("c8/ttft_p9", "c8/ttft_p99", False),
            ("C8/ttft_p99", "c8/ttft_p99", False),
            ("VLLM-1", "VLLM-12", False),
        ],
    )
    def test_it_covers_findings_that_match_its_pattern(self, pattern, finding, covers):
        assert Waiver(finding=pattern, until=TODAY, max_change=1, owner="me", reason="so").covers(finding) is covers


class TestDeployment:
    def test_flags_are_read_as_the_values_they_look_like(self):
        found = Deployment.from_flags(
            engine_args=(
                "a=8",
                "b=0.5",
                "c=true",
                "d=False",
                "e=auto",
                "--f-g",
                "h=1e3",
                "i=nan",
                "j=1_0",
                "k=a=b",
                "l=",
            )
        )
        assert found.engine_args == {
            "a": 8, "b": 0.5, "c": True, "d": False, "e": "auto", "f_g": True, "h": 1000.0, "i": "nan", "j": "1_0",
            "k": "a=b", "l": "",
        }  # fmt: skip

    def test_variables_stay_text(self):
        assert Deployment.from_flags(env=("A=1", "B=", "C")).env == {"A": "1", "B": "", "C": ""}

    @pytest.mark.parametrize("flags", [{"engine_args": ("=8",)}, {"env": ("=1",)}, {"env": ("",)}, {"model": "\udcff"}])
    def test_a_pair_without_a_key_or_without_valid_text_is_refused(self, flags):
        with pytest.raises(InputError):
            Deployment.from_flags(**flags)

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_no_value_is_refused(self, text):
        Deployment.from_flags(engine_args=(f"key={text}",), env=(f"KEY={text}",))

    def test_one_is_filled_in_from_another_where_it_is_silent(self):
        flags = Deployment(accelerator="H200", engine_args={"a": 1})
        file = Deployment(accelerator="H100", model="m", engine_args={"a": 2, "b": 3}, env={"C": "4"})
        assert flags.over(file) == Deployment(
            accelerator="H200", model="m", engine_args={"a": 1, "b": 3}, env={"C": "4"}
        )


class TestConfiguration:
    def test_an_empty_file_is_all_defaults(self):
        assert validate(Config, parse_toml("", "x")) == Config()

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("[stor]\n", "file:1: unknown key 'stor' (did you mean 'store'?)"),
            ("[store]\nulr = 'x'", "file:2: unknown key 'ulr' in store (did you mean 'url'?)"),
            ("[store]\nurl = 5", "file:2: store.url"),
            ("store = 5", "file:1: store: expected keys and values"),
            ("waivers = 5", "file:1: waivers"),
            ("[deployment]\nmodle = 'x'", "file:2: unknown key 'modle' in deployment (did you mean 'model'?)"),
            ("[deployment]\nengine_args = {a = [1]}", "file:2: deployment.engine_args.a: "),
            ("[deployment.env]\nA = 1", "file:2: deployment.env.A: Input should be a valid string"),
            ("[gate]\nmargin.ttft_p99 = 1", "file:2: unknown key 'margin' in gate (did you mean 'margins'?)"),
        ],
    )
    def test_an_unknown_key_or_a_wrong_value_is_named_with_its_line(self, text, what):
        assert refused(Config, text).startswith(what)
