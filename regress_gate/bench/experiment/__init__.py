"""Experiments: fresh servers of one or two versions in blocks, measured with the same suite, each stored as a run.

Not for provisioning versions (`provision`), the life of one server (`server`), sending load (`load`), or decisions.
"""
