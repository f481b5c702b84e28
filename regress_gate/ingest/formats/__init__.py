"""One module a format: a recogniser that says how sure it is, and a reader. Not for identity or for storing."""
