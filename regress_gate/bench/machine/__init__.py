"""The machine that is measured on: what it is, what else it was doing, and that only one run uses it.

Not for the server's own use of it, and not for judging whether conditions were good enough: the suite has limits.
"""
