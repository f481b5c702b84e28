"""Dockerfiles."""

import pytest

from regress_gate.vllm.shell_words import shown


def words(server):
    return [shown(word) for word in server.words]


def test_arguments_variables_and_stages(read_one):
    server = read_one(
        """\
        # syntax=docker/dockerfile:1
        ARG VLLM_VERSION="v0.9.1"
        ARG BASE=vllm/vllm-openai
        FROM ${BASE}:${VLLM_VERSION} AS base
        ENV VLLM_USE_V1=1 \\
            # a comment
            MODEL="org/model"
        ENV OLD style value
        FROM golang:1 AS tool
        RUN go build ./...
        FROM base
        ARG LENGTH=4096
        COPY --from=tool /x /x
        ENTRYPOINT ["vllm", "serve"]
        CMD ["org/model", "--max-model-len", "8192"]
        """,
        "Dockerfile",
    )
    assert (server.name, str(server.version), server.platform) == ("Dockerfile", "0.9.1", "cuda")
    assert words(server) == ["org/model", "--max-model-len", "8192"]
    assert server.env == {"VLLM_USE_V1": "1", "MODEL": "org/model", "OLD": "style value"}
    assert server.where.endswith("Dockerfile:14")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('FROM vllm/vllm-openai:v0.9.1\nCMD ["--model", "m"]', ["--model", "m"]),
        (
            "FROM vllm/vllm-openai:v0.9.1\nENV M=x\nENTRYPOINT exec vllm serve $M --port ${PORT:-1}",
            ["x", "--port", "1"],
        ),
        (
            'FROM vllm/vllm-openai:v0.9.1\nENTRYPOINT []\nCMD ["python3", "-m", "vllm.entrypoints.openai.api_server"]',
            [],
        ),
        ("from vllm/vllm-openai:v0.9.1\ncmd vllm serve m \\\n  # why\n  --seed 1", ["m", "--seed", "1"]),
        ("FROM python:3.12\nRUN pip install vllm==0.9.1\nCMD vllm serve m", ["m"]),
        ("FROM python:3.12\nRUN <<EOF\nuv pip install --system vllm==0.9.1\nEOF\nCMD vllm serve m", ["m"]),
        ('FROM python:3.12\nARG V=0.9.1\nRUN apt-get update && \\\n pip install "vllm==${V}"\nCMD vllm serve m', ["m"]),
        ('FROM vllm/vllm-openai:v0.8.0\nRUN pip install -U vllm==0.9.1\nCMD ["--model", "m"]', ["--model", "m"]),
    ],
)
def test_every_way_to_start_the_server(read_one, text, expected):
    server = read_one(text)
    assert (str(server.version), words(server)) == ("0.9.1", expected)


def test_an_image_whose_arguments_are_given_later_is_not_complete(read_one):
    server = read_one("FROM vllm/vllm-openai:v0.9.1\nCOPY template.jinja /t\n")
    assert (str(server.version), server.is_complete) == ("0.9.1", False)
    assert "the image's users give the arguments" in server.notes[0]


@pytest.mark.parametrize(
    ("install", "why"),
    [
        ("pip install git+https://github.com/vllm-project/vllm.git", "a RUN installs vLLM without naming a release"),
        ("pip install -U vllm", "a RUN installs vLLM without naming a release"),
        ("pip install torch", "nothing names the version of vLLM that is installed"),
    ],
)
def test_a_version_that_is_not_named_is_not_known(read_one, install, why):
    assert read_one(f"FROM python:3\nRUN {install}\nCMD vllm serve m").why_no_version == why


def test_a_tag_from_outside_is_not_known(read_one):
    server = read_one('ARG TAG\nFROM vllm/vllm-openai:$TAG\nCMD ["--model", "m"]')
    assert server.why_no_version == "the image's tag is ${TAG}, which is not in the file"
