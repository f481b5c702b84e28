"""One module per format, each with a `render(result, options)`; `report.render.output_formats` names them."""
