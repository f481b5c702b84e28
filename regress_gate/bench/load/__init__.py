"""The load client: sends one workload to a running server, returns the measurements and whether they are valid.

The tool has its own client, the same for every version of vLLM, so that the meter never changes with the version.
Not for starting servers or for decisions.
"""

CLIENT_VERSION = "1"
"""Stored with every result. Raise it with every change that can move a number: results of two clients are not
comparable."""
