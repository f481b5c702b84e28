"""Arrays in, results out: how much worse a version is than another, how sure that is, and what would decide it."""
