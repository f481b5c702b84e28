"""No secret of a deployment file is in what is read from it."""

import base64
from textwrap import dedent

import pytest

SECRET = "s3cr3t-Value-0123456789"
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
ENCODED = base64.b64encode(SECRET.encode()).decode()

FILES = {
    "docker run": """
        docker run -e HF_TOKEN=@SECRET@ -e DB_PASSWORD=@SECRET@ -e PLAIN=@TOKEN@ vllm/vllm-openai:v0.9.1 \\
          --model https://user:@SECRET@@hub.example/m?token=@SECRET@ --api-key @SECRET@ --hf-token=@SECRET@ --seed 1
        """,
    "script": """
        export WANDB_API_KEY=@SECRET@
        KEY=@SECRET@
        vllm serve m --api-key $KEY --middleware @TOKEN@
        """,
    "compose": """
        services:
          a:
            image: vllm/vllm-openai:v0.9.1
            command: --model m --api-key @SECRET@ x@SECRET@
            environment: [HF_TOKEN=@SECRET@, "http_proxy=http://u:@SECRET@@proxy:1"]
        """,
    "default": """
        services:
          a:
            image: vllm/vllm-openai:v0.9.1
            command: --model m --api-key ${K:-@SECRET@}
            environment: {HUGGING_FACE_HUB_TOKEN: "${T:-@SECRET@}"}
        """,
    "kubernetes": """
        apiVersion: v1
        kind: Secret
        metadata: {name: s}
        data: {token: @ENCODED@}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: t}
        stringData: {other: @SECRET@2}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
            - image: vllm/vllm-openai:v0.9.1
              args: [--model, m, --seed, @SECRET@, --served-model-name, @SECRET@2]
              env: [{name: API_TOKEN, value: @SECRET@}, {name: A, value: x@SECRET@}, {name: B, value: @ENCODED@}]
        """,
    "json": """
        docker run vllm/vllm-openai:v0.9.1 --model m --kv-transfer-config \\
          '{"kv_role": "kv_both", "kv_connector_extra_config": {"api_key": "@SECRET@"}}'
        """,
    "values": """
        servingEngineSpec:
          vllmApiKey: @SECRET@
          modelSpec:
            - name: a
              repository: vllm/vllm-openai
              tag: v0.9.1
              modelURL: m
              hf_token: @SECRET@
              vllmConfig: {extraArgs: [--api-key, @SECRET@]}
        """,
    "dockerfile": """
        FROM vllm/vllm-openai:v0.9.1
        ENV HF_TOKEN=@SECRET@
        ARG PASSWORD=@SECRET@
        CMD ["--model", "m", "--api-key", "@SECRET@"]
        """,
    "unit": """
        [Service]
        Environment=HF_TOKEN=@SECRET@ X_SECRET=@SECRET@
        ExecStart=vllm serve m --api-key ${HF_TOKEN}
        """,
    "image": "docker run https://u:@SECRET@@r.example/vllm/vllm-openai:v0.9.1 --model m",
}


def with_secrets(text: str) -> str:
    for name, value in (("SECRET", SECRET), ("TOKEN", TOKEN), ("ENCODED", ENCODED)):
        text = text.replace(f"@{name}@", value)
    return dedent(text)


@pytest.mark.parametrize("kind", FILES)
def test_a_secret_is_masked_when_it_is_read(read, kind):
    servers = read(with_secrets(FILES[kind]))
    assert servers
    for secret in (SECRET, TOKEN, ENCODED):
        assert secret not in repr(servers)


def test_what_is_not_secret_stays(read_one):
    server = read_one(
        "docker run -e MAX_TOKENS=100 -e VLLM_USE_V1=1 vllm/vllm-openai:v0.9.1 --model m "
        "--long-prefill-token-threshold 512 --max-num-batched-tokens 8192 --tokenizer t --api-key one two --seed 3"
    )
    assert server.env == {"MAX_TOKENS": "100", "VLLM_USE_V1": "1"}
    assert " ".join(server.words) == (
        "--model m --long-prefill-token-threshold 512 --max-num-batched-tokens 8192 --tokenizer t "
        "--api-key *** *** --seed 3"
    )
