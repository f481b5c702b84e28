"""What names of images say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.vllm.image_names import read_image
from regress_gate.vllm.shell_words import open_value

SHA = "f3a1c0ffee5d7e8b9a0c1d2e3f405162738495a6"


@pytest.mark.parametrize(
    ("image", "version", "platform"),
    [
        ("vllm/vllm-openai:v0.9.1", "0.9.1", "cuda"),
        ("docker.io/vllm/vllm-openai:v0.8.5.post1", "0.8.5.post1", "cuda"),
        ("vllm/vllm-openai:v0.9.1-x86_64", "0.9.1", "cuda"),
        ("vllm/vllm-openai:v0.9.1-amd64", "0.9.1", "cuda"),
        ("vllm/vllm-openai:v0.12.0-aarch64-cu130", "0.12.0", "cuda"),
        ("vllm/vllm-openai:v0.11.0rc2", "0.11.0rc2", "cuda"),
        ("vllm/vllm-openai:v0.9.0.1", "0.9.0.1", "cuda"),
        (f"vllm/vllm-openai:v0.9.1@sha256:{'0' * 64}", "0.9.1", "cuda"),
        (f"vllm/vllm-openai:nightly-{SHA}", f"commit:{SHA}", "cuda"),
        (f"public.ecr.aws/q9t5s3a7/vllm-ci-postmerge-repo:{SHA}", f"commit:{SHA}", "cuda"),
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.10.2", "0.10.2", "cpu"),
        ("public.ecr.aws/q9t5s3a7/vllm-arm64-cpu-release-repo:v0.10.2", "0.10.2", "cpu"),
        ("vllm/vllm-openai-cpu:v0.19.1", "0.19.1", "cpu"),
        ("vllm/vllm-openai-rocm:v0.14.0", "0.14.0", "rocm"),
        ("vllm/vllm-openai-xpu:v0.19.1", "0.19.1", "xpu"),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715", "0.9.1", "rocm"),
        ("rocm/vllm:rocm6.3.1_instinct_vllm0.8.3_20250415", "0.8.3", "rocm"),
        ("docker://rocm/vllm-dev:rocm7.0_mi300_ubuntu22.04_py3.12_vllm_0.10.1", "0.10.1", "rocm"),
        ("quay.io/ascend/vllm-ascend:v0.9.1", "0.9.1", "ascend"),
        ("quay.io/ascend/vllm-ascend:v0.9.1-a3", "0.9.1", "ascend"),
        ("registry.example:5000/mirror/vllm/vllm-openai:v0.9.1", "0.9.1", "cuda"),
        ("registry.example/ml/vllm-openai:v0.9.1", "0.9.1", "cuda"),
    ],
)
def test_a_tag_that_counts_vllms_releases_is_a_version(image: str, version: str, platform: str) -> None:
    facts = read_image(image)
    assert (str(facts.version), facts.platform, facts.is_vllm) == (version, platform, True)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("vllm/vllm-openai:latest", "the image's tag 'latest' names no version"),
        ("vllm/vllm-openai:nightly", "'nightly' names no version"),
        ("vllm/vllm-openai:cu130-nightly", "names no version"),
        ("vllm/vllm-openai:gptoss", "'gptoss' names no version"),
        ("vllm/vllm-openai", "the image has no tag"),
        (f"vllm/vllm-openai@sha256:{'0' * 64}", "named by its digest alone"),
        (f"vllm/vllm-openai:{open_value('TAG')}", "${TAG}, which is not in the file"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.5.0", "need not be vLLM's version"),
        ("lmcache/vllm-openai:v0.3.9", "need not be vLLM's version"),
        ("nvcr.io/nvidia/vllm:25.09-py3", "need not be vLLM's version"),
        ("registry.example/ml/vllm:0.9.1", "need not be vLLM's version"),
        ("quay.io/ascend/vllm-ascend:v0.11.0rc1", "names no version"),
        ("rocm/vllm:latest", "names no version"),
    ],
)
def test_any_other_tag_gives_no_version_and_the_reason(image: str, why: str) -> None:
    facts = read_image(image)
    assert facts.version is None
    assert why in facts.why_no_version


@pytest.mark.parametrize(
    ("image", "distribution"),
    [
        ("docker.io/vllm/vllm-openai:v0.9.1", "vllm/vllm-openai:v0.9.1"),
        ("registry.example:5000/hub/rocm/vllm:rocm6_vllm_0.9.1", "rocm/vllm:rocm6_vllm_0.9.1"),
        ("quay.io/ascend/vllm-ascend:v0.9.1", "quay.io/ascend/vllm-ascend:v0.9.1"),
        (f"vllm/vllm-openai:{open_value('TAG')}", "vllm/vllm-openai"),
        (f"{open_value('IMAGE')}:v0.9.1", None),
        ("registry.example/ml/vllm-openai:v0.9.1", None),
    ],
)
def test_the_distribution_is_named_as_known_issues_name_it(image: str, distribution: str | None) -> None:
    assert read_image(image).distribution == distribution


@pytest.mark.parametrize(
    ("image", "python"),
    [
        ("vllm/vllm-openai:v0.19.1", "3.12"),
        ("vllm/vllm-openai:v0.24.0-cu129", "3.12"),
        ("vllm/vllm-openai:latest", "3.12"),
        ("vllm/vllm-openai-rocm:v0.20.0", "3.12"),
        ("vllm/vllm-openai:v0.5.0", None),
        ("vllm/vllm-openai-xpu:v0.20.0", None),
        ("registry.example/ml/vllm-openai:v0.19.1", None),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715", None),
    ],
)
def test_the_images_of_vllm_have_a_known_python(image: str, python: str | None) -> None:
    assert read_image(image).python == python


@pytest.mark.parametrize(
    ("image", "platform"),
    [
        ("opea/vllm:cpu", "cpu"),
        ("vault.habana.ai/gaudi-docker/1.22.0/ubuntu24.04/habanalabs/vllm-installer-2.7.1:latest", "gaudi"),
        ("vllm/vllm-tpu:nightly", "tpu"),
        ("intel/llm-scaler-vllm:0.10.2-b6", "xpu"),
        ("ghcr.io/llm-d/llm-d-rocm:v0.5.0", "rocm"),
        ("registry.example/vllm:1", None),
        ("redis:7-cpu", None),
    ],
)
def test_the_platform_follows_from_name_and_tag(image: str, platform: str | None) -> None:
    assert read_image(image).platform == platform


@pytest.mark.parametrize(
    "image",
    [
        *("lmcache/lmstack-router:latest", "ghcr.io/llm-d/llm-d-routing-sidecar:v0.4"),
        *("ghcr.io/llm-d/llm-d-inference-sim", "vllm/semantic-router:v1", "redis:7", "nginx", "vllm-benchmark:1", ""),
    ],
)
def test_images_that_go_with_vllm_are_no_servers(image: str) -> None:
    assert not read_image(image).is_vllm


@given(st.text(max_size=60))
def test_any_name_can_be_read(name: str) -> None:
    read_image(name)
