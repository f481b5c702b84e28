"""Compose files."""

import pytest

from regress_gate.errors import InputError
from regress_gate.vllm.deployment_files import read_deployments
from regress_gate.vllm.shell_words import shown

TWO = """\
x-gpu: &gpu
  deploy:
    resources:
      reservations:
        devices:
          - driver: nvidia
            count: all
            capabilities: [gpu]
  ipc: host

services:
  chat:
    <<: *gpu
    image: vllm/vllm-openai:${VLLM_VERSION:-v0.19.1}
    command: >
      --model ${MODEL}
      --max-model-len ${LENGTH:-8192}
      --served-model-name "chat model"
    environment:
      - HF_TOKEN=${HF_TOKEN}
      - VLLM_USE_V1=1
      - NCCL_DEBUG
    profiles: ["gpu"]
  embed:
    <<: *gpu
    image: vllm/vllm-openai:v0.18.0
    entrypoint: ["python3", "-m"]
    command: ["vllm.entrypoints.openai.api_server", "--model", "org/embed", "--seed", "$$HOME"]
    environment:
      VLLM_LOGGING_LEVEL: INFO
      HF_TOKEN:
  web:
    image: ghcr.io/open-webui/open-webui:main
    environment: {OPENAI_API_BASE_URL: "http://chat:8000/v1"}
"""


def words(server):
    return [shown(word) for word in server.words]


def test_every_service_with_vllm_is_a_server(read):
    chat, embed = read(TWO, "compose.yaml")
    assert (chat.name, str(chat.version), chat.platform) == ("chat", "0.19.1", "cuda")
    assert (embed.name, str(embed.version), embed.platform) == ("embed", "0.18.0", "cuda")
    assert chat.where.endswith("compose.yaml:12")
    assert words(chat) == [
        *("--model", "${MODEL}", "--max-model-len", "8192", "--served-model-name", "chat model"),
    ]
    assert words(embed) == ["--model", "org/embed", "--seed", "$HOME"]
    assert chat.env == {"VLLM_USE_V1": "1"}
    assert chat.unknown_env == ("HF_TOKEN", "NCCL_DEBUG")
    assert embed.env == {"VLLM_LOGGING_LEVEL": "INFO"}
    assert "it starts with the profile gpu only" in chat.notes


def test_variables_come_from_files_beside_it(read, tmp_path):
    (tmp_path / ".env").write_text("# a\nMODEL='org/model'\nexport VLLM_VERSION=v0.18.1 # why\nBROKEN LINE\n")
    (tmp_path / "vllm.env").write_text('VLLM_USE_V1="0"\nVLLM_LOGGING_LEVEL=DEBUG\n')
    text = TWO.replace("    profiles:", "    env_file: [vllm.env, {path: gone.env, required: false}]\n    profiles:")
    chat, _ = read(text, "compose.yaml")
    assert str(chat.version) == "0.18.1"
    assert words(chat)[1] == "org/model"
    assert chat.env == {"VLLM_USE_V1": "1", "VLLM_LOGGING_LEVEL": "DEBUG"}
    assert "the variables in gone.env are not known: it is not beside the file" in chat.notes


def test_a_file_far_away_is_not_read(read, tmp_path):
    far = tmp_path.parent.parent / "far.env"
    text = "services: {a: {image: 'vllm/vllm-openai:v0.9.1', env_file: FILE}}"
    for name in ("/etc/passwd", "../../far.env"):
        (server,) = read(text.replace("FILE", name), "compose.yaml")
        assert (server.env, server.unknown_env) == ({}, ())
    assert not far.exists()


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("{image: 'vllm/vllm-openai:v0.9.1', command: --model m}", ["--model", "m"]),
        ("{image: 'vllm/vllm-openai:v0.9.1', command: [m, -tp, 2]}", ["m", "-tp", "2"]),
        ("{image: 'vllm/vllm-openai:v0.9.1'}", []),
        ("{image: me/x, command: 'bash -c \"vllm serve m --port 1\"'}", ["m", "--port", "1"]),
        ("{build: ., command: vllm serve m}", ["m"]),
        ("{image: 'vllm/vllm-openai:v0.9.1', command: !override [--model, m]}", ["--model", "m"]),
        ("{image: 'opea/vllm:cpu', command: --model $M --device cpu}", ["--model", "${M}", "--device", "cpu"]),
    ],
)
def test_every_way_to_write_a_command(read_one, service, expected):
    assert words(read_one(f"services:\n  a: {service}\n")) == expected


def test_a_script_in_the_entrypoint_knows_the_containers_variables(read_one):
    server = read_one("""\
    services:
      a:
        image: vllm/vllm-openai:v0.9.1
        entrypoint: /bin/sh -c
        command:
          - |
            exec vllm serve $$MODEL \\
              --max-model-len $${LENGTH:-4096}
        environment: {MODEL: org/model}
    """)
    assert words(server) == ["org/model", "--max-model-len", "4096"]


def test_a_service_that_extends_another(read):
    base, other = read("""\
    services:
      base:
        image: vllm/vllm-openai:v0.9.1
        command: --model m
        environment: {A: "1", B: "1"}
      other:
        extends: {service: base}
        command: --model n
        environment: {B: "2"}
      far:
        extends: {file: else.yaml, service: x}
    """)
    assert (base.words, other.words) == (("--model", "m"), ("--model", "n"))
    assert other.env == {"A": "1", "B": "2"}


SERVER = "image: vllm/vllm-openai:v0.19.1"
OWN = f"services:\n  own: {{{SERVER}, command: --model own}}\n"


def project(folder, files):
    """The servers of compose.yaml, beside files by their path."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return read_deployments(str(folder / "compose.yaml"))


def test_included_files_are_read_beside_it(tmp_path):
    far = f"services:\n  far:\n    {SERVER}\n    command: --model ${{NAME}}\n    env_file: .env\n  own: {{}}"
    servers = project(
        tmp_path / "deploy",
        {
            "compose.yaml": "include: [gpu/a.yaml, {path: [b.yaml]}]\n" + OWN,
            "gpu/a.yaml": far,
            "gpu/.env": "NAME=of-its-folder\nVLLM_USE_V1=1",
            "b.yaml": "include: gpu/a.yaml\n" + OWN.replace("own", "near"),
        },
    )
    assert [(server.name, server.words[1]) for server in servers] == [
        ("own", "own"),
        ("far", "of-its-folder"),
        ("near", "near"),
    ]
    assert servers[1].env["VLLM_USE_V1"] == "1"
    assert servers[1].where == str(tmp_path / "deploy/gpu/a.yaml:2")
    assert not any(server.notes for server in servers)


def test_a_service_extends_one_of_another_file(tmp_path):
    base = f"""\
services:
  gpu: {{extends: root, env_file: [x.env]}}
  root: {{{SERVER}, environment: {{VLLM_A: 1, VLLM_B: 1}}}}
"""
    own = "{extends: {file: ../common/base.yaml, service: gpu}, environment: [VLLM_B=2], command: -tp 2}"
    (one,) = project(
        tmp_path / "deploy",
        {
            "compose.yaml": f"services: {{a: {own}}}",
            "../common/base.yaml": base,
            "../common/x.env": "VLLM_C=3\nVLLM_B=0",
        },
    )
    assert (str(one.version), one.words) == ("0.19.1", ("-tp", "2"))
    assert one.env == {"VLLM_A": "1", "VLLM_B": "2", "VLLM_C": "3"}


@pytest.mark.parametrize(
    ("include", "why"),
    [
        ("https://example.com/compose.yaml", "lies on another machine"),
        ("oci://docker.io/x/y:latest", "lies on another machine"),
        ("git@example.com:x/y.git", "lies on another machine"),
        ("/etc/passwd", "lies outside of"),
        ("../../etc/x.yaml", "lies outside of"),
        ("link.yaml", "lies outside of"),
        ("none.yaml", "is not there"),
        ("broken.yaml", "cannot be read"),
        ("binary.yaml", "cannot be read"),
        ("list.yaml", "is no Compose file"),
        ("x\\0y", "cannot be read"),
        ("compose.yaml", "includes it"),
        ("loop.yaml", "includes it"),
    ],
)
def test_what_is_not_included_is_said(tmp_path, include, why):
    folder = tmp_path / "above" / "deploy"
    folder.mkdir(parents=True)
    outside = tmp_path / "outside.yaml"
    outside.write_text(f"services: {{stolen: {{{SERVER}}}}}")
    (folder / "link.yaml").symlink_to(outside)
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\xfa")
    servers = project(
        folder,
        {
            "compose.yaml": f'include: ["{include}"]\n{OWN}',
            "broken.yaml": "services: {",
            "list.yaml": "- 1",
            "loop.yaml": "include: [compose.yaml]",
        },
    )
    assert [server.name for server in servers] == ["own"]
    assert any(why in note for note in servers[0].notes), servers[0].notes
    assert all("root:" not in note for note in servers[0].notes)


def test_a_file_that_only_includes_says_what_it_does_not_read(tmp_path):
    with pytest.raises(InputError, match=r"no vLLM server found in a Compose file \(it includes oci://x/y, which lies"):
        project(tmp_path, {"compose.yaml": "include: [oci://x/y]"})


def test_files_that_extend_each_other_without_end(tmp_path):
    def one(name, other, file):
        return (
            f"services: {{{name}: {{{SERVER}, command: --model m, extends: {{file: {file}.yaml, service: {other}}}}}}}"
        )

    (server,) = project(tmp_path, {"compose.yaml": one("a", "b", "b"), "b.yaml": one("b", "a", "compose")})
    assert any("it extends itself" in note for note in server.notes)
    assert not server.is_complete


@pytest.mark.parametrize("each_includes_all", [False, True])
def test_many_includes_are_bounded(tmp_path, each_includes_all):
    names = [f"f{number}.yaml" for number in range(80)]
    all_of_them = f"include: [{', '.join(names)}]\n"
    other = all_of_them if each_includes_all else OWN
    (server,) = project(tmp_path, {"compose.yaml": all_of_them + OWN} | dict.fromkeys(names, other))
    assert len(server.notes) == 10
    assert each_includes_all or "is one of more than 50 files" in server.notes[0]


def test_an_image_that_is_built_has_no_version(read_one):
    server = read_one("services: {a: {build: ., image: me/own, command: vllm serve m}}")
    assert server.why_no_version == "the image is built from a Dockerfile, which may be given instead"
