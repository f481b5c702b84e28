"""One module per format, each with a `render(result, options)`; named in `regress_gate.report.registry`."""
