"""Stored runs in forms that other programs read; each module turns runs into text. Not for comparisons."""
