"""Joining: known issues held against measured losses."""
