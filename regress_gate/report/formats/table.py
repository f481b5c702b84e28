"""The person's view: the decision, the numbers with their uncertainty, the known issues, and what to do.

Ends with reasons and advice, since the end of a report is what a terminal still shows.
"""

from regress_gate.model.result import Decision, Result
from regress_gate.report.formats.table_issues import paint_issues
from regress_gate.report.render.render_options import RenderOptions
from regress_gate.report.render.terminal_canvas import Canvas
from regress_gate.report.views import regression_causes, result_view, wording

_DECISION_STYLE = {
    Decision.PASS: "bold green",
    Decision.FAIL: "bold red",
    Decision.INCONCLUSIVE: "bold yellow",
}
_LOUD_FACTS = {"void": "yellow", "failed": "red", "differs": "yellow", "notice": "yellow"}
_WAIVER_STYLE = {"used": "", "unused": "dim", "expired": "yellow", "exceeded": "red"}
_LONGEST_VERSIONS = 120
"""Two full commit ids and the arrow fit; a longer name of a version is not needed to tell it from another."""


def render(result: Result, options: RenderOptions) -> str:
    canvas = Canvas(options)
    _paint_head(canvas, result)
    if result.command == "compare":
        from regress_gate.report.formats.table_series import paint_series  # a check has no series to paint

        paint_series(canvas, result, verbose=options.verbose)
        _paint_list(canvas, regression_causes.TITLE, regression_causes.lines(result))
    paint_issues(canvas, result, verbose=options.verbose)
    _paint_waivers(canvas, result)
    _paint_list(canvas, "Warnings", result.warnings)
    _paint_list(canvas, "Reasons", wording.reasons(result, verbose=options.verbose))
    _paint_advice(canvas, result)
    return canvas.finish()


def _paint_head(canvas: Canvas, result: Result) -> None:
    head = canvas.text("")
    head.append(wording.decision(result), _DECISION_STYLE[result.decision])
    head.append(f"   {canvas.shorten(wording.versions(result), _LONGEST_VERSIONS)}", "bold")
    canvas.put(head)
    facts = result_view.facts(result)
    if facts:
        canvas.gap()
    canvas.pairs((label, canvas.text(text, _LOUD_FACTS.get(label, ""))) for label, text in facts)


def _paint_waivers(canvas: Canvas, result: Result) -> None:
    if waivers := result_view.waivers(result):
        canvas.heading("Waivers")
        canvas.pairs((state, canvas.text(text, _WAIVER_STYLE[state])) for state, text in waivers)


def _paint_list(canvas: Canvas, title: str, lines: list[str]) -> None:
    if lines:
        canvas.heading(title)
        canvas.columns([[canvas.text("-"), canvas.text(line)] for line in lines], [1, None], indent=2)


def _paint_advice(canvas: Canvas, result: Result) -> None:
    canvas.gap()
    canvas.line(result.advice, "bold")
