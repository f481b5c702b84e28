"""Experiments: fresh servers of one version or two, in blocks, each measured by the same suite, each stored as a run.

Not for getting versions (`provision`), the life of one server (`server`) or what is sent (`load`), and not for
deciding anything.
"""
