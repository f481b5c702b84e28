"""Measure with another tool's load client instead of this tool's own: one module a tool, behind one interface.

For teams whose numbers of record come from that tool. Not the default: a driver cannot know whether its client was the
bottleneck, and results of two clients are not comparable.
"""
