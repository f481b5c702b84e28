"""A server that speaks vLLM's HTTP dialect and with latencies and faults that its flags set.

`python -m tests.fake_vllm --help` lists the flags. It runs no model; for what real vLLM does, run real vLLM.
"""
