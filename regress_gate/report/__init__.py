"""Renderers: one result object in, one text out. Nothing is decided or measured here.

Importing this package is cheap: a format's module, and with it rich, jinja2 or pydantic, is loaded when it is used.
"""

from regress_gate.report.interface import COMMENT_LIMIT, JOB_SUMMARY_LIMIT, Options, Renderer
from regress_gate.report.registry import FORMATS, render
from regress_gate.report.terminal import options_for, print_result

__all__ = [
    "COMMENT_LIMIT",
    "FORMATS",
    "JOB_SUMMARY_LIMIT",
    "Options",
    "Renderer",
    "options_for",
    "print_result",
    "render",
]
