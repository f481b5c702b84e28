"""The use cases of the tool as plain functions: settings, measuring, comparing, known issues. No click, no terminal."""
