"""Measuring with another tool's load client in place of this tool's own: one module a tool, behind one interface.

For teams whose numbers of record come from that tool. Not the default: a driver cannot say whether its client was the
bottleneck, and results of two clients are never results of one.
"""
