"""What the name of a container image says: the version of vLLM, the platform, whether its entrypoint is the server.

Only a tag that counts vLLM's own releases gives a version: the tags of other images with vLLM in them count something
else, and `latest` counts nothing. Patterns are those of the projects' published images.
"""

import re
from dataclasses import dataclass

from regress_gate.errors import InputError
from regress_gate.model.deployment import Platform
from regress_gate.model.version import Version, version_key
from regress_gate.redaction import mask
from regress_gate.vllm.release_tables import FIRST_RELEASE
from regress_gate.vllm.shell_words import is_open, shown

_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+(?:\.\d+)?(?:(?:\.?post|rc|\.?dev)\d+)?)(?:$|[-_+].*)")
_COMMIT = re.compile(r"(?:^|-)([0-9a-f]{40})(?:$|-)|nightly-([0-9a-f]{7,40})$")
_ROCM_RELEASE = re.compile(r"(?:^|_)vllm_?v?(\d+\.\d+\.\d+(?:\.post\d+|rc\d+)?)(?:$|[_-])")
_FINAL_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)(?:$|-)")
_MOVING = re.compile(r"(?:^|-)(?:latest|nightly|main|master|dev|stable|edge)(?:$|-)")

_OFFICIAL = re.compile(
    r"(?:^|/)(?:vllm/vllm-openai(?:-(?P<platform>cpu|rocm|xpu))?(?:-(?:x86_64|arm64))?"
    r"|q9t5s3a7/vllm-(?:arm64-)?(?P<cpu>cpu-)?(?:release|ci-postmerge|ci-test)-repo)$"
)
"""vLLM's own images, and their copies in a registry that caches them."""
_COPY = re.compile(r"(?:^|/)vllm-openai(?:-(?P<platform>cpu|rocm|xpu))?$")
_PYTHON = "3.12"
"""Of vLLM's own images since 0.8.5 at least: the default of PYTHON_VERSION in the files that they are made with,
docker/Dockerfile, Dockerfile.rocm_base and Dockerfile.cpu. That for XPU takes the one of its system."""
_ROCM = re.compile(r"(?:^|/)rocm/vllm(?:-dev)?$")
_ASCEND = re.compile(r"(?:^|/)vllm-ascend$")
_AWS = re.compile(r"(?:^|/)deep-learning-containers/vllm$")
_AWS_RELEASE = re.compile(r"(\d+\.\d+\.\d+(?:\.post\d+|rc\d+)?)-(?:gpu|cpu|neuronx?)-py\d+")
"""AWS names its images by vLLM's release, or by its own (`server-cuda-v1.1`)."""
_OWN_NUMBERS = re.compile(r"(?:^|/)lmcache/")
"""Owners of a `vllm-openai` whose tags count their own releases."""
_LLM_D = re.compile(r"(?:^|/)llm-d(?:-dev)?(?:-(?:cuda|rocm|xpu|hpu|cpu|tpu|aws|gb200))?(?:-dev)?$")
_NO_SERVER = re.compile(
    r"router|sidecar|proxy|gateway|-sim\b|simulator|bench|exporter|dashboard|semantic|operator|controller|scheduler"
    r"|production-stack|loader|webui|frontend"
)
"""Parts of names of images that go with vLLM and do not serve."""
_PLATFORM_WORDS: tuple[tuple[str, Platform], ...] = (
    (r"rocm[\d.]*|amd|gfx\d+\w*|mi\d{3}x?", "rocm"),
    (r"ascend|npu|cann|910[abc]?|310p", "ascend"),
    (r"gaudi\d?|hpu|habana(?:labs)?", "gaudi"),
    (r"xpu|intel|llm-scaler", "xpu"),
    (r"tpu", "tpu"),
    (r"neuron\w*|neuronx", "other"),
    (r"cpu", "cpu"),
    (r"cuda[\d.]*|cu1\d\d|nvidia", "cuda"),
)
_VAULT_OF_GAUDI = "vault.habana.ai/"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    name: str
    """As written, without what is secret."""
    distribution: str | None = None
    """Name and tag as known issues name them: without the registry for vLLM's and AMD's images."""
    version: Version | None = None
    why_no_version: str = ""
    note: str = ""
    """How sure the version is, where it is not vLLM's own image."""
    platform: Platform | None = None
    python: str | None = None
    """Its version, where every such image has the same."""
    is_vllm: bool = False
    """Whether vLLM's server may be in it."""
    starts_server: bool = False
    """Whether its entrypoint is the server, so that the container's arguments are the server's."""


def read_image(text: str) -> ImageFacts:
    """What the name says. Never fails: a name that says nothing gives no facts."""
    name = mask(shown(text.strip()))
    path, tag, digest = split_image(text)
    known_path = shown(path).casefold()
    is_vllm = ("vllm" in known_path or _LLM_D.search(known_path) is not None) and not _NO_SERVER.search(known_path)
    official, copy = _OFFICIAL.search(known_path), _COPY.search(known_path)
    version, why, note = _version(known_path, tag, has_digest=digest is not None)
    return ImageFacts(
        name=name,
        # What a copy in another registry is called there says nothing.
        distribution=None if is_open(path) or (copy and not official) else _distribution(path, tag),
        version=version,
        why_no_version=why,
        note=note,
        platform=_platform(known_path, "" if tag is None else shown(tag)),
        python=_PYTHON if official and official["platform"] != "xpu" and not _is_old(version) else None,
        is_vllm=is_vllm,
        starts_server=bool(official or copy) and is_vllm,
    )


def split_image(text: str) -> tuple[str, str | None, str | None]:
    """Path, tag and digest (`sha256:…`) of an image's name."""
    name, at, digest = text.strip().removeprefix("docker://").removeprefix("docker-daemon:").partition("@sha256:")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # the port of a registry
        path, tag = name, ""
    return path, tag or None, f"sha256:{digest}" if at else None


def _version(path: str, tag: str | None, *, has_digest: bool) -> tuple[Version | None, str, str]:
    """The version, else why there is none; and a note on how it was found."""
    if tag is None:
        return None, "the image is named by its digest alone" if has_digest else "the image has no tag", ""
    if is_open(tag):
        return None, f"the image's tag is {shown(tag)}, which is not in the file", ""
    if _MOVING.search(tag) and not _COMMIT.search(tag):
        return None, f"the image's tag {tag!r} names no version", ""
    number, note = None, ""
    if _OFFICIAL.search(path) or (_COPY.search(path) and not _OWN_NUMBERS.search(path)):
        if commit := _COMMIT.search(tag):
            return parse_version(f"commit:{commit[1] or commit[2]}"), "", ""
        number = _RELEASE.fullmatch(tag)
        if number is not None and not _OFFICIAL.search(path):
            note = f"{number[1]} is taken from the tag of {path}, as a copy of vLLM's image"
    elif _ROCM.search(path):
        number = _ROCM_RELEASE.search(tag)
    elif _AWS.search(path):
        number = _AWS_RELEASE.match(tag)
    elif _ASCEND.search(path):
        number = _FINAL_RELEASE.match(tag)
        if number is not None:
            note = f"{number[1]} is vllm-ascend's number, which is vLLM's for a final release"
    else:
        return None, f"the tag {tag!r} of {path} need not be vLLM's version", ""
    version = None if number is None else parse_version(number[1])
    return version, "" if version is not None else f"the image's tag {tag!r} names no version", note


def parse_version(text: str) -> Version | None:
    """None for a text that is no version."""
    try:
        return Version.parse(text)
    except InputError:
        return None


def _is_old(version: Version | None) -> bool:
    """Whether the image is older than all that is known of vLLM's images."""
    key = None if version is None else version.order_key
    return key is not None and key < version_key(FIRST_RELEASE)


def _distribution(path: str, tag: str | None) -> str:
    """`vllm/vllm-openai:v0.9.1` for `docker.io/vllm/vllm-openai:v0.9.1` and for its copy in another registry."""
    known = re.search(r"(?:^|/)((?:vllm/vllm-openai|rocm/vllm|intel/llm-scaler-vllm)[\w.-]*)$", path)
    name = known[1] if known else re.sub(r"^(?:index\.|registry-1\.)?docker\.io/(?:library/)?", "", path)
    return mask(name if tag is None or is_open(tag) else f"{name}:{tag}")


def _platform(path: str, tag: str) -> Platform | None:
    if _VAULT_OF_GAUDI in path:
        return "gaudi"
    official = _OFFICIAL.search(path) or _COPY.search(path)
    if official is None and "vllm" not in path and _LLM_D.search(path) is None:
        return None
    name = path.partition("/")[2] if "." in path.partition("/")[0] else path
    words = f"{name} {tag}".casefold()
    for pattern, platform in _PLATFORM_WORDS:
        if re.search(rf"(?:^|[\W_])(?:{pattern})(?:$|[\W_])", words):
            return platform
    # vLLM's own image without a suffix is built for CUDA.
    return "cuda" if official is not None else None
