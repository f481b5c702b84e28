"""Known issues: find, load and lint the curated records, and hold them against a deployment and a move."""
