"""The watch over new builds of vLLM: what it follows, and whom it tells."""
