"""Manifests for Kubernetes: a measuring command of this tool as a Job, with the local files that it names.

As a RayJob of KubeRay where it measures on the hosts of a Ray cluster. Only documents are made; nothing is sent to a
cluster. Keys are those of Kubernetes' batch/v1 and v1, and of KubeRay's ray.io/v1
(https://ray-project.github.io/kuberay/reference/api/).
"""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from regress_gate.accelerators.registry import default_family, recognise
from regress_gate.errors import ExitCode, InputError
from regress_gate.files import read_bounded
from regress_gate.model.suite import Suite
from regress_gate.redaction import redact
from regress_gate.text import plural

HOME, FILES = "/home/gate", "/files"
"""In the container: what ci/Dockerfile declares as its volume, and where the files of the command are."""
USER_ID = 10001
"""Of the user `gate` in ci/Dockerfile."""
MOST_FILE_BYTES = 900_000
"""Of all files together: a ConfigMap may have 1 MiB (Kubernetes: Concepts, ConfigMaps)."""
RETRIES = 5
"""Starts of the pod beside the first, after a crash of the tool itself. Lost nodes do not count."""
STOPPING_SECONDS = 120
"""Given to stop servers and store what is whole, after SIGTERM."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]{0,300}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and with what the command runs."""

    image: str
    """Container image, made with ci/Dockerfile."""
    name: str
    namespace: str | None = None
    gpus: int | None = None
    """Of the container; None: as many as the suite needs."""
    resource: str | None = None
    """Name under which the cluster has the accelerators; None: by the suite's accelerator."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    store_secret: str | None = None
    """Secret whose key `url` is the URL of the store; None: a store on the volume."""
    volume_claim: str | None = None
    """Volume that keeps the store, the environments and the models; None: they go with the pod."""
    hosts: int | None = None
    """Nodes that measure in a Ray cluster made for the command; None: it runs in one pod."""
    measures_elsewhere: bool = False
    """Whether the command only directs, and the accelerators are in a cluster that it names."""


def job_manifests(command: Sequence[str], suite: Suite, placement: Placement) -> str:
    """The documents in YAML. `command` is that of this tool without its name, as it would be typed here: a word that
    names a file here becomes a file of the container.

    Raises InputError for names that Kubernetes refuses, for files that hold secrets or are too large, and if nothing
    would be kept when the pod is gone.
    """
    _check(placement)
    words, files = _with_files(command)
    make = _job if placement.hosts is None else _ray_job
    documents = [make(words, suite, placement, files)]
    if files:
        documents.insert(0, _config_map(files, placement))
    text: str = yaml.dump_all(documents, Dumper=_ReadableDumper, sort_keys=False, width=120, allow_unicode=True)
    return text


class _ReadableDumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_ReadableDumper.add_representer(str, _ReadableDumper.represent_str)


def _check(placement: Placement) -> None:
    if not _NAME.fullmatch(placement.name):
        what = "a name has 1 to 52 lower-case letters, digits and hyphens, and no hyphen at its ends"
        raise InputError(what, where="--name")
    for flag, name in (
        ("--namespace", placement.namespace),
        ("--store-secret", placement.store_secret),
        ("--volume-claim", placement.volume_claim),
    ):
        if name is not None and not _NAME.fullmatch(name):
            raise InputError(f"{name!r} is no name that Kubernetes takes", where=flag)
    if not _IMAGE.fullmatch(placement.image):
        raise InputError(f"{placement.image!r} is no name of an image", where="--image")
    for key, value in placement.node_labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            raise InputError(f"{key}={value} is no label of a node", where="--node-label")
    if placement.store_secret is None and placement.volume_claim is None:
        raise InputError(
            "nothing would be kept: the store goes with the pod",
            todo="name a secret with the store's URL (--store-secret) or a volume (--volume-claim)",
        )


def _with_files(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command with paths of the container, and name → text of the files that it names."""
    files: dict[str, str] = {}
    sources: dict[str, Path] = {}
    words = []
    for word in command:
        flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        path_text, hash_, part = value.partition("#")
        path = Path(path_text)
        if not path_text or not path.is_file():
            words.append(word)
            continue
        if sources.setdefault(path.name, path.resolve()) != path.resolve():
            raise InputError(f"two files are called {path.name}", where=path_text, todo="rename one of them")
        files[path.name] = _read(path)
        words.append(f"{flag}{equals}{FILES}/{path.name}{hash_}{part}")
    held = sum(len(text.encode()) for text in files.values())
    if held > MOST_FILE_BYTES:
        what = f"{plural(len(files), 'file')} hold {held:,} bytes, and a ConfigMap takes {MOST_FILE_BYTES:,}"
        raise InputError(what, todo="put large files onto the volume, and name them by their paths there")
    return words, files


def _read(path: Path) -> str:
    if not re.fullmatch(r"[\w.-]+", path.name, re.ASCII):
        raise InputError("a ConfigMap takes names of letters, digits, '.', '_' and '-'", where=str(path))
    try:
        content = read_bounded(path, MOST_FILE_BYTES)
        text = None if content is None else content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as text ({error})", where=str(path)) from None
    if text is None:
        what = f"has more than {MOST_FILE_BYTES:,} bytes, and a ConfigMap takes no more"
        raise InputError(what, where=str(path), todo="put it onto the volume, and name it by its path there")
    for number, line in enumerate(text.splitlines(), 1):
        if redact(line) != line:
            raise InputError(
                "looks like a secret, and everybody who reads ConfigMaps would see it",
                where=f"{path}:{number}",
                todo="take it out of the file, and give it to the container as a secret",
            )
    return text


def _config_map(files: Mapping[str, str], placement: Placement) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(placement, _files_name(files, placement)),
        "immutable": True,
        "data": dict(files),
    }


def _files_name(files: Mapping[str, str], placement: Placement) -> str:
    """By content, because the map is immutable and an edited suite is another one."""
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(files.items())).encode()).hexdigest()
    return f"{placement.name}-{digest[:8]}"


def _metadata(placement: Placement, name: str) -> dict[str, Any]:
    namespace = {} if placement.namespace is None else {"namespace": placement.namespace}
    return {"name": name, **namespace, "labels": {"app.kubernetes.io/name": "regress-gate"}}


def _job(words: Sequence[str], suite: Suite, placement: Placement, files: Mapping[str, str]) -> dict[str, Any]:
    """A verdict ends the Job, whichever it is: measuring again until it is another one would be cheating."""
    answers = sorted(int(code) for code in ExitCode if code not in (ExitCode.PASS, ExitCode.INTERRUPTED))
    measures = not placement.measures_elsewhere
    pod = _pod("gate", {"args": list(words)}, suite, placement, files, measures=measures)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(placement, placement.name),
        "spec": {
            "backoffLimit": RETRIES,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "gate", "operator": "In", "values": answers},
                    },
                ]
            },
            "template": _with_labels({"restartPolicy": "Never", **pod}),
        },
    }


def _ray_job(words: Sequence[str], suite: Suite, placement: Placement, files: Mapping[str, str]) -> dict[str, Any]:
    """A cluster of a head, in which the command runs, and of pods on nodes of their own, which measure. It goes with
    the command. KubeRay starts one that has ended anew only if it is told to (`backoffLimit`)."""
    head = _pod("ray-head", {}, suite, placement, files, measures=False)
    without_store = replace(placement, store_secret=None, volume_claim=None)
    worker = _pod("ray-worker", {}, suite, without_store, files, measures=True)
    # A node is a testbed, and has one block at a time.
    label = {"regress-gate/hosts": placement.name}
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": label}}
    worker["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    hosts = placement.hosts
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _metadata(placement, placement.name),
        "spec": {
            "entrypoint": shlex.join(["regress-gate", *words]),
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": _with_labels(head)},
                "workerGroupSpecs": [
                    {
                        "groupName": "hosts",
                        "replicas": hosts,
                        "minReplicas": hosts,
                        "maxReplicas": hosts,
                        "rayStartParams": {},
                        "template": _with_labels(worker, label),
                    }
                ],
            },
        },
    }


def _with_labels(pod: dict[str, Any], labels: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    return {"metadata": {"labels": {"app.kubernetes.io/name": "regress-gate", **labels}}, "spec": pod}


def _pod(
    name: str,
    command: Mapping[str, Any],
    suite: Suite,
    placement: Placement,
    files: Mapping[str, str],
    *,
    measures: bool,
) -> dict[str, Any]:
    """`name` and `command` are of its container; one that `measures` has the accelerators."""
    claim, secret = placement.volume_claim, placement.store_secret
    mounts = [{"name": "home", "mountPath": HOME}, {"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 # nosec B108 - not a temporary file
    volumes: list[dict[str, Any]] = [
        {"name": "home", **({"emptyDir": {}} if claim is None else {"persistentVolumeClaim": {"claimName": claim}})},
        # Processes of one server exchange tensors there, and a container has 64 MiB by default.
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    if files:
        mounts.append({"name": "files", "mountPath": FILES})
        volumes.append({"name": "files", "configMap": {"name": _files_name(files, placement)}})
    resource, count = _accelerators(suite, placement) if measures else ("", 0)
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": STOPPING_SECONDS,
        "automountServiceAccountToken": False,
        # A service that is called vllm would set VLLM_PORT to a URL, and no server would start.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": name,
                "image": placement.image,
                **command,
                "env": _environment(secret),
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": mounts,
                **({"resources": {"limits": {resource: count}}} if count else {}),
            }
        ],
        "volumes": volumes,
    }
    if count:
        pod["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
    if placement.node_labels and measures:
        pod["nodeSelector"] = dict(placement.node_labels)
    return pod


def _environment(store_secret: str | None) -> list[dict[str, Any]]:
    """The testbed is the node: a pod has another name at each start, and its measurements would be nobody's."""
    variables: list[dict[str, Any]] = [
        {"name": "REGRESS_GATE_TESTBED", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}},
    ]
    if store_secret is not None:
        source = {"secretKeyRef": {"name": store_secret, "key": "url"}}
        variables.append({"name": "REGRESS_GATE_STORE", "valueFrom": source})
    return variables


def _accelerators(suite: Suite, placement: Placement) -> tuple[str, int]:
    """The cluster's name of the accelerators, and how many the container needs; 0: none."""
    needed = 0 if suite.accelerator == "cpu" else None if suite.cost is None else suite.cost.gpus
    count = placement.gpus if placement.gpus is not None else needed
    if count is None:
        raise InputError(f"suite {suite.name} does not say how many GPUs it needs", todo="add --gpus")
    if not count:
        return "", 0
    family = default_family() if suite.accelerator is None else recognise(suite.accelerator)[0]
    resource = placement.resource or (None if family is None else family.kubernetes_resource)
    if resource is None:
        what = f"what the cluster calls {suite.accelerator or 'the accelerators'} is not known"
        raise InputError(what, todo="add --resource, such as example.com/gpu")
    return resource, count
