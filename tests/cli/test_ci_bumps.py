"""Bumps of vLLM as Dependabot, Renovate and people make them, in the forms of public pull requests, as real commits.

The files are our own, in the form of: timothystewart6/vllm-gb10#9, VectorInstitute/vector-inference#261,
NVIDIA-NeMo/Guardrails#1312, Azure/aks-rdma-infiniband#92, xencon/aixcl#1618, torch-spyre/sendnn-inference#600,
llm-d-incubation/llm-d-fast-model-actuation#329, kaito-project/kaito#1830.
"""

import pytest

from tests.cli.test_ci_versions import NEW, OLD, moved, versions

SHA = {OLD: "1d6866b87630d94f5e0cdae55ab5abb4ce0b03fcb84d9d10612f9d518d19d4fd", NEW: "a" * 64}

LOCKED = """version = 1
requires-python = ">=3.12"

[[package]]
name = "serving"
version = "{other}"
source = {{ virtual = "." }}
dependencies = [{{ name = "vllm" }}]

[package.metadata]
requires-dist = [{{ name = "vllm", specifier = ">=0.19" }}]

[[package]]
name = "torch"
version = "{torch}"

[[package]]
name = "vllm"
version = "{version}"
source = {{ registry = "https://index.example/simple" }}
wheels = [
    {{ url = "https://files.example.org/vllm-{version}-cp38-abi3-manylinux1_x86_64.whl", hash = "sha256:aa" }},
]
"""

BUMPS = {
    "Dependabot, pip with hashes": {
        "requirements.txt": "torch==2.9.0 \\\n    --hash=sha256:aa\n"
        "vllm=={version} \\\n    --hash=sha256:{sha} \\\n    --hash=sha256:bb\n"
        "    # via -r requirements.in\n",
    },
    "Dependabot, docker": {"docker/Dockerfile": "FROM vllm/vllm-openai:v{version}\nRUN pip install hf_transfer\n"},
    "Dependabot, uv": {
        "pyproject.toml": '[project]\nname = "serving"\ndependencies = [\n    "torch",\n    "vllm=={version}",\n]\n',
        "uv.lock": LOCKED,
    },
    "Dependabot, docker-compose": {
        "services/docker-compose.yml": "services:\n  vllm:\n    image: docker.io/vllm/vllm-openai:v{version}\n",
    },
    "Renovate, lock file maintenance": {
        "pyproject.toml": '[project]\ndependencies = ["vllm>=0.19"]\n',
        "uv.lock": LOCKED,
    },
    "Renovate, tag and digest": {"Dockerfile": "FROM vllm/vllm-openai:v{version}@sha256:{sha} AS base\n"},
    "Renovate, Helm values": {
        "charts/llm/values.yaml": "image:\n  repository: vllm/vllm-openai\n  tag: v{version}@sha256:{sha}\n",
    },
    "Renovate, Flux and Kustomize": {
        "apps/llm/kustomization.yaml": "images:\n  - name: vllm/vllm-openai\n    newTag: v{version}\n",
        "apps/llm/release.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n"
        "  values:\n    servingEngineSpec:\n      modelSpec:\n        - name: a\n"
        "          repository: vllm/vllm-openai\n          tag: v{version}\n",
    },
    "Renovate, regex manager": {
        "versions.env": "# renovate: datasource=docker depName=vllm/vllm-openai\nENGINE_TAG=v{version}\n",
    },
    "a person, everywhere": {
        "README.md": "Runs vLLM {version}.\n",
        "deploy/base/deployment.yaml": (
            "apiVersion: apps/v1\n"
            "kind: Deployment\nspec: {{template: {{spec: {{containers: [\n"
            "  {{name: vllm, image: 'vllm/vllm-openai:v{version}'}}]}}}}}}\n"
        ),
        "deploy/Makefile": "VLLM_TAG := v{version}\n",
        "bench/Dockerfile": "ARG VLLM_VERSION={version}\nFROM vllm/vllm-openai:v${{VLLM_VERSION}}\n",
        ".github/workflows/e2e.yml": (
            "on: push\njobs:\n  e2e:\n    env: {{VLLM_IMAGE: 'vllm/vllm-openai:v{version}'}}\n"
        ),
    },
    "a person, bounds and lock": {
        "pyproject.toml": '[project]\ndependencies = ["vllm>=0.18,<={version}"]\n',
        "uv.lock": LOCKED,
    },
}
"""What stands in the files, before and after."""


def filled(files, version):
    values = {"version": version, "sha": SHA[version], "torch": "2.9.0" if version == OLD else "2.13.0"}
    return {name: text.format(other="1.0" if version == OLD else "1.1", **values) for name, text in files.items()}


@pytest.mark.parametrize("name", BUMPS)
def test_a_bump_is_one_move_with_exact_lines(gate, repo, name):
    repo.commit({**filled(BUMPS[name], OLD), "app.py": "x = 1\n"}, "before")
    after = filled(BUMPS[name], NEW)
    repo.commit(after, "chore(deps): bump vllm")
    answer = versions(gate, "--base", "HEAD~1", "--head", "HEAD")
    assert (answer["outcome"], answer["baseline"], answer["candidate"]) == ("moved", OLD, NEW)
    for file, line, *_ in moved(answer):
        assert NEW in after[file].split("\n")[line - 1]
    counted = [one for one in answer["moved"] if one["decided_by"] is None]
    pinning = [
        file
        for file in BUMPS[name]
        if file != "README.md" and not (file == "pyproject.toml" and ">=" in BUMPS[name][file])
    ]
    assert sorted({one["file"] for one in counted}) == sorted(pinning)


def test_a_digest_that_is_added_to_the_same_tag_moves_nothing(gate, repo):
    """Renovate's `pin digest`."""
    for image in ("v0.19.1", f"v0.19.1@sha256:{SHA[OLD]}"):
        repo.commit({"Dockerfile": f"FROM vllm/vllm-openai:{image}\n"})
    assert versions(gate, "--base", "HEAD~1")["moved"] == []


def test_another_digest_of_the_same_tag_is_a_version_that_nobody_names(gate, repo):
    """Renovate's `update digest`: the same tag, and another image."""
    for digest in (SHA[OLD], SHA[NEW]):
        repo.commit({"Dockerfile": f"FROM vllm/vllm-openai:v0.19.1@sha256:{digest}\n"})
    done = gate("ci", "versions", "--base", "HEAD~1", "--format", "json")
    assert (done.code, done.json["outcome"]) == (3, "unknown")


def test_another_package_of_the_same_change_moves_nothing(gate, repo):
    """Dependabot's groups."""
    text = "torch=={}\nvllm==0.19.1\nvllm-lens=={}\ntransformers=={}\n"
    repo.commit({"requirements.txt": text.format("2.9.0", "1.0", "5.0")})
    repo.commit({"requirements.txt": text.format("2.10.0", "1.1", "5.1")})
    assert versions(gate, "--base", "HEAD~1")["moved"] == []


def test_several_versions_by_marker_move_each_by_itself(gate, repo):
    text = 'vllm==0.8.5; python_version < "3.10"\nvllm=={}; python_version >= "3.10"\n'
    repo.commit({"requirements.txt": text.format(OLD)})
    repo.commit({"requirements.txt": "# sorted\n" + text.format(NEW)})
    assert moved(versions(gate, "--base", "HEAD~1")) == [("requirements.txt", 3, OLD, NEW, "moved")]


def test_a_merge_commit_is_compared_with_each_side_that_is_named(gate, repo):
    repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    repo.git("checkout", "--quiet", "-b", "bump")
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"other.txt": "x"})
    repo.git("merge", "--quiet", "--no-ff", "--message", "merge", "bump")
    assert versions(gate, "--base", "HEAD^1")["candidate"] == NEW
    assert versions(gate, "--base", "HEAD^2")["moved"] == []


def test_a_conflict_in_the_working_tree_is_read_as_it_lies_there(gate, repo):
    repo.commit({"requirements.txt": "vllm==0.18.0\n"})
    repo.git("checkout", "--quiet", "-b", "bump")
    repo.commit({"requirements.txt": "vllm==0.32.0\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"requirements.txt": "vllm==0.19.1\n"})
    with pytest.raises(AssertionError):
        repo.git("merge", "--quiet", "bump")
    refused = gate("ci", "versions", "--base", "HEAD~1")
    assert refused.code == 2
    assert "pins moved to different versions" in refused.err
