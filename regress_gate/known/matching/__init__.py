"""Matching: does a known issue apply to a deployment and a move? Pure functions."""
