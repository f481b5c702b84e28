"""From the times of requests to the statistics of a trial; the load client and every import use it.

Not for reading files, and not for comparing versions.
"""
