"""The known issues of the terminal report: what the move brings, keeps and leaves behind, with the way around it."""

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from regress_gate.model.finding import Applies
from regress_gate.model.result import Result
from regress_gate.report.render.terminal_canvas import Canvas
from regress_gate.report.views import issues_view
from regress_gate.report.views.issues_view import IssueLine, IssueView
from regress_gate.text import clip

_APPLIES_STYLE = {Applies.YES: "bold", Applies.UNKNOWN: "yellow", Applies.MITIGATED: "dim", Applies.NO: "dim"}

_LABEL_WIDTH = len("workaround")
_INDENT = 2
_LEAST_SUMMARY = 20
_LONGEST_REMARK = 40
"""The name of an engine argument; a longer one loses its middle."""


def paint_issues(canvas: Canvas, result: Result, *, verbose: bool) -> None:
    canvas.heading("Known issues")
    if not result.known_issues:
        canvas.line("None is recorded for these versions. That is not proof that there are none.", indent=2)
        return
    canvas.line(f"{issues_view.issue_tally(result)}.", indent=2)
    shown = issues_view.issues(result, verbose=verbose)
    for group in (*shown.groups, *shown.undecided):
        canvas.gap()
        canvas.line(f"{group.title}:", "underline", indent=2)
        for number, issue in enumerate(group.issues):
            if number:
                canvas.gap()
            _paint_issue(canvas, issue)
        if group.issues and group.lines:
            canvas.gap()
        for line in group.lines:
            _paint_line(canvas, line)
    if shown.more:
        canvas.gap()
        canvas.line(f"{shown.more}.", indent=2)


def _paint_line(canvas: Canvas, issue: IssueLine) -> None:
    """One line where the width allows it: it is the summary that gives way."""
    head, tail = canvas.plain(f"{issue.id}, {issue.label}:"), canvas.plain(_remarks(issue))
    summary, end = canvas.plain(issue.summary), canvas.plain("…")
    room = max(canvas.width - _INDENT - cell_len(f"{head}  {tail}"), _LEAST_SUMMARY)
    if cell_len(summary) > room:
        summary = set_cell_size(summary, room - len(end)).rstrip() + end
    canvas.line(f"{head} {summary} {tail}", _APPLIES_STYLE[issue.applies], indent=_INDENT)


def _remarks(issue: IssueLine) -> str:
    if not issue.remarks:
        return ""
    if not issue.remarks[0].startswith("--"):
        return f"({clip(', '.join(issue.remarks), _LONGEST_REMARK)})"
    # `--engine-arg async_scheduling` is known by its last word.
    first = clip(issue.remarks[0].rpartition(" ")[2], _LONGEST_REMARK)
    return f"({first} +{len(issue.remarks) - 1})" if len(issue.remarks) > 1 else f"({first})"


def _paint_issue(canvas: Canvas, issue: IssueView) -> None:
    head = canvas.text(issue.id, _APPLIES_STYLE[issue.applies])
    head.append(canvas.plain(f", {issue.label}"))
    if issue.blocks:
        head.append(canvas.plain(", BLOCKS"), "bold red")
    canvas.put(head, indent=2)
    canvas.line(issue.summary, indent=4)
    pairs: list[tuple[str, str | Text]] = [*issue.facts]
    for workaround in issue.workarounds:
        pairs.append(("workaround", workaround.text))
        pairs += [("", canvas.text(flag, "cyan")) for flag in workaround.flags]
        pairs += [("", f"costs: {workaround.cost}")] if workaround.cost else []
    canvas.pairs([*pairs, ("thread", issue.url)], indent=4, label_width=_LABEL_WIDTH)
