"""One picture of a report: as SVG, and as PNG drawn from it without a browser."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator

from regress_gate.errors import InputError
from regress_gate.report.document import Block, Detail, Figure, Section, Table, View
from regress_gate.report.figures import draw_svg
from regress_gate.report.plots import TimelinePlot
from regress_gate.report.render.output_formats import RenderOptions
from regress_gate.text import did_you_mean

_WITHOUT_DATA = {"since": "No series got worse, or no stored version lies between the two."}
"""Why a report has no picture of that name, where the reason is known."""


def render_svg(view: View, options: RenderOptions) -> str:
    return draw_svg(_chosen(view, options))


_ZOOM = 2
"""Pixels of a PNG for each of the picture, so that text stays sharp on screens of today."""
_FONTS = "DejaVu Sans, Liberation Sans, Noto Sans, Arial, Helvetica, sans-serif"
"""The first that is installed is taken."""


def render_png(view: View, options: RenderOptions) -> bytes:
    """Warns where no font is installed: the picture then has no text."""
    import resvg_py  # an extra, and 12 MB

    if not _has_font(resvg_py.svg_to_bytes):
        warnings.warn("no font is installed, so the png has no text: install DejaVu Sans", stacklevel=2)
    return resvg_py.svg_to_bytes(svg_string=draw_svg(_chosen(view, options), font=_FONTS), zoom=_ZOOM)


def _has_font(draw: Callable[..., bytes]) -> bool:
    """Whether a letter leaves a trace: without a font it silently does not."""
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" font-family="{_FONTS}">{{}}</svg>'
    return draw(svg_string=picture.format('<text y="16">x</text>')) != draw(svg_string=picture.format(""))


def figures_of(blocks: Iterable[Block]) -> Iterator[Figure]:
    """Every picture of a document, in its order."""
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Section):
            yield from figures_of(block.blocks)


def _chosen(view: View, options: RenderOptions) -> Figure:
    """The picture that is asked for, or the first. Without data it is empty and says so: the decision stands.

    Raises InputError for a view without pictures, or without one of that name.
    """
    titles = view.figure_titles
    if not titles:
        raise InputError("this report has no picture", where="--format", todo="choose another format")
    if options.figure is not None and options.figure not in titles:
        what = f"this report has no picture {options.figure!r}"
        raise InputError(what + did_you_mean(options.figure, titles), where="--figure")
    figures = {figure.name: figure for figure in figures_of(view.document(Detail(figures=True)).blocks)}
    name = options.figure or next(iter(figures), next(iter(titles)))
    nothing = TimelinePlot((), note=_WITHOUT_DATA.get(name, "The report holds no data for this picture."))
    return figures.get(name) or Figure(name, titles[name], nothing.note, nothing, Table.of((), ()))
