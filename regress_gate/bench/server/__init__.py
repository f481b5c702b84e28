"""The life of one server: start, readiness, what it tells of itself, how it fails, its end, and what a crash leaves.

Not for sending a workload, and not for judging: a failure is told with its cause, and the gate decides what it means.
"""
