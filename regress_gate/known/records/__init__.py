"""The curated records: load, lint, draft and export them."""
