"""The machine of a measurement: its facts, its conditions, and reserving it for one run.

Not for the resources of the server, and not for judging conditions: the suite has limits.
"""
