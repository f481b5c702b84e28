"""Values of Helm charts."""

import json

import pytest

from regress_gate.vllm.shell_words import shown

STACK = """\
servingEngineSpec:
  runtimeClassName: ""
  vllmApiKey: {secretName: s, secretKey: k}
  modelSpec:
    - name: llama
      repository: vllm/vllm-openai
      tag: v0.9.1
      modelURL: meta-llama/Llama-3.1-8B-Instruct
      replicaCount: 2
      requestGPU: 1
      hf_token: hf_abcdefghijklmnop
      enableTool: true
      toolCallParser: llama3_json
      vllmConfig:
        enableChunkedPrefill: false
        enablePrefixCaching: true
        maxModelLen: 16384
        tensorParallelSize: 1
        gpuMemoryUtilization: 0.90
        extraArgs: ["--disable-log-requests", "--swap-space", 0]
      lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "60"}
      env:
        - {name: VLLM_LOGGING_LEVEL, value: DEBUG}
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    - name: prefill
      repository: lmcache/vllm-openai
      tag: v0.3.9
      modelURL: org/model
      requestGPU: 1
      vllmConfig: {reasoningParser: x}
routerSpec:
  repository: lmcache/lmstack-router
  tag: latest
  extraArgs: [--x]
"""


def words(server):
    return [shown(word) for word in server.words]


def test_the_values_of_production_stack(read):
    llama, prefill = read(STACK, "values.yaml")
    assert (llama.name, str(llama.version), llama.platform) == ("llama", "0.9.1", "cuda")
    assert llama.where.endswith("values.yaml:5")
    assert words(llama)[:7] == [
        *("meta-llama/Llama-3.1-8B-Instruct", "--enable-auto-tool-choice", "--tool-call-parser", "llama3_json"),
        *("--no-enable-chunked-prefill", "--enable-prefix-caching", "--max-model-len"),
    ]
    assert words(llama)[7:-2] == [
        *("16384", "--tensor-parallel-size", "1", "--gpu-memory-utilization", "0.90"),
        *("--disable-log-requests", "--swap-space", "0"),
    ]
    assert json.loads(llama.words[-1]) == {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
    assert llama.accelerator == "NVIDIA H100 80GB HBM3"
    assert llama.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert llama.unknown_env == ("HF_TOKEN", "VLLM_API_KEY")
    assert llama.is_complete
    assert prefill.version is None
    assert not prefill.is_complete
    assert "vllmConfig.reasoningParser is not known here: the argument that it makes is left out" in prefill.notes
    assert words(prefill)[1] == "--enable-prefix-caching=${vllmConfig.enablePrefixCaching}"


def test_the_terms_for_the_nodes_of_production_stack_name_the_accelerator(read_one):
    server = read_one(
        """\
    servingEngineSpec:
      modelSpec:
        - name: llama
          repository: vllm/vllm-openai
          tag: v0.9.1
          modelURL: org/model
          requestGPU: 1
          nodeSelectorTerms:
            - matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}]
    """,
        "values.yaml",
    )
    assert server.accelerator == "NVIDIA L4"


def test_the_values_of_modelservice(read):
    prefill, decode = read("""\
    modelArtifacts: {uri: "hf://Qwen/Qwen3-32B", name: Qwen/Qwen3-32B, size: 80Gi}
    routing: {proxy: {image: "ghcr.io/llm-d/llm-d-routing-sidecar:v0.4"}}
    accelerator: {type: nvidia}
    decode:
      create: true
      parallelism: {tensor: 4, data: 2}
      acceleratorTypes: {labelKey: nvidia.com/gpu.product, labelValues: [NVIDIA-H200]}
      containers:
        - name: vllm
          image: ghcr.io/llm-d/llm-d-cuda:v0.5.0
          modelCommand: vllmServe
          args: ["--max-model-len", "32000", "--kv-transfer-config", '{"kv_role":"kv_both"}']
          env: [{name: VLLM_NIXL_SIDE_CHANNEL_HOST, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    prefill:
      containers:
        - image: vllm/vllm-openai:v0.19.1
          modelCommand: custom
          command: [/bin/sh, -c]
          args: ["exec vllm serve Qwen/Qwen3-32B --enforce-eager"]
    """)
    assert words(prefill) == ["Qwen/Qwen3-32B", "--enforce-eager"]
    assert words(decode) == [
        *("Qwen/Qwen3-32B", "--max-model-len", "32000", "--kv-transfer-config", '{"kv_role":"kv_both"}'),
        *("--tensor-parallel-size", "4", "--data-parallel-size", "${parallelism.data}"),
    ]
    assert (decode.name, decode.platform, decode.accelerator) == ("decode", "cuda", "NVIDIA H200")


def test_a_part_that_is_not_created_is_left_out(read_one):
    server = read_one("""\
    modelArtifacts: {uri: "hf://org/m"}
    decode: {containers: [{image: 'vllm/vllm-openai:v0.9.1', modelCommand: imageDefault, args: [--seed, 1]}]}
    prefill: {create: false, containers: [{image: 'vllm/vllm-openai:v0.9.1', modelCommand: vllmServe}]}
    """)
    assert (server.name, words(server)) == ("decode", ["--model", "org/m", "--seed", "1"])


@pytest.mark.parametrize(
    "values",
    [
        "image: {repository: vllm/vllm-openai, tag: v0.9.1}\nextraArgs: [--model, m]",
        "image: {registry: docker.io, repository: vllm/vllm-openai, tag: v0.9.1}\nargs: --model m",
        "vllm:\n  image: vllm/vllm-openai:v0.9.1\n  args: {model: m}",
        "a: {b: [{name: c, image: {repository: vllm/vllm-openai, tag: v0.9.1, command: [vllm, serve, --model, m]}}]}",
        "repository: vllm/vllm-openai\ntag: v0.9.1\nargs: [--model, m]",
    ],
)
def test_any_chart_with_an_image_and_arguments(read_one, values):
    server = read_one(values)
    assert (words(server), str(server.version), server.is_complete) == (["--model", "m"], "0.9.1", False)
    assert "its chart may add arguments: the output of `helm template` has them all" in server.notes
