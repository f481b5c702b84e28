"""Each rule holds for the releases that it names, as shown from the published wheels.

What a release prints and creates is read by `.ci/signals.py`. A rule that claims a release which lacks its line or its
metric fails here, and so does one that leaves out a release which has the line.
"""

import re
from collections.abc import Collection
from functools import cache

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from regress_gate.gate.audit.engine import RULES
from regress_gate.gate.audit.rule import Rule
from regress_gate.model.version import Version as Release
from regress_gate.vllm import release_tables
from regress_gate.vllm.log_signals import RELEASES, SIGNALS, match_signals, scan_log
from tests.factories.released_signals import filled, line_names, metric_kind, printed_forms, releases

FIRST = Version("0.11")
"""Rules without a range are for all releases since then."""
AUDITED = [release for release in releases() if Version(release) >= FIRST]
SUFFIXES = {"counter": ("_total",), "histogram": ("_sum", "_count", "_bucket"), "gauge": ("",)}
"""What the text of /metrics appends to a metric's name."""

BY_LAUNCH_LINE = ("PC001", "ENV001")
"""Rules that find the same in the launch line or the environment, where a release prints nothing."""


@cache
def matched_signals(form: str) -> frozenset[str]:
    """The signals that at least one filling of a format string is."""
    return frozenset(name for line in filled(form) for name in match_signals(line))


@cache
def printed_signals(release: str) -> frozenset[str]:
    forms = {form for name in line_names() for form in printed_forms(name, release)}
    return frozenset(name for form in forms for name in matched_signals(form))


def claimed(versions: str) -> list[str]:
    return [release for release in AUDITED if not versions or SpecifierSet(versions).contains(release)]


@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_a_signal_is_printed_by_its_releases_and_by_no_other(name: str) -> None:
    printing = [release for release in AUDITED if name in printed_signals(release)]
    assert printing == claimed(SIGNALS[name].versions)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.signals], ids=lambda rule: rule.id)
def test_each_release_of_a_rule_prints_one_of_its_lines(rule: Rule) -> None:
    silent = [release for release in claimed(rule.versions) if not printed_signals(release).intersection(rule.signals)]
    assert rule.id in BY_LAUNCH_LINE or silent == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.metrics], ids=lambda rule: rule.id)
def test_each_release_of_a_rule_has_its_metrics(rule: Rule) -> None:
    lacking = {
        sample: release
        for release in claimed(rule.versions)
        for sample in rule.metrics
        if not has_sample(sample, release)
    }
    assert lacking == {}


def has_sample(sample: str, release: str) -> bool:
    name = sample.removeprefix("vllm:")
    for kind, suffixes in SUFFIXES.items():
        for suffix in suffixes:
            if name.endswith(suffix) and metric_kind(name.removesuffix(suffix), release) == kind:
                return True
    return False


NO_FINDINGS = {
    "async_off": (
        "Defaulting to mp-based distributed executor backend for async scheduling.",
        "Disabling NCCL for DP synchronization when using async scheduling.",
    ),
    "graph_mode_overridden": (
        # Full graphs, or a request for them.
        "When compilation level is piecewise with empty splitting_ops, PIECEWISE cudagraph_mode will be",
        "enable_attn_fusion is incompatible with piecewise cudagraph when use_inductor_graph_partition is off.",
        "fuse_attn_quant is incompatible with piecewise cudagraph when use_inductor_graph_partition is off.",
        "full_cuda_graph is deprecated, use cudagraph_mode=FULL instead.",
        # What the launch line sets, and the rule reads there.
        "use_cudagraph is deprecated, use cudagraph_mode=NONE instead.",
        # Advice: the graphs are as they were set.
        "Currently the eagle proposer only supports cudagraph_mode PIECEWISE,",
        "MoRIIO READ mode is running with %s CUDA graphs",
    ),
}
"""Lines with the phrase of a signal that do not say what it is for, by how they begin."""


@pytest.mark.parametrize("name", sorted(SIGNALS.keys() & set(line_names())))
def test_every_line_with_the_phrase_of_a_signal_is_read_or_known_to_be_no_finding(name: str) -> None:
    forms = {form for release in AUDITED for form in printed_forms(name, release, ("info", "warning"))}
    unread = [form for form in sorted(forms) if not matched_signals(form)]
    assert [form for form in unread if not form.startswith(NO_FINDINGS.get(name, ()))] == []


def test_the_releases_whose_lines_are_known_are_those_of_the_table() -> None:
    last = Version(AUDITED[-1])
    assert [release for release in releases() if SpecifierSet(RELEASES).contains(release)] == AUDITED
    assert not SpecifierSet(RELEASES).contains(f"{last.major}.{last.minor + 1}.0")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_release_of_a_rule_has_the_flags_and_variables_that_its_remedy_names(rule: Rule) -> None:
    flags = [flag.removeprefix("no-").replace("-", "_") for flag in re.findall(r"--([a-z][a-z-]+)", rule.remedy)]
    variables = re.findall(r"\bVLLM_[A-Z_]+", rule.remedy)
    lacking = []
    for release in claimed(rule.versions):
        build = release_tables.build_config(Release.parse(release))
        assert build is not None
        known = {*build.arguments, *build.env}
        lacking += [(release, name) for name in (*flags, *variables) if name not in known]
    assert lacking == []


PARTS = ("statistics_waiting", "statistics_deferred", "statistics_preemptions", "statistics_kv_cache")


@pytest.mark.parametrize("release", AUDITED)
def test_the_statistics_of_each_release_are_read_with_what_it_adds(release: str) -> None:
    """The release prints one format string, or since 0.11.1 the parts of one."""
    whole = [form for form in printed_forms("statistics", release) if "KV cache usage" in form]
    if whole:
        lines = [line for form in whole for line in filled(form)]
        preempted: Collection[int] = {0}
    else:
        chosen = [form for name in PARTS for form in printed_forms(name, release) if "Iteration" not in form]
        chosen = [form.replace("%s KV", "GPU KV") for form in chosen]
        head = "Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs"
        lines = list(filled(", ".join([head, *chosen, *printed_forms("statistics_hit_rate", release)])))
        preempted = {7 if printed_forms("statistics_preemptions", release) else 0}
    for line in lines:
        statistics = scan_log([f"INFO 11-21 02:12:22 [loggers.py:1] {line}\n".encode()], "log").statistics
        assert statistics is not None
        assert statistics.peak_waiting == 7
        assert statistics.peak_usage == pytest.approx(7.25)
        assert statistics.hit_rate == pytest.approx(7.25)
        assert statistics.preemptions in preempted


def test_the_check_finds_a_rule_that_claims_too_much() -> None:
    assert "0.11.0" not in [release for release in AUDITED if "mamba_default" in printed_signals(release)]
    assert not has_sample("vllm:num_requests_waiting_by_reason", "0.15.0")
    assert has_sample("vllm:num_requests_waiting_by_reason", "0.24.0")
    assert has_sample("vllm:num_preemptions_total", "0.33.0")
    assert not has_sample("vllm:num_preemptions", "0.33.0")
