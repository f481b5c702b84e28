"""The known issues of the terminal report: what the move brings, keeps and leaves behind, with the way around it."""

from rich.text import Text

from regress_gate.model.finding import Applies
from regress_gate.model.result import Result
from regress_gate.report import view
from regress_gate.report.canvas import Canvas
from regress_gate.report.view import IssueView

_APPLIES_STYLE = {Applies.YES: "bold", Applies.UNKNOWN: "yellow", Applies.MITIGATED: "dim", Applies.NO: "dim"}

_LABEL_WIDTH = len("measured in")


def paint_issues(canvas: Canvas, result: Result) -> None:
    canvas.heading("Known issues")
    if not result.known_issues:
        canvas.line("None is recorded for these versions. That is not proof that there are none.", indent=2)
        return
    canvas.line(f"{view.issue_tally(result)}.", indent=2)
    for group in view.issue_groups(result):
        canvas.gap()
        canvas.line(f"{group.title}:", "underline", indent=2)
        for number, issue in enumerate(group.issues):
            if number:
                canvas.gap()
            _paint_issue(canvas, issue)


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
