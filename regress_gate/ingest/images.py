"""Which vLLM a container image holds, where its name says so for certain: vLLM's own images and their copies."""

import re

_OWN = re.compile(
    r"(?:^|/)vllm-openai(?:-[a-z0-9]+)?:(?:v(\d+\.\d+\.\d+(?:rc\d+|\.post\d+)?)|nightly-([0-9a-f]{40}))(?![0-9a-z.])"
)


def version_of_image(image: str | None) -> str | None:
    """`0.21.0` of `vllm/vllm-openai-rocm:v0.21.0`, `commit:<sha>` of a nightly; None for tags that say neither."""
    match = None if image is None else _OWN.search(image)
    return None if match is None else match[1] or f"commit:{match[2]}"
