"""`fleet manifests`: what it prints is what Kubernetes takes, and what would go wrong in the cluster is said here."""

import kubernetes_validate
import pytest
import yaml

from tests.cli.conftest import ROOT

IMAGE = ("--image", "registry.example.org/gate:1")
STORE = ("--store-secret", "gate-store")
COMPARE = ("compare", "v0.31.0", "v0.32.0", "--measure", "--suite", "h100-llama8b", "--budget", "4h")
SUITE = """\
name: mine
version: 1
description: Ours.
scenarios:
  - name: chat
    why: one shape
    sees: []
    server: {model: tiny}
    workload: {input_len: 8, output_len: 8, concurrency: 1, num_requests: 8}
"""


@pytest.fixture
def manifests(gate):
    def run(*words):
        return gate("fleet", "manifests", *words)

    return run


@pytest.fixture
def documents(manifests):
    def read(*words):
        shown = manifests(*words)
        assert shown.code == 0, shown.err
        found = list(yaml.safe_load_all(shown.out))
        for document in found:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        return found

    return read


RAY_KEYS = {
    "RayJob": {"apiVersion", "kind", "metadata", "spec"},
    "RayJobSpec": {"entrypoint": str, "shutdownAfterJobFinishes": bool, "rayClusterSpec": dict},
    "RayClusterSpec": {"headGroupSpec": dict, "workerGroupSpecs": list},
    "HeadGroupSpec": {"rayStartParams": dict, "template": dict},
    "WorkerGroupSpec": {
        **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), int),
        "groupName": str,
        "rayStartParams": dict,
        "template": dict,
    },
}
"""What we use of KubeRay's ray.io/v1, with its types (https://ray-project.github.io/kuberay/reference/api/)."""


def check_keys(given, kind):
    assert {key: type(value) for key, value in given.items()} == RAY_KEYS[kind]


def check_pod(template, **more):
    """A pod template is Kubernetes' own, so it is held against the schema of one."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "any"}, "spec": {"template": template}}
    template["spec"] = {"restartPolicy": "Never", **template["spec"], **more}
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)


def pod_of(job):
    return job["spec"]["template"]["spec"]


def variables_of(job):
    return {each["name"]: each["valueFrom"] for each in pod_of(job)["containers"][0]["env"]}


class TestJob:
    def test_it_runs_the_command_on_the_gpus_that_the_suite_needs(self, documents):
        (job,) = documents(*IMAGE, *STORE, "--", *COMPARE)
        (container,) = pod_of(job)["containers"]
        assert job["metadata"]["name"] == "compare-v0-31-0-v0-32-0"
        assert container["image"] == "registry.example.org/gate:1"
        assert container["args"] == [*COMPARE, "--resume-if-any"]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}

    def test_a_verdict_is_not_measured_again_and_a_lost_node_does_not_count(self, documents):
        (job,) = documents(*IMAGE, *STORE, "--", *COMPARE)
        lost, answered = job["spec"]["podFailurePolicy"]["rules"]
        assert (lost["action"], lost["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
        assert (answered["action"], answered["onExitCodes"]["values"]) == ("FailJob", [1, 2, 3, 4, 5])
        assert pod_of(job)["restartPolicy"] == "Never"

    def test_the_testbed_is_the_node_and_secrets_come_from_secrets(self, documents):
        (job,) = documents(*IMAGE, *STORE, "--", *COMPARE)
        variables = variables_of(job)
        assert variables["REGRESS_GATE_TESTBED"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
        assert variables["REGRESS_GATE_STORE"] == {"secretKeyRef": {"name": "gate-store", "key": "url"}}
        assert variables["HF_TOKEN"]["secretKeyRef"]["optional"] is True

    def test_it_may_do_no_more_than_it_needs(self, documents):
        (job,) = documents(*IMAGE, *STORE, "--", *COMPARE)
        pod = pod_of(job)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}

    def test_services_of_the_namespace_set_no_variables_of_vllm(self, documents):
        (job,) = documents(*IMAGE, *STORE, "--", *COMPARE)
        assert pod_of(job)["enableServiceLinks"] is False

    @pytest.mark.parametrize(
        ("suite", "limits"),
        [
            ("h100-llama70b-fp8-tp2", {"nvidia.com/gpu": 2}),
            ("mi300x-llama70b-fp8", {"amd.com/gpu": 1}),
            ("cpu-tiny", None),
        ],
    )
    def test_accelerators_by_suite(self, documents, suite, limits):
        (job,) = documents(*IMAGE, *STORE, "--", "run", "v0.32.0", "--suite", suite)
        container = pod_of(job)["containers"][0]
        assert container.get("resources") == (None if limits is None else {"limits": limits})

    def test_what_is_given_stands_over_what_follows(self, documents):
        given = ("--name", "nightly", "--namespace", "perf", "--gpus", "4", "--resource", "example.com/gpu")
        where = ("--node-label", "gpu=h100", "--volume-claim", "gate-home")
        (job,) = documents(*IMAGE, *given, *where, "--", *COMPARE, "--resume")
        pod = pod_of(job)
        assert (job["metadata"]["name"], job["metadata"]["namespace"]) == ("nightly", "perf")
        assert pod["containers"][0]["resources"]["limits"] == {"example.com/gpu": 4}
        assert pod["containers"][0]["args"] == [*COMPARE, "--resume"]
        assert pod["nodeSelector"] == {"gpu": "h100"}
        assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "gate-home"}
        assert "REGRESS_GATE_STORE" not in variables_of(job)


class TestOnRay:
    def test_a_ray_job_has_the_command_in_its_head_and_the_gpus_on_nodes_of_their_own(self, manifests):
        shown = manifests(*IMAGE, *STORE, "--hosts", 3, "--node-label", "gpu=h100", "--", *COMPARE, "--on", "ray")
        (job,) = yaml.safe_load_all(shown.out)
        assert (job["apiVersion"], job["kind"], set(job)) == ("ray.io/v1", "RayJob", RAY_KEYS["RayJob"])
        check_keys(job["spec"], "RayJobSpec")
        cluster = job["spec"]["rayClusterSpec"]
        check_keys(cluster, "RayClusterSpec")
        head, (hosts,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
        check_keys(head, "HeadGroupSpec")
        check_keys(hosts, "WorkerGroupSpec")
        assert job["spec"]["entrypoint"] == f"regress-gate {' '.join(COMPARE)} --on ray --resume-if-any"
        assert (hosts["replicas"], head["rayStartParams"]) == (3, {"num-cpus": "0"})
        head_pod, host_pod = (group["template"]["spec"] for group in (head, hosts))
        assert "resources" not in head_pod["containers"][0]
        assert "nodeSelector" not in head_pod
        assert host_pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1}
        assert host_pod["nodeSelector"] == {"gpu": "h100"}
        (apart,) = host_pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        labels = hosts["template"]["metadata"]["labels"].items()
        assert set(apart["labelSelector"]["matchLabels"].items()) <= set(labels)
        for group in (head, hosts):
            check_pod(group["template"])

    def test_only_the_head_knows_the_store(self, manifests):
        shown = manifests(*IMAGE, *STORE, "--", *COMPARE, "--on", "ray")
        (job,) = yaml.safe_load_all(shown.out)
        cluster = job["spec"]["rayClusterSpec"]
        groups = cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]
        names = [{each["name"] for each in pod_of({"spec": group})["containers"][0]["env"]} for group in groups]
        assert [name & {"REGRESS_GATE_STORE", "REGRESS_GATE_TESTBED"} for name in names] == [
            {"REGRESS_GATE_STORE", "REGRESS_GATE_TESTBED"},
            {"REGRESS_GATE_TESTBED"},
        ]

    def test_a_job_that_measures_on_another_cluster_takes_no_gpus(self, documents):
        (job,) = documents(*IMAGE, *STORE, "--", *COMPARE, "--on", "ray://head.example.org")
        assert "resources" not in pod_of(job)["containers"][0]
        assert "tolerations" not in pod_of(job)


class TestFiles:
    def test_a_suite_of_ones_own_is_carried_along(self, documents, tmp_path):
        file = tmp_path / "mine.yaml"
        file.write_text(SUITE)
        config_map, job = documents(*IMAGE, *STORE, "--gpus", "0", "--", "run", "v0.32.0", f"--suite={file}")
        assert config_map["data"] == {"mine.yaml": SUITE}
        assert "--suite=/files/mine.yaml" in pod_of(job)["containers"][0]["args"]
        volume = next(each for each in pod_of(job)["volumes"] if each["name"] == "files")
        assert volume["configMap"]["name"] == config_map["metadata"]["name"]

    def test_a_server_of_a_deployment_file_keeps_its_name(self, documents, tmp_path):
        file = tmp_path / "compose.yaml"
        file.write_text("services: {llm: {image: vllm/vllm-openai:v0.31.0}}\n")
        _, job = documents(*IMAGE, *STORE, "--", *COMPARE, "--deployment", f"{file}#llm")
        assert "/files/compose.yaml#llm" in pod_of(job)["containers"][0]["args"]

    def test_an_edited_file_is_another_config_map(self, documents, tmp_path):
        file = tmp_path / "mine.yaml"
        names = []
        for text in (SUITE, SUITE.replace("Ours.", "Ours, edited.")):
            file.write_text(text)
            config_map, _ = documents(*IMAGE, *STORE, "--gpus", "0", "--", "run", "v0.32.0", "--suite", str(file))
            names.append(config_map["metadata"]["name"])
        assert len(set(names)) == 2

    def test_a_secret_in_a_file_goes_nowhere(self, manifests, tmp_path):
        file = tmp_path / "compose.yaml"
        file.write_text("services:\n  llm:\n    environment: {HF_TOKEN: hf_abcdefghijklmnop}\n")
        shown = manifests(*IMAGE, *STORE, "--", *COMPARE, "--deployment", str(file))
        assert shown.code == 2
        assert f"{file}:3: looks like a secret" in shown.err
        assert "hf_abcdefghijklmnop" not in shown.out + shown.err

    def test_two_files_of_one_name(self, manifests, tmp_path):
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "x.log").write_text("line\n")
        files = ("--server-log", str(tmp_path / "a/x.log"), "--collect-env", str(tmp_path / "b/x.log"))
        shown = manifests(*IMAGE, *STORE, "--", *COMPARE, *files)
        assert (shown.code, "two files are called x.log" in shown.err) == (2, True)

    def test_a_file_that_a_config_map_does_not_take(self, manifests, tmp_path):
        file = tmp_path / "big.log"
        file.write_text("x" * 1_000_000)
        shown = manifests(*IMAGE, *STORE, "--", *COMPARE, "--server-log", str(file))
        assert (shown.code, "a ConfigMap takes no more" in shown.err) == (2, True)


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((*IMAGE, "--", *COMPARE), "nothing would be kept: the store goes with the pod"),
            ((*IMAGE, *STORE, "--", "check", "v0.32.0"), "`check` is no command that measures"),
            ((*IMAGE, *STORE, "--", "compare", "v0.31.0", "v0.32.0"), "compare measures only with --measure"),
            ((*IMAGE, *STORE, "--", *COMPARE, "--on", "slurm"), "a pod has no Slurm"),
            ((*IMAGE, *STORE, "--", *COMPARE, "--sute", "x"), "No such option '--sute'"),
            ((*IMAGE, *STORE, "--", "run", "v0.32.0", "--suite", "h100-lama8b"), "no suite 'h100-lama8b' is shipped"),
            ((*IMAGE, *STORE, "--name", "A b", "--", *COMPARE), "--name: a name has 1 to 52"),
            ((*IMAGE, *STORE, "--namespace", "a\nb", "--", *COMPARE), "--namespace: "),
            ((*IMAGE, *STORE, "--node-label", "gpu", "--", *COMPARE), "--node-label: 'gpu' has no value"),
            ((*IMAGE, *STORE, "--node-label", "gpu=a b", "--", *COMPARE), "is no label of a node"),
            (("--image", "a b", *STORE, "--", *COMPARE), "--image: 'a b' is no name of an image"),
        ],
    )
    def test_one_line_says_what_is_wrong(self, manifests, words, said):
        shown = manifests(*words)
        assert shown.code == 2
        assert said in shown.err
        assert shown.err.count("\n") == 1


@pytest.mark.parametrize("name", ["job", "rayjob"])
def test_the_example_is_what_the_command_prints_today(manifests, name):
    text = (ROOT / f"ci/kubernetes/{name}.yaml").read_text()
    header = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("#")]
    command = next(line for line in header if line.startswith("regress-gate fleet manifests"))
    assert manifests(*command.split()[3:]).out == "".join(
        f"{line}\n" for line in text.splitlines() if not line.startswith("#")
    )
