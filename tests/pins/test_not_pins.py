"""What is no pin of vLLM is not taken for one, and a pin that names no version says why."""

import pytest

from tests.pins.test_forms import pins_in

NO_PINS = [
    ("requirements.txt", "vllm-flash-attn==2.6.2\nvllm_ascend==0.11.0\nvllm-lens==1.1.0\n# vllm==0.1.0\n"),
    ("requirements.txt", "not-vllm==0.1.0\nmyvllm==1\n"),
    ("notes.txt", "We run vllm==0.19.1 on two hosts.\nvllm==0.19.1\n"),
    ("README.md", "pip install vllm==0.19.1\ndocker run vllm/vllm-openai:v0.19.1\n"),
    ("pyproject.toml", '[project]\nname = "vllm"\nversion = "0.19.1"\n'),
    ("pyproject.toml", '[tool.mypy]\noverrides = [{module = "vllm.*"}]\n[tool.x]\nvllm = "0.19.1"\n'),
    ("uv.lock", '[[package]]\nname = "vllm-lens"\nversion = "1.1.0"\ndependencies = [{ name = "vllm" }]\n'),
    (
        "compose.yaml",
        "services:\n  ui:\n    image: acme/vllm-frontend:1.2.3\n  router:\n    image: lmcache/lmstack-router:v0.1.9\n",
    ),
    ("compose.yaml", "services:\n  llm:\n    build: .\n    image: my-vllm\n    container_name: vllm\n"),
    ("values.yaml", "vllm:\n  enabled: true\n  model: a/b\n  port: 8000\nversion: 1.2.3\n"),
    (
        "Chart.yaml",
        "apiVersion: v2\nname: vllm\nversion: 0.1.10\ndependencies:\n- name: vllm-stack\n  version: 0.1.0\n",
    ),
    (
        ".env",
        "VLLM_CUDA_VERSION=12.9\nMIN_VLLM_VERSION=0.9.0\nVLLM_PORT=8000\nVLLM_ASCEND_VERSION=0.11.0\nVLLM_USE_V1=1\n",
    ),
    ("a.yaml", "VLLM_TORCH_VERSION: 2.9.0\nvllm_flash_attn_version: 2.6.2\nvllm_version_file: /x\n"),
    (
        "Dockerfile",
        "FROM nvidia/cuda:12.9.0-devel-ubuntu22.04 AS vllm-base\nFROM vllm-base\nFROM vllm-base AS final\n",
    ),
    ("Dockerfile", "FROM python:3.12\nRUN pip install -r requirements-vllm.txt && vllm --version\n"),
    ("app.py", 'import vllm\nassert vllm.__version__ == "0.19.1"\nprint("pip install vllm==0.19.1")\n'),
    ("test_app.py", 'def test():\n    assert image == "vllm/vllm-openai:v0.19.1"\n    check("vllm==0.19.1")\n'),
    ("tests/test_app.py", 'IMAGE = "vllm/vllm-openai:v0.19.1"\n'),
    ("run.sh", 'docker run "vllm/vllm-openai:${TAG}" --model x\n'),
    ("run.sh", "# pip install vllm==0.19.1\nvllm serve x --port 8000\ncurl http://vllm:8000/v1/models\n"),
    ("result.json", '{"image": "vllm/vllm-openai:v0.19.1", "vllm_version": "0.19.1"}\n'),
    ("package.json", '{"name": "vllm-ui", "dependencies": {"vllm-client": "0.19.1"}}\n'),
    (
        ".github/workflows/ci.yml",
        "on: push\njobs:\n  vllm:\n    runs-on: ubuntu-24.04\n    steps:\n      - uses: actions/checkout@v7\n",
    ),
    ("main.go", 'const image = "vllm/vllm-openai:v0.19.1"\n'),
]


@pytest.mark.parametrize(("path", "text"), NO_PINS, ids=lambda text: text[:40].replace("\n", " "))
def test_it_is_no_pin(path, text):
    assert pins_in(path, text).pins == []


UNKNOWN = [
    ("requirements.txt", "vllm>=0.19,<0.33\n", "vllm>=0.19,<0.33", ">=0.19,<0.33 is a range"),
    ("requirements.txt", "vllm~=0.19.0\n", "vllm~=0.19.0", "~=0.19.0 is a range"),
    ("requirements.txt", "vllm==0.19.*\n", "vllm==0.19.*", "==0.19.* is a range"),
    ("requirements.txt", "vllm[audio]\n", "vllm", "no version is given"),
    (
        "requirements.txt",
        "vllm @ git+https://github.com/vllm-project/vllm.git@main\n",
        None,
        "the address names no version",
    ),
    ("requirements.txt", "vllm @ git+https://github.com/acme/vllm@v0.19.1\n", None, "the address names no version"),
    ("requirements.txt", "--extra-index-url https://wheels.vllm.ai/nightly\nvllm\n", "vllm", "no version is given"),
    ("pyproject.toml", '[tool.poetry.dependencies]\nvllm = "^0.19"\n', "vllm^0.19", "^0.19 is a range"),
    ("pyproject.toml", '[tool.poetry.dependencies]\nvllm = "*"\n', "vllm*", "no version is given"),
    ("environment.yml", "name: x\ndependencies:\n- vllm=0.6.*\n", None, "is a range"),
    ("Dockerfile", "FROM vllm/vllm-openai:latest\n", None, "the image's tag 'latest' names no version"),
    ("Dockerfile", "FROM vllm/vllm-openai\n", "vllm/vllm-openai", "the image has no tag"),
    ("Dockerfile", "FROM vllm/vllm-openai:cu130-nightly\n", None, "the image's tag 'cu130-nightly' names no version"),
    ("Dockerfile", f"FROM vllm/vllm-openai@sha256:{'a' * 64}\n", None, "the image is named by its digest alone"),
    (
        "Dockerfile",
        "ARG VLLM_VERSION\nFROM vllm/vllm-openai:v${VLLM_VERSION}\n",
        None,
        "the image's tag is v${VLLM_VERSION}, which is not in the file",
    ),
    (
        "compose.yaml",
        "services:\n  a:\n    image: vllm/vllm-openai:${TAG}\n",
        None,
        "the image's tag is ${TAG}, which is not in the file",
    ),
    (
        "compose.yaml",
        "services:\n  a:\n    image: ghcr.io/acme/vllm-server:1.4\n",
        None,
        "the tag '1.4' of ghcr.io/acme/vllm-server need not be vLLM's version",
    ),
    ("compose.yaml", "services:\n  a:\n    image: lmcache/vllm-openai:v0.3.7\n", None, "need not be vLLM's version"),
    (
        "values.yaml",
        "image: {repository: vllm/vllm-openai, tag: nightly}\n",
        None,
        "the image's tag 'nightly' names no version",
    ),
    ("run.sh", "uv pip install vllm --torch-backend=auto\n", "vllm", "no version is given"),
    ("run.sh", "URI=vllm/vllm-tpu:v0.12.0\n", None, "need not be vLLM's version"),
    (".env", "VLLM_TAG=latest\n", "VLLM_TAG=latest", "'latest' names no version"),
]


@pytest.mark.parametrize(
    ("path", "text", "shown", "why"), UNKNOWN, ids=lambda text: (text or "")[:40].replace("\n", " ")
)
def test_it_is_a_pin_of_an_unknown_version(path, text, shown, why):
    (pin,) = pins_in(path, text).pins
    assert pin.version is None
    assert why in pin.pinned.why
    assert shown in (None, pin.pinned.text)


COMMIT = "4080263bb" + "a" * 31
COMMITS = [
    ("requirements.txt", f"vllm @ git+https://github.com/vllm-project/vllm@{COMMIT}\n"),
    ("requirements.txt", f"vllm @ https://wheels.vllm.ai/{COMMIT}/vllm-1.0.0.dev-cp38-abi3-manylinux1_x86_64.whl\n"),
    ("requirements.txt", f"--extra-index-url https://wheels.vllm.ai/{COMMIT}/cu129\nvllm\n"),
    (
        "pyproject.toml",
        f'[tool.uv.sources]\nvllm = {{ git = "https://github.com/vllm-project/vllm.git", rev = "{COMMIT}" }}\n',
    ),
    (
        "pyproject.toml",
        (
            f"[[tool.uv.index]]\n"
            f'name = "n"\n'
            f'url = "https://wheels.vllm.ai/{COMMIT}"\n'
            f"[tool.uv.sources]\n"
            f'vllm = {{ index = "n" }}\n'
        ),
    ),
    (
        "uv.lock",
        (
            f"[[package]]\n"
            f'name = "vllm"\n'
            f'version = "0.1.0"\n'
            f'source = {{ git = "https://github.com/vllm-project/vllm.git?rev=x#{COMMIT}" }}\n'
        ),
    ),
    ("Dockerfile", f"FROM vllm/vllm-openai:nightly-{COMMIT}\n"),
    (".env", f"VLLM_COMMIT={COMMIT}\n"),
    ("run.sh", f"uv pip install vllm --extra-index-url https://wheels.vllm.ai/{COMMIT}\n"),
]


@pytest.mark.parametrize(("path", "text"), COMMITS, ids=lambda text: text[:40].replace("\n", " "))
def test_it_is_a_commit(path, text):
    (pin,) = pins_in(path, text).pins
    assert str(pin.version) == f"commit:{COMMIT}"


def test_a_nightly_wheel_has_its_number_and_its_commit():
    wheel = "https://wheels.vllm.ai/nightly/vllm-0.16.0rc1.dev78%2Bgb6bb2842c.cu129-cp38-abi3-manylinux_2_31_x86_64.whl"
    (pin,) = pins_in("requirements.txt", f"vllm @ {wheel}\n").pins
    assert str(pin.version) == "0.16.0rc1.dev78+gb6bb2842c.cu129"


def test_a_password_in_an_address_is_not_shown():
    (pin,) = pins_in(
        "requirements.txt", "vllm @ https://user:hunter2@index.example.com/vllm-0.19.1-cp38-abi3-linux_x86_64.whl\n"
    ).pins
    assert str(pin.version) == "0.19.1"
    assert "hunter2" not in pin.pinned.text
