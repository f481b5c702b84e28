"""The arguments, environment variables and dependencies of a vLLM build, read from the installed package.

No model is loaded and no server started. Not for comparing two builds (`gate.config_changes`).
"""
