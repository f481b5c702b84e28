"""regress-gate: may I move my vLLM deployment from X to Y?"""

__version__ = "0.1.0"
