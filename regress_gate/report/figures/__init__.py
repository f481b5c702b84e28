"""Pictures of a document as SVG: `draw_svg` draws a `Figure`, `theme_css` recolours it on a page.

A picture is complete without any style sheet, because a page may forbid them (Jenkins does): every colour is a
presentation attribute, and the class beside it is for pages that have a dark mode. It holds no id, so that a page can
hold many. Not for what a picture shows: that is `plots`.
"""

from __future__ import annotations

from regress_gate.report.document import Figure
from regress_gate.report.figures.canvas import NARROW, PALETTE, WIDTH, Canvas
from regress_gate.report.figures.intervals import draw_intervals
from regress_gate.report.figures.loads import draw_loads
from regress_gate.report.figures.noise import draw_noise
from regress_gate.report.figures.quantiles import draw_quantiles
from regress_gate.report.figures.runs import draw_runs
from regress_gate.report.figures.timeline import draw_timeline
from regress_gate.report.plots import IntervalPlot, LoadPlot, NoisePlot, QuantilePlot, RunPlot, TimelinePlot

__all__ = ["draw_svg", "has_narrow_form", "theme_css"]


def draw_svg(figure: Figure, *, heading: bool = True, font: str = "sans-serif", is_narrow: bool = False) -> str:
    """A standalone SVG 1.1 picture with `<title>` and `<desc>`, on lines of its own, ending in a newline.

    `heading`: write the title above the picture; a page that has it as text leaves it out. `font`: families in the
    order of preference. `is_narrow`: for a telephone; only pictures that `has_narrow_form` names have that form.
    """
    width = NARROW if is_narrow else WIDTH
    canvas = Canvas(figure.title, figure.description, heading=heading, font=font, width=width)
    match figure.plot:
        case IntervalPlot():
            draw_intervals(canvas, figure.plot)
        case RunPlot():
            draw_runs(canvas, figure.plot)
        case QuantilePlot():
            draw_quantiles(canvas, figure.plot)
        case LoadPlot():
            draw_loads(canvas, figure.plot)
        case TimelinePlot():
            draw_timeline(canvas, figure.plot)
        case NoisePlot():
            draw_noise(canvas, figure.plot)
    return canvas.as_text()


def has_narrow_form(figure: Figure) -> bool:
    """Whether it can be drawn for a telephone: what decides would else lie beyond the edge of the screen."""
    return isinstance(figure.plot, IntervalPlot)


def theme_css(*, dark: bool) -> str:
    """Rules that give every colour of a picture that is part of a page; they win over its presentation attributes."""
    return "".join(
        f".fill-{name}{{fill:{shades[dark]}}}.stroke-{name}{{stroke:{shades[dark]}}}"
        for name, shades in PALETTE.items()
    )
