"""Reading what other tools measured: recognise, check, normalise, group into runs; or refuse and say why.

Not for measuring anything, and not for storing: `intake.read_paths` returns runs and a report on every file.
"""
