"""Which images a version may be found as follows from the version, the variant and the machine."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.provision.docker import named_image, published_images, repository
from regress_gate.errors import InputError
from regress_gate.model.version import Version

COMMIT = "4080263bb1c0ffee4080263bb1c0ffee40802631"


@pytest.mark.parametrize(
    ("version", "variant", "image"),
    [
        ("v0.19.1", None, "vllm-openai:v0.19.1"),
        ("0.20.0rc1", None, "vllm-openai:v0.20.0rc1"),
        ("0.19.1", "cu129", "vllm-openai:v0.19.1-cu129"),
        ("0.19.1", "rocm", "vllm-openai-rocm:v0.19.1"),
        ("0.19.1", "cpu", "vllm-openai-cpu:v0.19.1"),
        (f"commit:{COMMIT}", None, f"vllm-openai:nightly-{COMMIT}"),
        (f"0.19.2rc1.dev3+g{COMMIT}", None, f"vllm-openai:nightly-{COMMIT}"),
        (f"commit:{COMMIT}", "cu129", f"vllm-openai:cu129-nightly-{COMMIT}"),
        (f"commit:{COMMIT}", "rocm", f"vllm-openai-rocm:nightly-{COMMIT}"),
        ("0.19.1", "rocm721", "vllm-openai-rocm:v0.19.1"),
        ("0.26.0", "xpu", "vllm-openai-xpu:v0.26.0"),
        (f"commit:{COMMIT}", "xpu", f"vllm-openai-xpu:nightly-{COMMIT}"),
    ],
)
def test_published_images_are_named_with_their_registry(version: str, variant: str | None, image: str) -> None:
    assert published_images(Version.parse(version), variant)[0] == f"docker.io/vllm/{image}"


@pytest.mark.parametrize(
    ("version", "variant", "complaint"),
    [
        ("commit:4080263bb", None, "has only 9 digits of its commit; write commit: and all 40"),
        (f"commit:{COMMIT}", "cpu", "no images of .* are published for cpu; name one with --image"),
        ("0.19.1", "tpu", "are published for tpu"),
    ],
)
def test_an_unpublished_image_is_an_error_before_pulling(version: str, variant: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        published_images(Version.parse(version), variant)


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ("registry.corp:5000/serving/vllm:v{version}-{variant}", "registry.corp:5000/serving/vllm:v0.19.1-cu129"),
        ("mine", "mine"),
        (f"x@sha256:{'0' * 64}", f"x@sha256:{'0' * 64}"),
    ],
)
def test_an_own_image_is_named_as_its_template_says(template: str, image: str) -> None:
    assert named_image(template, Version.parse("0.19.1"), "cu129") == image


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("x:{versoin}", "unknown {versoin} (did you mean 'version'?)"),
        ("x:{commit}", "0.19.1 has no commit for"),
        ("x:{version", "cannot be read"),
        ("--privileged", "is not a valid name of an image"),
        ("", "is not a valid name of an image"),
        ("x y", "is not a valid name of an image"),
    ],
)
def test_an_invalid_template_is_refused(template: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        named_image(template, Version.parse("0.19.1"), None)


@given(st.text(max_size=30))
def test_no_image_name_can_become_an_option(template: str) -> None:
    try:
        image = named_image(template, Version.parse("0.19.1"), None)
    except InputError:
        return
    assert not image.startswith("-")
    assert not re.search(r"\s", image)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("docker.io/vllm/vllm-openai:v1", "vllm/vllm-openai"),
        ("vllm/vllm-openai@sha256:0", "vllm/vllm-openai"),
        ("docker.io/library/x", "x"),
        ("corp:5000/x/y:z", "corp:5000/x/y"),
        ("corp:5000/x", "corp:5000/x"),
    ],
)
def test_names_are_compared_without_tag_digest_and_default_registry(image: str, name: str) -> None:
    assert repository(image) == name
