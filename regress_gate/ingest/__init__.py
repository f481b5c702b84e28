"""Reads results of other tools: recognises, checks and normalises them, and groups them into runs.

`importer.read_paths` returns runs and a report on every file. Not for measuring, and not for storing.
"""
