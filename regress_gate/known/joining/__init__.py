"""Joining: attribution of measured losses to known issues, and scenarios that would show an issue."""
