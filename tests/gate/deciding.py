"""The decision on two sides under rules that a test names one by one."""

from regress_gate.gate.decide import GateInput, GateRules, decide_compare
from tests.factories.runs import NOW, SUITE

RULES = {"waivers", "allow_incomparable", "report_only", "gpu_hour"}


def decide_sides(baseline, candidate, *, policy, **options):
    rules = {name: options.pop(name) for name in RULES & options.keys()}
    given = GateInput(baseline=baseline, candidate=candidate, **{"suite": SUITE, **options})
    return decide_compare(given, GateRules(policy=policy, now=NOW, **rules))
