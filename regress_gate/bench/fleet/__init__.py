"""Blocks on the hosts of an engine that schedules: the task of a block, the engines, and the loop that collects.

Not for how a block is measured: that is `experiment`, on each host as on this machine.
"""
