"""Kubernetes manifests."""

import pytest

from regress_gate.vllm.shell_words import shown

DEPLOYMENT = """\
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llama
spec:
  template:
    spec:
      nodeSelector:
        nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
      initContainers:
        - name: download
          image: vllm/vllm-openai:v0.8.5
          command: [vllm, serve, x]
      containers:
        - name: server
          image: vllm/vllm-openai:v0.19.1
          command: ["/bin/sh", "-c"]
          args:
            - |
              export VLLM_USE_V1=1
              vllm serve $MODEL --trust-remote-code \\
                --tensor-parallel-size $(TP) --max-model-len ${LENGTH}
          env:
            - {name: MODEL, value: org/model}
            - {name: TP, value: "2"}
            - name: LENGTH
              valueFrom: {configMapKeyRef: {name: settings, key: length}}
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: hf, key: token}}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
          resources:
            limits: {nvidia.com/gpu: "2", memory: 20Gi}
"""
SETTINGS = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {length: '4096'}\n"


def words(server):
    return [shown(word) for word in server.words]


def test_a_deployment(read_one):
    server = read_one(DEPLOYMENT, "k8s.yaml")
    assert (server.name, str(server.version), server.platform) == ("llama", "0.19.1", "cuda")
    assert server.where.endswith("k8s.yaml:20")
    assert server.accelerator == "NVIDIA H100 80GB HBM3"
    assert words(server) == [
        *("org/model", "--trust-remote-code", "--tensor-parallel-size", "2", "--max-model-len", "${LENGTH}"),
    ]
    assert server.env == {"MODEL": "org/model", "TP": "2", "VLLM_USE_V1": "1"}
    assert server.unknown_env == ("HF_TOKEN", "LENGTH", "POD_IP")


def test_a_config_map_of_the_same_file_gives_values(read_one):
    server = read_one(DEPLOYMENT + SETTINGS)
    assert words(server)[-1] == "4096"
    assert server.env["LENGTH"] == "4096"


def pod(container: str, *, kind: str = "Pod", more: str = "") -> str:
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: p}}\nspec:\n  containers:\n    - {container}\n{more}"


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ("{image: 'vllm/vllm-openai:v0.9.1', args: [--model, m]}", ["--model", "m"]),
        ("{image: 'vllm/vllm-openai:v0.9.1', command: [vllm, serve], args: [m, --a=1]}", ["m", "--a=1"]),
        ("{image: 'vllm/vllm-openai:v0.9.1', args: ['--model=$(M)'], env: [{name: M, value: x}]}", ["--model=x"]),
        ("{image: 'vllm/vllm-openai:v0.9.1', args: ['--model=$(NO)', '$$(X)']}", ["--model=${NO}", "$(X)"]),
        ("{image: 'quay.io/modh/vllm@sha256:0', args: ['--model=/mnt', '--served-model-name={{.Name}}']}",
         ["--model=/mnt", "--served-model-name=${.Name}"]),
        ("{image: 'x/y', command: [python3, -m, vllm.entrypoints.openai.api_server, --model, m]}", ["--model", "m"]),
        ("{command: [vllm, serve], args: [m]}", ["m"]),
        ("{image: 'vllm/vllm-openai:v0.14.1', args: [serve, m, --enable-lora]}", ["m", "--enable-lora"]),
        ("{image: 'a/vllm', command: [bash, -euxc, 'pip install x; vllm serve m']}", ["m"]),
        ("{image: 'a/vllm', command: [/usr/bin/tini, --, vllm, serve, m]}", ["m"]),
    ],
)  # fmt: skip
def test_every_way_to_write_a_command(read_one, container, expected):
    assert words(read_one(pod(container))) == expected


@pytest.mark.parametrize(
    ("resource", "platform"),
    [
        ("nvidia.com/gpu", "cuda"),
        ("nvidia.com/mig-3g.40gb", "cuda"),
        ("amd.com/gpu", "rocm"),
        ("habana.ai/gaudi", "gaudi"),
        ("huawei.com/Ascend910", "ascend"),
        ("google.com/tpu", "tpu"),
        ("gpu.intel.com/i915", "xpu"),
        ("aws.amazon.com/neuron", "other"),
    ],
)
def test_the_platform_follows_from_the_resource(read_one, resource, platform):
    container = f"{{image: me/vllm, command: [vllm, serve, m], resources: {{limits: {{{resource}: 1}}}}}}"
    assert read_one(pod(container)).platform == platform


@pytest.mark.parametrize(
    ("label", "value", "accelerator"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB", "NVIDIA A100 SXM4 80GB"),
        ("nvidia.com/gpu.product", "NVIDIA-L4-SHARED", "NVIDIA L4"),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb", "nvidia h100 80gb"),
        ("cloud.google.com/gke-tpu-accelerator", "tpu-v6e-slice", "TPU v6e slice"),
        ("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM", "AMD Instinct MI300X OAM"),
        ("node.kubernetes.io/instance-type", "p5.48xlarge", "H100"),
        ("node.kubernetes.io/instance-type", "p5en.48xlarge", "H200"),
        ("node.kubernetes.io/instance-type", "a3-ultragpu-8g", "H200"),
        ("node.kubernetes.io/instance-type", "Standard_ND96isr_H100_v5", "H100"),
        ("node.kubernetes.io/instance-type", "m5.large", None),
        ("karpenter.sh/instance-family", "g6e", "L40S"),
    ],
)
def test_the_accelerator_follows_from_the_nodes(read_one, label, value, accelerator):
    one = "{image: 'vllm/vllm-openai:v0.9.1', args: [--model, m]}"
    selector = f"  nodeSelector: {{{label}: {value}}}\n"
    assert read_one(pod(one, more=selector)).accelerator == accelerator
    terms = "nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: In, values: [%s]}]}]"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = f"  affinity: {{nodeAffinity: {{{required}: {{{terms % (label, value)}}}}}}}\n"
    assert read_one(pod(one, more=affinity)).accelerator == accelerator


def test_the_label_of_the_accelerator_goes_before_the_type_of_the_machine(read_one):
    selector = (
        "  nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge, nvidia.com/gpu.product: NVIDIA-H100-NVL}\n"
    )
    one = "{image: 'vllm/vllm-openai:v0.9.1', args: [--model, m]}"
    assert read_one(pod(one, more=selector)).accelerator == "NVIDIA H100 NVL"


@pytest.mark.parametrize(
    ("values", "accelerator"),
    [
        ("NVIDIA-H100, NVIDIA-H200", None),
        ("NVIDIA-L4, NVIDIA-L40S", None),
        ("NVIDIA-H100-80GB-HBM3, NVIDIA-H100-NVL", "NVIDIA H100"),
        ("NVIDIA-H100, NVIDIA-H100-NVL", "NVIDIA H100"),
        ("NVIDIA-H100, '${OTHER}'", None),
    ],
)
def test_nodes_of_two_kinds_give_no_accelerator_and_builds_of_one_part_do(read_one, values, accelerator):
    affinity = (
        "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        f"[{{matchExpressions: [{{key: nvidia.com/gpu.product, operator: In, values: [{values}]}}]}}]}}}}}}\n"
    )
    server = read_one(pod("{image: 'vllm/vllm-openai:v0.9.1', args: [--model, m]}", more=affinity))
    assert server.accelerator == accelerator


def test_a_leader_with_its_workers_is_one_server(read_one):
    server = read_one("""\
    apiVersion: leaderworkerset.x-k8s.io/v1
    kind: LeaderWorkerSet
    metadata: {name: big}
    spec:
      leaderWorkerTemplate:
        leaderTemplate:
          spec:
            containers:
              - name: vllm-leader
                image: vllm/vllm-openai:v0.9.1
                command:
                  - sh
                  - -c
                  - "bash /vllm-workspace/examples/online_serving/multi-node-serving.sh leader
                    --ray_cluster_size=$(LWS_GROUP_SIZE);
                    vllm serve org/big --tensor-parallel-size 8 --pipeline_parallel_size 2"
        workerTemplate:
          spec:
            containers:
              - name: vllm-worker
                image: vllm/vllm-openai:v0.9.1
                command: [sh, -c, "bash /x/multi-node-serving.sh worker --ray_address=$(LWS_LEADER_ADDRESS)"]
    """)
    assert server.name == "big/leader"
    assert words(server) == ["org/big", "--tensor-parallel-size", "8", "--pipeline_parallel_size", "2"]


def test_prefill_and_decode_are_two_servers(read):
    role = """\
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {{name: {0}}}
    spec:
      template:
        spec:
          containers:
            - {{name: proxy, image: 'ghcr.io/llm-d/llm-d-routing-sidecar:v0.4', args: [--vllm-port=8200]}}
            - name: vllm
              image: ghcr.io/llm-d/llm-d-cuda:v0.5.0
              command: [vllm, serve]
              args: [org/model, --kv-transfer-config, '{{"kv_connector":"NixlConnector","kv_role":"{1}"}}']
    """
    prefill, decode = read(role.format("prefill", "kv_producer") + "---\n" + role.format("decode", "kv_consumer"))
    assert (prefill.name, decode.name) == ("prefill/vllm", "decode/vllm")
    assert "kv_producer" in prefill.words[2]
    assert prefill.why_no_version == "the tag 'v0.5.0' of ghcr.io/llm-d/llm-d-cuda need not be vLLM's version"


def test_a_list_in_json_as_kubectl_prints_it(read_one):
    server = read_one(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},'
        '"spec": {"containers": [{"image": "vllm/vllm-openai:v0.9.1", "args": ["--model", "m"]}]}}]}'
    )
    assert (server.name, server.words) == ("p", ("--model", "m"))


def test_a_script_in_a_config_map_is_read(read_one):
    server = read_one(
        pod("{image: 'vllm/vllm-openai:v0.9.1', command: [/bin/bash, /scripts/start.sh]}")
        + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata:\n  start.sh: |\n    vllm serve m --seed 1\n"
    )
    assert words(server) == ["m", "--seed", "1"]


def test_an_inference_service_with_vllms_runtime(read_one):
    server = read_one("""\
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: granite}
    spec:
      predictor:
        model:
          modelFormat: {name: vLLM}
          runtime: vllm-cuda-runtime
          storageUri: hf://ibm/granite
          args: [--max-model-len=4096]
          resources: {limits: {nvidia.com/gpu: '1'}}
    """)
    assert words(server) == ["--max-model-len=4096", "--model", "ibm/granite"]
    assert not server.is_complete


def test_objects_of_ones_own_with_pods_are_read(read):
    text = """\
    apiVersion: workloads.x-k8s.io/v1alpha1
    kind: RoleBasedGroup
    metadata: {name: pd}
    spec:
      roles:
        - name: prefill
          template: {spec: {containers: [{name: v, image: 'vllm/vllm-openai:v0.9.1', args: [--model, m]}]}}
        - name: decode
          template: {spec: {containers: [{name: v, image: 'vllm/vllm-openai:v0.9.1', args: [--model, m]}]}}
    """
    assert [server.name for server in read(text)] == ["pd/prefill", "pd/decode"]
