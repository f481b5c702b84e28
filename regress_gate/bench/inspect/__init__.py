"""What a vLLM build can be told: its arguments, variables and dependencies, asked of the installed package.

No model is loaded and no server started. Not for comparing two builds (`gate.config_changes`).
"""
