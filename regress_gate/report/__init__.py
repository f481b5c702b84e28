"""Reports: views turn a plain result into a document, renderers turn a document into text. Decides nothing.

Importing this package is cheap: a format's module, and with it rich, is imported when it is used.
"""

from regress_gate.report.render.output_formats import (
    COMMENT_LIMIT,
    COMPARISON_FIGURES,
    FORMATS,
    HISTORY_FIGURES,
    JOB_SUMMARY_LIMIT,
    NOISE_FIGURES,
    OF_A_REPORT,
    OF_A_VERDICT,
    OutputFormat,
    RenderOptions,
    Source,
    check_standard_output,
    find_format,
    format_names,
    options_for,
    print_view,
    render,
    render_content,
)

__all__ = [
    "COMMENT_LIMIT",
    "COMPARISON_FIGURES",
    "FORMATS",
    "HISTORY_FIGURES",
    "JOB_SUMMARY_LIMIT",
    "NOISE_FIGURES",
    "OF_A_REPORT",
    "OF_A_VERDICT",
    "OutputFormat",
    "RenderOptions",
    "Source",
    "check_standard_output",
    "find_format",
    "format_names",
    "options_for",
    "print_view",
    "render",
    "render_content",
]
