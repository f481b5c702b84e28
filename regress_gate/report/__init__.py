"""Renderers: one result object in, one text out. Nothing is decided or measured here.

Importing this package is cheap: a format's module, and with it rich, jinja2 or pydantic, is loaded when it is used.
"""

from regress_gate.report.render.output_formats import FORMATS, print_result, render
from regress_gate.report.render.render_options import (
    COMMENT_LIMIT,
    JOB_SUMMARY_LIMIT,
    Renderer,
    RenderOptions,
    options_for,
)

__all__ = [
    "COMMENT_LIMIT",
    "FORMATS",
    "JOB_SUMMARY_LIMIT",
    "RenderOptions",
    "Renderer",
    "options_for",
    "print_result",
    "render",
]
