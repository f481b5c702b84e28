"""Which container images a version may be found as. Pure; whether one is there is for the registry to say.

Names as vLLM's release scripts push them (`.buildkite/scripts/` of vllm-project/vllm: publish-release-images and the
nightly ones).
"""

import platform
import re
from string import Formatter

from regress_gate.errors import InputError
from regress_gate.model.nearest import did_you_mean
from regress_gate.model.version import Version

REGISTRY = "docker.io/vllm"
"""With the registry's name, because podman has no default one."""
OLDER_CPU = "public.ecr.aws/q9t5s3a7"
"""Where CPU images of releases were before they came to the other registry too."""
FIELDS = ("version", "commit", "variant")
"""What the name of an image may have in braces."""


def published_images(version: Version, variant: str | None) -> tuple[str, ...]:
    """Names to try, in this order. Raises InputError for a build of which no images are published."""
    if version.commit is not None and len(version.commit) != 40:
        raise InputError(
            f"{version} has only {len(version.commit)} digits of its commit",
            todo="write commit: and all 40; images are published by the whole id",
        )
    tag = f"v{version.number}" if version.commit is None else f"nightly-{version.commit}"
    if variant is None:
        return (f"{REGISTRY}/vllm-openai:{tag}",)
    if re.fullmatch(r"cu\d{3}", variant):
        name = f"{tag}-{variant}" if version.commit is None else f"{variant}-{tag}"
        return (f"{REGISTRY}/vllm-openai:{name}",)
    if variant.startswith("rocm"):
        return (f"{REGISTRY}/vllm-openai-rocm:{tag}",)
    if variant == "cpu" and version.commit is None:
        older = "vllm-arm64-cpu-release-repo" if _is_arm() else "vllm-cpu-release-repo"
        return (f"{REGISTRY}/vllm-openai-cpu:{tag}", f"{OLDER_CPU}/{older}:{tag}")
    raise InputError(f"no images of {version} are published for {variant}", todo="name one with --image")


def named_image(template: str, version: Version, variant: str | None) -> str:
    """The user's own image, with version, commit and variant put in where its name asks for them."""
    values = {"version": version.number, "commit": version.commit, "variant": variant}
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise InputError(f"{template!r} cannot be read: {error}", where="the image") from None
    for name in fields:
        if name not in values:
            raise InputError(f"{{{name}}} is not known{did_you_mean(name, FIELDS)}", where="the image")
        if values[name] is None:
            raise InputError(f"{version} has no {name} to put into {template!r}", where="the image")
    image = template.format_map(values)
    if not re.fullmatch(r"[0-9A-Za-z][\w./:@-]*", image):
        raise InputError(f"{image!r} is no name of an image", where="the image")
    return image


def repository(image: str) -> str:
    """The name without tag, digest and the default registry, by which engines list an image's digests."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    name = head + slash + tail.partition(":")[0]
    return re.sub(r"^(docker\.io/)?(library/)?", "", name)


def _is_arm() -> bool:
    return platform.machine().lower() in ("arm64", "aarch64")
