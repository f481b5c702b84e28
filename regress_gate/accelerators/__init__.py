"""Accelerators by family: names, builds of vLLM for them, containers, visible devices, and watching them.

One module a family implements `interface.Family`; `registry` lists them. Not for comparing machines (`model.testbed`).
"""
