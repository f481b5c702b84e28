"""What the texts of threads say: references to other threads and commits, and signs of a regression between versions.

Pure text in, references and signs out.

GitHub's REST API does not contain which pull request closes an issue, which issue a duplicate repeats, or what a revert
reverts. The texts do, in the words on which GitHub itself acts: "Fixes #12"
(docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue),
"Duplicate of #12", and "Reverts owner/name#12", which its revert button writes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

_NAME = r"[\w.-]{1,100}/[\w.-]{1,100}"
_THREAD = re.compile(
    rf"https://(?P<host>[\w.-]+(?::\d+)?)/(?P<repo>{_NAME})/(?P<kind>issues|pull)/(?P<number>[1-9]\d{{0,8}})(?!\d)"
)
_PUBLISHED = re.compile(rf"https://[\w.-]+(?::\d+)?/{_NAME}/(blob|releases)/")
_REFERENCE = (
    rf"(?:https://[\w.-]+/(?P<linked>{_NAME})/(?:issues|pull)/|(?P<named>{_NAME})?#)(?P<number>[1-9]\d{{0,8}})(?!\d)"
)
_CLOSES = re.compile(rf"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?[ \t]+{_REFERENCE}", re.IGNORECASE)
_DUPLICATE = re.compile(rf"^\s*duplicate of:?[ \t]+{_REFERENCE}", re.IGNORECASE | re.MULTILINE)
_REVERTS = re.compile(rf"\breverts[ \t]+{_REFERENCE}", re.IGNORECASE)
_UNDO = re.compile(r'^\s*(?:\[[^\]]*\]\s*)*(?P<word>revert|reapply|reland)\b[\s:]*"?', re.IGNORECASE)
_PULLS = re.compile(r"\(#([1-9]\d{0,8})\)")
MAX_TEXT = 100_000
"""Characters of a post that are searched; GitHub allows 65,536."""
_MAX_TITLE = 300


@dataclass(frozen=True, slots=True, order=True)
class ThreadRef:
    """One issue or pull request."""

    repo: str
    """`owner/name`."""
    number: int
    host: str = "github.com"
    kind: Literal["issues", "pull"] = "issues"
    """As in the address. A pull request is an issue too, so both kinds name the same thread."""

    @classmethod
    def parse(cls, url: str) -> Self | None:
        """The thread that an address names; None for any other address."""
        match = _THREAD.match(url)
        if match is None:
            return None
        kind: Literal["issues", "pull"] = "pull" if match["kind"] == "pull" else "issues"
        return cls(match["repo"], int(match["number"]), match["host"].lower(), kind)

    @property
    def key(self) -> str:
        """`owner/name#12`, the same however the address was written."""
        return reference(self.repo, self.number)

    @property
    def url(self) -> str:
        return f"https://{self.host}/{self.repo}/{self.kind}/{self.number}"


def published_kind(url: str) -> Literal["source", "release notes"] | None:
    """What a record without a thread was read in, by the address that it has in place of one; None for others."""
    match = _PUBLISHED.match(url)
    return None if match is None else "source" if match[1] == "blob" else "release notes"


def shown_address(url: str) -> str:
    """The address as a person reads it. The tracker of each record has an address of its own: on a page of sources or
    of a release an anchor may serve that alone, and the page has none of that name. GitHub's own are numbers of lines
    and headings in lower case."""
    page, _, anchor = url.partition("#")
    is_own = re.fullmatch(r"L\d+(?:-L\d+)?|[^A-Z]*", anchor) is not None
    return url if is_own or published_kind(url) is None else page


def reference(repo: str, number: int) -> str:
    """`owner/name#12`, in lower case: GitHub ignores the case of repositories."""
    return f"{repo.lower()}#{number}"


def closing_references(text: str, repo: str) -> list[str]:
    """The threads that a pull request's text closes on merge. A bare `#12` is in `repo`."""
    return _references(_CLOSES, text, repo)


def duplicate_references(text: str, repo: str) -> list[str]:
    """The originals that a comment names with "duplicate of"."""
    return _references(_DUPLICATE, text, repo)


def reverted_references(title: str, text: str, repo: str) -> list[str]:
    """The pull requests that a pull request reverts, by its text or else by its title."""
    references = _references(_REVERTS, text, repo)
    if references or not _UNDO.match(title):
        return references
    return [reference(repo, int(number)) for number in _PULLS.findall(title)]


def subject_effect(subject: str, number: int) -> bool | None:
    """Whether a commit with that subject applies (True) or reverts (False) the change of a pull request.

    None if the subject does not name the pull request. `Revert "Fix it (#12)" (#15)` reverts 12; a revert of that, and
    `Reapply "Fix it (#12)"`, apply it again.
    """
    if carries(subject, number):
        return True
    if number not in (int(named) for named in _PULLS.findall(subject)):
        return None
    rest, sign = subject, True
    while (word := _UNDO.match(rest)) is not None:
        sign = not sign if word["word"].lower() == "revert" else sign
        rest = rest[word.end() :]
    return sign


def carries(subject: str, number: int) -> bool:
    """Whether the commit is the pull request's own or a cherry-pick of it, and not a revert or a reapplication.

    In `Revert "…" (#15)`, the number after the closing quote is the commit's own.
    """
    own = subject
    if _UNDO.match(subject):
        end = re.search(r'"\s*((?:\(#\d+\)\s*)+)$', subject)
        own = end[1] if end else ""
    return number in (int(named) for named in _PULLS.findall(own))


def _references(pattern: re.Pattern[str], text: str, repo: str) -> list[str]:
    references = [
        reference(match["linked"] or match["named"] or repo, int(match["number"]))
        for match in pattern.finditer(text[:MAX_TEXT])
    ]
    return list(dict.fromkeys(references))[:100]


# How much a thread looks like the report of a regression


@dataclass(frozen=True, slots=True)
class Sign:
    """Something about a thread that speaks for a regression between versions (points above 0), or against one."""

    points: float
    text: str


SIGNS = {
    "regression-in-title": Sign(4, "the title says regression"),
    "versions-in-title": Sign(3, "the title names two versions"),
    "upgrade-in-title": Sign(3, "the title says after upgrading, since a version, or between versions"),
    "culprit-in-title": Sign(3, "the title names the change that brought it"),
    "worked-in-title": Sign(2, "the title says that it worked before"),
    "loss-in-title": Sign(1.5, "the title says slower, worse, less"),
    "size-in-title": Sign(1.5, "the title gives the size of a loss"),
    "failing-version": Sign(2.5, "the title names a failure or a loss, and a version"),
    "regression-in-text": Sign(1.5, "the text says regression"),
    "versions-in-text": Sign(2, "the text names two versions"),
    "upgrade-in-text": Sign(2, "the text says after upgrading, since a version, or between versions"),
    "worked-in-text": Sign(1.5, "the text says that it worked before"),
    "loss-in-text": Sign(0.5, "the text says slower, worse, less"),
    "culprit-in-text": Sign(1.5, "the text names the change that brought it"),
    "revert": Sign(3.5, "a pull request that takes another one back, or brings it again"),
    "default": Sign(3, "a pull request that changes a default"),
    "repair": Sign(1.5, "a pull request whose title speaks of a loss"),
    "label-regression": Sign(3, "a label says regression or release blocker"),
    "label-performance": Sign(0.5, "label performance"),
    "label-bug": Sign(0.5, "label bug"),
    "fixed": Sign(1, "a merged pull request says that it fixes it"),
    "label-other": Sign(-3, "a label says feature, proposal, documentation, new model"),
    "prefix-other": Sign(-3, "the title begins with another purpose"),
    "question": Sign(-1, "the title is a question"),
    "other-engine": Sign(-2, "the title compares with other software"),
    "driver": Sign(-4, "the title is about the driver or the machine"),
    "unmerged": Sign(-2, "a pull request that was closed unmerged"),
}
"""Sign to its points; a thread's score is their sum. How well that ranks: `benchmarks/discover.py`."""
CANDIDATE_SCORE = 2.5
"""A thread with fewer points is no candidate."""

_NUMBER = r"0\.\d{1,2}(?:\.(?:\d{1,2}|x))?(?:\.?(?:post|rc|dev)\d{1,4})?"
_FULL_NUMBER = r"0\.\d{1,2}\.(?:\d{1,2}|x)(?:\.?(?:post|rc|dev)\d{1,4}|\.\d{1,2})?"
_END = r"(?![\w%]|\.\d)"
_VERSION = re.compile(
    rf"(?<![\w./-])(?:(?:vllm|version)[ =:-]{{0,3}}v?|v)({_NUMBER}){_END}|(?<![\w./-])({_FULL_NUMBER}){_END}",
    re.IGNORECASE,
)
"""`v0.9`, `vllm 0.9`, `0.9.2`: a bare 0.9 may be a share of memory."""
_TWO_SHORT = re.compile(
    rf"(?<![\w.])v?({_NUMBER})[ \t]{{0,2}}(?:to|->|=>|→|vs\.?|versus|/)[ \t]{{0,2}}v?({_NUMBER}){_END}", re.I
)
_DEPENDENCY = re.compile(
    r"\b(?:torch|pytorch|triton|flashinfer|transformers|cuda|nccl|rocm|driver|python|xformers|flash-attn)[ =-]{0,3}"
    r"v?\d[\w.+]*",
    re.IGNORECASE,
)
_DRIVER = re.compile(r"\b(?:nvidia|gpu|amd) driver\b|\bdriver (?:to|version)\b|\bkernel [56]\.\d", re.IGNORECASE)
_LOSS = (
    r"slow(?:er|ed|s|ness|down|ing)?\b|degrad\w{0,8}|\bdrop(?:s|ped)?\b|\bworse\b|decreas\w{0,4}|\breduced?\b"
    r"|collaps\w{0,4}|\bfall(?:s|en)?\b|\bless throughput|\blower throughput|\bquality problem"
    r"|(?:higher|increased?|more) (?:\w{1,12} )?(?:latency|memory|ttft|tpot|itl)|\bmemory\b.{0,30}\b(?:increases?|up)\b"
)
_IN_TITLE_AND_TEXT = {
    "regression": re.compile(r"\bregress(?:ion|ions|ed|es|ing)?\b", re.IGNORECASE),
    "upgrade": re.compile(
        r"\b(?:after|since|when|by|upon|with)\s(?:the\s|an?\s)?(?:vllm\s)?(?:upgrad|updat|migrat)\w{0,4}"
        r"|\bupgrad(?:e|ed|ing)\b.{0,20}\b(?:from|to)\b|\bdowngrad\w{0,4}|\broll(?:ed|ing)?[ -]?back\b"
        r"|\b(?:since|after|starting (?:with|from|in))\s(?:vllm[ -]?)?(?:version\s)?v?0\.\d{1,2}(?!\d)"
        r"|\b(?:newer|later|previous|older|different|earlier|between) (?:vllm )?(?:versions?|releases?|nightl\w{1,3})\b"
        r"|\bversions? of vllm\b|\btwo nightlies\b",
        re.IGNORECASE,
    ),
    "worked": re.compile(
        r"\b(?:used to|no longer|stopped|broken (?:since|in|on|by|after))\b"
        r"|\b(?:work(?:s|ed|ing)?|fine|ok|good|normal|runs?|ran|did)\b.{0,30}"
        r"\b(?:in|on|with|for|at|before|until)\b.{0,12}v?0\.\d"
        r"|v?0\.\d{1,2}(?:\.\d{1,2})?\b.{0,20}\b(?:works?|worked|working|(?:is|was) (?:fine|ok|good)|ran)\b",
        re.IGNORECASE,
    ),
    "loss": re.compile(_LOSS, re.IGNORECASE),
    "culprit": re.compile(
        r"\b(?:introduced|caus(?:ed|es)|broken?|regressed|brought|due to|culprit|bisect\w{0,4}|suspect)\b.{0,60}"
        r"(?:#|/pull/|commit )\w|\b(?:since|after) (?:pr |pull request |commit )?#\d",
        re.IGNORECASE,
    ),
}
_NO_REGRESSION = re.compile(
    r"\b(?:no|not|without|any|avoid\w{0,3}|prevent\w{0,3})\b[^.\n]{0,25}\bregress\w{0,5}"
    r"|\bregression (?:tests?|suite)\b",
    re.IGNORECASE,
)
"""What pull requests say of their own tests."""
_SIZE = re.compile(
    rf"(?:{_LOSS}).{{0,30}}\d ?%|\d ?(?:%|x\b|times\b).{{0,30}}(?:{_LOSS})|[-−+]\d{{1,3}}(?:\.\d)? ?%", re.I
)
_FAILURE = re.compile(
    r"\bcrash\w{0,3}|\bfail\w{0,4}|\berror|OOM\b|out ?of ?memory|\bhang\w{0,2}|\bgarb\w{0,5}|\bwrong\b|\bbroken?\b"
    r"|\bstuck\b|\bnot (?:work|start|load)|cannot|can't|\bunable\b|\baccuracy\b|\bdiffer\w{0,7}|\bunknown\b|\bquality\b"
    r"|\bassert\w{0,5}",
    re.IGNORECASE,
)
_DEFAULT = re.compile(
    r"\bby default\b|\bas (?:the )?default\b|\bdefault\b.{0,40}\b(?:to|for|on|off|again|back)\b", re.IGNORECASE
)
_PREFIX = re.compile(
    r"^\s*\[(?:feature|rfc|docs?|documentation|new model|model|installation|ci|build|test|roadmap|tracking)\b", re.I
)
_QUESTION = re.compile(
    r"[?？]\s*$|^\s*(?:\[[^\]]{0,30}\]:?\s*)?(?:how|why|what|which|where|is there|can i|does|do)\b", re.IGNORECASE
)
_ENGINES = re.compile(
    r"\b(?:than|vs\.?|versus|compared (?:to|with)|with the original)\b.{0,30}"
    r"\b(?:hf|hugging ?face|transformers|tgi|sglang|tensorrt|trt|lmdeploy|ollama|llama\.cpp|gradio|deepspeed|native"
    r"|results)\b",
    re.IGNORECASE,
)
_OTHER_LABELS = re.compile(
    r"feature|\brfc\b|documentation|new.?model|installation|good first issue|ci[-/]", re.IGNORECASE
)


def regression_signs(title: str, text: str, labels: Iterable[str], *, is_pull: bool) -> list[str]:
    """The signs of SIGNS in the words of a thread. Code, logs and forms that nobody filled in do not count."""
    title = _NO_REGRESSION.sub(" ", title[:_MAX_TITLE])
    written = _NO_REGRESSION.sub(" ", _written(text[:MAX_TEXT]))
    names = [label.lower() for label in labels]
    versions, in_all = named_versions(title), named_versions(f"{title}\n{written}")
    has_loss = bool(_IN_TITLE_AND_TEXT["loss"].search(title))
    signs = {
        **{f"{name}-in-title": pattern.search(title) for name, pattern in _IN_TITLE_AND_TEXT.items()},
        **{f"{name}-in-text": pattern.search(written) for name, pattern in _IN_TITLE_AND_TEXT.items()},
        "upgrade-in-title": not is_pull and _IN_TITLE_AND_TEXT["upgrade"].search(title),  # theirs raise dependencies
        "versions-in-title": len(versions) > 1,
        "versions-in-text": len(versions) < 2 <= len(in_all),
        "size-in-title": _SIZE.search(title),
        "failing-version": len(versions) == 1 and (has_loss or _FAILURE.search(title)),
        "revert": is_pull and (_UNDO.match(title) or re.search(r"\brevert(?:s|ed)?\b", title, re.IGNORECASE)),
        "default": is_pull and _DEFAULT.search(title),
        "repair": is_pull and has_loss,
        "label-regression": any("regression" in name or "release-blocker" in name for name in names),
        "label-performance": "performance" in names,
        "label-bug": "bug" in names,
        "label-other": any(_OTHER_LABELS.search(name) for name in names),
        "prefix-other": _PREFIX.search(title),
        "question": _QUESTION.search(title),
        "other-engine": _ENGINES.search(title),
        "driver": not versions and _DRIVER.search(title),
    }
    return [name for name in SIGNS if signs.get(name)]


def score(signs: Iterable[str]) -> float:
    """The points of a thread's signs; one that this program does not know counts nothing."""
    return sum(SIGNS[name].points for name in set(signs) if name in SIGNS)


def named_versions(text: str) -> list[str]:
    """The releases of vLLM that a text names, in its order: `0.19.1`, `0.20`. Other software has other numbers."""
    text = _DEPENDENCY.sub(" ", text)
    found = [(match.start(), match[1] or match[2]) for match in _VERSION.finditer(text)]
    found += [(match.start(group), match[group]) for match in _TWO_SHORT.finditer(text) for group in (1, 2)]
    return list(dict.fromkeys(version.lower() for _, version in sorted(found)))


def _written(text: str) -> str:
    """What a person wrote: no comments, logs, code, quotes and headings."""
    for begin, end in (("<!--", "-->"), ("<details", "</details>"), ("```", "```")):
        text = _without(text, begin, end)
    lines = (line.strip() for line in text.splitlines())
    # Headings too: one of the form for performance says "regression" in every issue.
    return "\n".join(line for line in lines if line and not line.startswith(("#", ">", "- [")))


def _without(text: str, begin: str, end: str) -> str:
    """The text without what stands between two marks; without the rest if the second is missing."""
    kept, position = [], 0
    while (start := text.find(begin, position)) >= 0:
        kept.append(text[position:start])
        stop = text.find(end, start + len(begin))
        if stop < 0:
            return "".join(kept)
        position = stop + len(end)
    return "".join([*kept, text[position:]])
