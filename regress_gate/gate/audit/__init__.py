"""Rules on a deployment: what its launch line, start log, metrics and model configuration say about lost speed."""
