"""The load client: sends one workload to a running server and returns what it measured, and whether to believe it.

There is one client, owned by this tool and the same for every version of vLLM, so that the meter never changes with
what is measured. Not for starting servers or deciding anything.
"""

CLIENT_VERSION = "1"
"""Stored with every result. Raise it with any change that can move a number: results of two clients differ in more
than the server."""
