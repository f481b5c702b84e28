"""A server that speaks vLLM's HTTP dialect and whose latencies and faults are known, because they are told to it.

`python -m tests.fake_vllm --help` lists what can be told. It runs no model; for what real vLLM does, run real vLLM.
"""
