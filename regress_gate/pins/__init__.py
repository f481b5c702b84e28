"""Where a repository pins its vLLM: versions in files of many kinds, two revisions of them, and what moved."""
