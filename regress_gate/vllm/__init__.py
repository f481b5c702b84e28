"""What vLLM prints and what it takes: logs, launch lines, arguments, environment reports."""
