"""How good the known-issue records are on cases that were collected without a look at them.

    python benchmarks/held_out.py
    python benchmarks/held_out.py --cases benchmarks/held_out_7.yaml --all --findings
    python benchmarks/held_out.py --cases benchmarks/held_out_10_*.yaml

`held_out.yaml`, `held_out_2.yaml` to `held_out_8.yaml` and the four files of the ninth and of the tenth set say how
their cases were collected; some hold controls, deployments as people run them. Each is put to the product's own check,
with its move and its deployment. A case is *found* if a record of its fault applies to the deployment and affects the
version that was reported, or if the test of the launch line refuses the `option` that the thread is about; *asked* if
it may apply and `check` asks for a fact that the thread does not tell, and *missed* otherwise. `known` of a case says
that its thread stands in an earlier set or in a list from which records were written. A record is of the fault if it
refers to one of the case's threads, or if `same` of the case names it after both were read; `other` names those that
refer to the thread and say that its fault is another. Recall counts what was found or asked.

Precision is the share of the findings that say "applies: yes" and affect the candidate, over all cases and controls,
which a reader of record and thread judged to be true of that deployment and version: `judged` in the file, by case and
record, with the reason where one was written down. A finding that nobody judged yet is counted as such, never as true.
No network is used, and no store. It has no bound: the figures are for `docs/records-measured.md`, and a bound would
tempt to write records for these cases.
"""

import argparse
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version
from scipy.stats import binomtest

from regress_gate.accelerators.registry import identify
from regress_gate.app import known_issues
from regress_gate.app.check import check_version
from regress_gate.app.settings import Settings
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, Effect, IssueFinding
from regress_gate.model.result import ReasonCode

CASES = Path(__file__).with_name("held_out.yaml")
PERIODS = (("0.8 to 0.18", "0.19.0"), ("0.19 to 0.26", "0.27.0"), ("0.27 to 0.33", None))
"""Name, and the first version that is not of the period, by the version that was reported as worse."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What `check` said of a case."""

    case: dict[str, Any]
    decision: str
    findings: Sequence[IssueFinding]
    """Those that affect the candidate and apply or may apply."""
    refused: Sequence[str]
    """What the test of the launch line says."""

    @property
    def name(self) -> str:
        """`vllm#54300 0.28.0`: a thread can hold two cases. A control is named by what it runs, and on what."""
        if "thread" not in self.case:
            return f"control {self.case['line']} on {self.case['facts']['accelerator']} {self.case['bad']}"
        owner, repository, _, number = self.case["thread"].removeprefix("https://github.com/").split("/")
        return f"{repository if repository != 'vllm' else owner.split('-')[0]}#{number} {self.case['bad']}"

    @property
    def own(self) -> list[IssueFinding]:
        """The findings of the case's fault."""
        threads, same = {self.case.get("thread"), *self.case.get("also", ())}, self.case.get("same", ())
        return [
            one
            for one in self.findings
            if one.issue.id in same
            or (
                one.issue.id not in self.case.get("other", ())
                and threads & {str(reference.url) for reference in one.issue.references}
            )
        ]

    @property
    def outcome(self) -> str:
        applies = {one.applies for one in self.own}
        option = self.case.get("option")
        is_refused = option is not None and any(f"{option};" in f"{text};" for text in self.refused)
        return "found" if Applies.YES in applies or is_refused else "asked" if applies else "missed"

    @property
    def period(self) -> str:
        bad = Version(self.case["bad"])
        return next(name for name, end in PERIODS if end is None or bad < Version(end))

    @property
    def platform(self) -> str:
        facts = self.case["facts"]
        return facts.get("platform") or str(identify(facts["accelerator"]).platform)


def ask(case: dict[str, Any]) -> Answer:
    """The answer of `check BAD --from GOOD` with the facts and the launch line of the case."""
    line = case.get("line")
    settings = Settings(
        deployment_flag=Deployment.model_validate(case["facts"]),
        launch_line=None if line is None else shlex.join(["vllm", "serve", *shlex.split(line)]),
    )
    checked = check_version(settings, case["bad"], baseline=case["good"], offline=True)
    present = [one for one in checked.findings if one.applies is not Applies.NO and one.effect is not Effect.RESOLVED]
    refused = [reason.text for reason in checked.result.reasons if reason.code is ReasonCode.LAUNCH_LINE]
    return Answer(case, checked.result.decision, present, refused)


def share(right: int, of: int) -> str:
    """`12 of 45, 27 % (16 to 41)`: with the 95 % interval of Wilson."""
    if not of:
        return "none"
    low, high = binomtest(right, of).proportion_ci(0.95, method="wilson")
    return f"{right} of {of}, {right / of:.0%} ({low:.0%} to {high:.0%})"


def _known(answer: Answer) -> str:
    return "known before" if answer.case["known"] else "not known before"


def recall_table(answers: Sequence[Answer]) -> list[str]:
    """Lines of the table: all cases, then by whether their threads were known, by period, platform, and kind."""
    lines = ["| cases | found | asked | missed | recall (95 % interval) |", "| --- | --- | --- | --- | --- |"]
    keys: tuple[Callable[[Answer], str], ...] = (
        lambda _: "all",
        *([_known] if "known" in answers[0].case else []),
        lambda one: one.period,
        lambda one: one.platform,
        lambda one: str(one.case["kind"]),
    )
    for key in keys:
        for group in dict.fromkeys(map(key, answers)):
            counts = Counter(one.outcome for one in answers if key(one) == group)
            told = counts["found"] + counts["asked"]
            cells = (group, counts["found"], counts["asked"], counts["missed"], share(told, counts.total()))
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def verdict(judged: dict[str, dict[str, Any]], answer: Answer, finding: IssueFinding) -> bool | None:
    """Whether a reader called the finding true: `true` in the file, or `{true: reason}`. None if nobody judged it."""
    said: bool | dict[bool, str] | None = judged.get(answer.name, {}).get(finding.issue.id)
    return next(iter(said)) if isinstance(said, dict) else said


def precision(answers: Sequence[Answer], judged: dict[str, dict[str, Any]]) -> list[str]:
    """How many of the findings that apply are true of their case, by what a reader said of them."""
    applying = [(one, finding) for one in answers for finding in one.findings if finding.applies is Applies.YES]
    new = [(one, finding) for one, finding in applying if finding.effect is Effect.NEW]
    kinds = {
        "new or carried": applying,
        "new or carried, of the cases alone": [pair for pair in applying if "thread" in pair[0].case],
        "new": new,
        "new, without the records of the case's own fault": [pair for pair in new if pair[1] not in pair[0].own],
        "new, changed defaults": [pair for pair in new if pair[1].issue.kind == "default-change"],
    }
    lines = []
    for title, pairs in kinds.items():
        said = [verdict(judged, one, finding) for one, finding in pairs]
        right, known = said.count(True), len(said) - said.count(None)
        lines.append(f"precision, {title}: {share(right, known)}; not judged: {said.count(None)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases", type=Path, nargs="+", default=[CASES], help="files of cases (default: held_out.yaml)"
    )
    parser.add_argument("--findings", action="store_true", help="list the findings that apply, for judging")
    parser.add_argument("--all", action="store_true", help="list every case with its outcome")
    given = parser.parse_args()
    sets = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in given.cases]
    # Reading the records takes most of the time of a check.
    known_issues.load_records = cache(known_issues.load_records)
    with tempfile.TemporaryDirectory() as empty, chdir(empty):
        # Neither the user's configuration nor what was fetched before counts.
        os.environ |= {f"XDG_{kind}_HOME": empty for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
        answers = [ask(case) for one in sets for case in one["cases"]]
        controls = [ask(case) for one in sets for case in one["controls"]]
    judged: dict[str, Any] = {}
    for one in sets:
        judged |= one["judged"]
    if answers:
        print(*recall_table(answers), "", sep="\n")
    print(*precision([*answers, *controls], judged), sep="\n")
    failed = [one for one in controls if one.decision == "fail"]
    print(f"controls that are blocked: {share(len(failed), len(controls))}")
    for one in failed:
        print(f"- {one.case['good']} to {one.case['bad']}, {one.case['line']}")
    if given.all:
        print("", *(f"{one.outcome}: {one.name}: {one.case['title']}" for one in answers), sep="\n")
    if given.findings:
        for one in (*answers, *controls):
            for finding in one.findings:
                if finding.applies is Applies.YES:
                    said = verdict(judged, one, finding)
                    text = "not judged" if said is None else str(said).lower()
                    print(f"{one.name}: {finding.issue.id}: {finding.effect}: {text}: {finding.issue.summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
