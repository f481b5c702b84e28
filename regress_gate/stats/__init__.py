"""Arrays in, results out: how much a version lost against another, how sure that is, what would decide it."""
