"""Telling GitHub what the gate decided: job summary, one comment, a check run, annotations; runs kept on a branch.

The result may come from a fork: nothing of it is trusted, and no address, number or markup is taken from it.
"""
