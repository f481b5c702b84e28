"""The life of one server: start, readiness, facts, failures, stop, and recovery after a crash of the tool.

Not for sending a workload. Failures are reported with their cause; the gate decides what they mean.
"""
