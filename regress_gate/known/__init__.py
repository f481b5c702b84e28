"""Known issues: curated records, matched with a deployment, a move between versions, and measured losses."""
