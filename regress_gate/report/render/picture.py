"""One picture of a report: as SVG, and as PNG drawn from it without a browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from regress_gate.errors import InputError
from regress_gate.report.document import Block, Detail, Figure, Section, View
from regress_gate.report.figures import draw_svg
from regress_gate.report.render.output_formats import RenderOptions
from regress_gate.text import did_you_mean


def render_svg(view: View, options: RenderOptions) -> str:
    return draw_svg(_chosen(view, options))


def figures_of(blocks: Iterable[Block]) -> Iterator[Figure]:
    """Every picture of a document, in its order."""
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Section):
            yield from figures_of(block.blocks)


def _chosen(view: View, options: RenderOptions) -> Figure:
    """Raises InputError where the report has no picture, or none of that name."""
    figures = {figure.name: figure for figure in figures_of(view.document(Detail(figures=True)).blocks)}
    if not figures:
        raise InputError("this report has no picture", where="--format", todo="choose another format")
    name = options.figure if options.figure is not None else next(iter(figures))
    if name not in figures:
        raise InputError(f"this report has no picture {name!r}" + did_you_mean(name, figures), where="--figure")
    return figures[name]
