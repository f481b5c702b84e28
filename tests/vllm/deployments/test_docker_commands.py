"""`docker run` lines, scripts and systemd units."""

import pytest

from regress_gate.vllm.shell_words import shown

LINE = """
    docker run -d --rm --runtime nvidia --gpus '"device=0,1"' -itP --name chat \\
        -v ~/.cache/huggingface:/root/.cache/huggingface -p8000:8000 --ipc=host \\
        -e VLLM_USE_V1=1 --env "NCCL_DEBUG=INFO" --env HF_TOKEN --env-file prod.env \\
        docker.io/vllm/vllm-openai:v0.9.1-x86_64 \\
        --model org/model --tensor-parallel-size 2 --compilation-config '{"mode": 3}'
"""


def test_a_docker_run_line(read_one):
    server = read_one(LINE)
    assert server.name == "chat"
    assert server.where.endswith("deploy.txt:2")
    assert str(server.version) == "0.9.1"
    assert server.distribution == "vllm/vllm-openai:v0.9.1-x86_64"
    assert server.platform == "cuda"
    assert server.words == (
        *("--model", "org/model", "--tensor-parallel-size", "2", "--compilation-config", '{"mode": 3}'),
    )
    assert server.is_complete
    assert server.env == {"VLLM_USE_V1": "1", "NCCL_DEBUG": "INFO"}
    assert server.unknown_env == ("HF_TOKEN",)
    assert "the variables in prod.env are not read" in server.notes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("podman run --device nvidia.com/gpu=all vllm/vllm-openai:v0.11.0 org/model -tp 2", "org/model -tp 2"),
        ("sudo docker container run vllm/vllm-openai:v0.9.1 --model m", "--model m"),
        ("docker run --entrypoint vllm vllm/vllm-openai:v0.9.1 serve m --seed 1", "m --seed 1"),
        ("docker run --entrypoint /bin/bash me/image:1 -c 'ulimit -n 9 && exec vllm serve m --seed 1'", "m --seed 1"),
        ("docker run -it rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715 vllm serve m", "m"),
        ("docker run rocm/vllm-dev:x python3 -m vllm.entrypoints.openai.api_server --model m", "--model m"),
        ("docker run $GPU -p 1:1 vllm/vllm-openai:v0.9.1 --model m", "--model m"),
        ("docker run me/vllm-tuned:3 --model m --seed 1", "--model m --seed 1"),
        ("$ docker run vllm/vllm-openai:v0.9.1 --model m", "--model m"),
        ("docker run ^\r\n vllm/vllm-openai:v0.9.1 ^\r\n --model m", "--model m"),
    ],
)
def test_every_way_to_start_a_container(read_one, line, words):
    assert " ".join(read_one(line).words) == words


@pytest.mark.parametrize(
    ("device", "platform"),
    [
        ("--device=/dev/kfd --device=/dev/dri", "rocm"),
        ("--device /dev/davinci0", "ascend"),
        ("--runtime=habana", "gaudi"),
        ("--gpus all", "cuda"),
        ("", None),
    ],
)
def test_the_platform_follows_from_devices(read_one, device, platform):
    assert read_one(f"docker run {device} me/vllm:1 vllm serve m").platform == platform


def test_a_script_with_variables_arrays_and_two_servers(read):
    script = """\
    #!/usr/bin/env bash
    set -euo pipefail
    VERSION=v0.19.1
    IMAGE="vllm/vllm-openai:${VERSION}"
    MODEL=${MODEL:-org/model}
    ARGS=(--max-model-len 8192 --gpu-memory-utilization 0.9)
    if [[ -n "${LONG:-}" ]]; then
      ARGS+=(--enable-chunked-prefill)
    fi
    for gpu in 0 1; do
      docker rm -f old || true
    done
    docker run --gpus all --name first "$IMAGE" --model "$MODEL" "${ARGS[@]}" &
    docker run --gpus all --name second "${IMAGE}" --model "$MODEL" --port $PORT > log 2>&1 &
    """
    first, second = read(script)
    assert (first.name, second.name) == ("first", "second")
    assert {str(first.version), str(second.version)} == {"0.19.1"}
    assert [shown(word) for word in first.words] == [
        *("--model", "org/model", "--max-model-len", "8192", "--gpu-memory-utilization", "0.9", "${ARGS}"),
    ]
    assert [shown(word) for word in second.words] == ["--model", "org/model", "--port", "${PORT}"]


def test_a_server_without_a_container_has_the_version_that_the_script_installs(read_one):
    script = 'uv pip install --system "vllm==0.10.2"\nexport VLLM_USE_V1=1\nCUDA_VISIBLE_DEVICES=0 nohup vllm serve m &'
    server = read_one(script, "serve.sh")
    assert (server.name, str(server.version), server.image) == ("serve", "0.10.2", None)
    assert server.env == {"VLLM_USE_V1": "1", "CUDA_VISIBLE_DEVICES": "0"}


def test_a_version_that_nothing_names_is_said_to_be_unknown(read_one):
    server = read_one("vllm serve m")
    assert server.version is None
    assert server.why_no_version == "nothing names the version of vLLM that is installed"


def test_a_command_in_the_image_that_is_no_server_is_left_out(read):
    script = """\
    docker run vllm/vllm-openai:v0.9.1 --model m
    docker run --entrypoint vllm vllm/vllm-openai:v0.9.1 bench serve --model m
    docker run --entrypoint sleep vllm/vllm-openai:v0.9.1 infinity
    docker exec -it x bash
    docker compose run web
    """
    assert len(read(script)) == 1


def test_a_script_in_the_image_starts_a_server_with_unknown_arguments(read_one):
    server = read_one("docker run --entrypoint /start.sh vllm/vllm-openai:v0.9.1 --fast")
    assert (server.words, server.is_complete, str(server.version)) == ((), False, "0.9.1")
    assert server.notes == ("it starts '/start.sh --fast', which is not in the file: its arguments are not known",)


def test_variables_before_the_command_are_the_servers(read_one):
    server = read_one('env "PATH=/x:$PATH" VLLM_USE_V1=0 setsid /opt/bin/vllm serve m')
    assert server.env == {"VLLM_USE_V1": "0"}
    assert server.unknown_env == ("PATH",)


def test_the_files_that_a_script_writes_are_read(read):
    script = """\
    #!/bin/bash
    IMAGE=vllm/vllm-openai:v0.9.1
    cat > /etc/systemd/system/chat.service <<EOF
    [Unit]
    Description=x

    [Service]
    ExecStart=/usr/bin/docker run --gpus all \\\\
      $IMAGE --model m \\\\
      --max-model-len \\$LENGTH
    EOF
    kubectl apply -f - <<'EOF'
    apiVersion: v1
    kind: Pod
    metadata: {name: embed}
    spec: {containers: [{image: 'vllm/vllm-openai:v0.9.2', args: [--model, $M]}]}
    EOF
    python - <<EOF
    print("vllm serve x")
    EOF
    """
    unit, pod = read(script, "setup.sh")
    assert (str(unit.version), [shown(word) for word in unit.words]) == (
        "0.9.1",
        ["--model", "m", "--max-model-len", "${LENGTH}"],
    )
    assert unit.where.endswith("setup.sh:8")
    assert (pod.name, str(pod.version), [shown(word) for word in pod.words]) == ("embed", "0.9.2", ["--model", "${M}"])
    assert pod.where.endswith("setup.sh:16")


UNIT = """\
[Unit]
Description=vLLM
After=network.target

[Service]
# the cache
Environment=HF_HOME=/data "VLLM_LOGGING_LEVEL=DEBUG"
Environment=MODEL=org/model "ARGS=--max-model-len 8192"
EnvironmentFile=-/etc/vllm.env
ExecStartPre=/usr/bin/docker pull vllm/vllm-openai:v0.9.1
{start}
Restart=always

[Install]
WantedBy=multi-user.target
"""


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (
            "ExecStart=/opt/venv/bin/vllm serve ${MODEL} \\\n    --seed 1 $ARGS",
            "org/model --seed 1 --max-model-len 8192",
        ),
        ("ExecStart=-/opt/bin/python -m vllm.entrypoints.openai.api_server --model ${MODEL}", "--model org/model"),
        ("ExecStart=/bin/bash -lc 'source /v/bin/activate && exec vllm serve org/model'", "org/model"),
        ("ExecStart=/usr/bin/docker run --gpus all vllm/vllm-openai:v0.9.1 --model x", "--model x"),
        ("ExecStart=/bin/true\nExecStart=\nExecStart=vllm serve m --seed 100%%", "m --seed 100%"),
        ("ExecStart=vllm serve m --port %i $EXTRA", "m --port ${%i} ${EXTRA}"),
    ],
)
def test_a_systemd_unit(read_one, start, words):
    server = read_one(UNIT.format(start=start), "chat.service")
    assert [shown(word) for word in server.words] == words.split()
    assert server.name == "chat"
    assert "the variables in /etc/vllm.env are not read" in server.notes
    assert server.where.rpartition(":")[2] == ("13" if "ExecStart=\n" in start else "11")


def test_the_environment_of_a_unit_is_that_of_the_server(read_one):
    env = read_one(UNIT.format(start="ExecStart=vllm serve m")).env
    assert env["VLLM_LOGGING_LEVEL"] == "DEBUG"


def test_a_unit_of_podman(read_one):
    unit = """\
    [Container]
    Image=docker.io/vllm/vllm-openai:v0.19.1
    ContainerName=chat
    AddDevice=nvidia.com/gpu=all
    Environment=VLLM_USE_V1=1
    Exec=--model org/model --max-model-len 4096 --port ${PORT}
    """
    server = read_one(unit, "chat.container")
    assert (server.name, str(server.version), server.platform) == ("chat", "0.19.1", "cuda")
    assert [shown(word) for word in server.words] == [
        *("--model", "org/model", "--max-model-len", "4096", "--port", "${PORT}"),
    ]
    assert server.env == {"VLLM_USE_V1": "1"}
