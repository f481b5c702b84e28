"""What is no deployment file is refused in one line with file and line; no file crashes the reader."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.app.deployment_facts import gather_deployment
from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment
from regress_gate.vllm.deployment_files import MAX_BYTES, read_deployment, read_deployments, select_server
from tests.vllm.deployments.test_compose_file import TWO
from tests.vllm.deployments.test_docker_commands import LINE, UNIT
from tests.vllm.deployments.test_helm_values import STACK
from tests.vllm.deployments.test_kubernetes_manifest import DEPLOYMENT, SETTINGS

DOCKERFILE = (
    'ARG V=v0.9.1\nFROM vllm/vllm-openai:$V\nENV A=1\nRUN pip install x\nENTRYPOINT ["vllm", "serve"]\nCMD ["m"]\n'
)
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: vllm
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
"""


def refusal(path: object) -> str:
    with pytest.raises(InputError) as error:
        read_deployments(str(path))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "FILE: is empty"),
        (b"\xef\xbb\xbf  \n", "FILE: is empty"),
        (b"\x7fELF\x00\x01", "FILE: is no text file"),
        (b"caf\xe9: 1", "FILE: is not UTF-8 text"),
        (b"hello world", "FILE: no vLLM server found in this file; give a docker run line"),
        (b"services:\n  a:\n\timage: x", "FILE:3: not valid YAML: a tab indents; write spaces"),
        (b"services:\n  a:\n    image: x\n   command: y", "FILE:4: not valid YAML"),
        (b"services:\n  a: {image: x, image: y}", "FILE:2: the key 'image' is given twice"),
        (b"services: {a: *b}", "FILE:1: "),
        (LAUGHS.encode(), "holds more than 200000 values"),
        (b"a: " + b"[" * 5000, "FILE:1: nested too deeply"),
        (b"x" * (MAX_BYTES + 1), "FILE: is larger than 4 MiB"),
        (b"services: {web: {image: nginx}}", "FILE: no vLLM server found in a Compose file"),
        (b"apiVersion: v1\nkind: Service\nmetadata: {name: a}", "no vLLM server found in Kubernetes manifests"),
        (b"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nimages: []", "run `kubectl kustomize`"),
        (b"docker run nginx", "FILE: no vLLM server found in a script"),
        (b"docker run --gpus all", "FILE: no vLLM server found in a script"),
        (b"[Service]\nExecStart=/bin/true", "FILE: no vLLM server found in a systemd unit"),
        (b"FROM scratch", "FILE: no vLLM server found in a Dockerfile"),
        (TEMPLATE.encode(), "FILE:8: is a template, not a manifest; run `helm template` and give its output"),
        (
            b"{{- if .Values.x }}\napiVersion: v1\n{{- end }}",
            "FILE:1: is a template, not a manifest; run `helm template`",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line_with_file_and_line(tmp_path, content, complaint):
    path = tmp_path / "FILE"
    path.write_bytes(content)
    assert complaint in refusal(path).replace(str(path), "FILE")


def test_a_path_that_is_no_file(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: is a directory; name a file in it"
    assert refusal(tmp_path / "no.yaml") == f"{tmp_path / 'no.yaml'}: cannot be read (No such file or directory)"
    assert "cannot be read" in refusal("x" * 5000)
    assert refusal("/dev/zero") == "/dev/zero: is no regular file"
    assert refusal("a\0b") == "--deployment: is no name of a file"


@pytest.mark.parametrize(
    "text", [TWO, DEPLOYMENT, STACK, LINE, UNIT.format(start="ExecStart=vllm serve m"), DOCKERFILE]
)
def test_line_ends_byte_order_mark_and_encoding_do_not_matter(tmp_path, text):
    path = tmp_path / "deploy"
    path.write_bytes(text.encode())
    expected = read_deployments(str(path))
    assert expected
    for content in (
        text.replace("\n", "\r\n").encode(),
        text.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + text.encode(),
        text.encode("utf-16"),
    ):
        path.write_bytes(content)
        assert read_deployments(str(path)) == expected


def test_one_of_several_servers_is_chosen_by_its_name(tmp_path):
    path = tmp_path / "compose.yaml"
    path.write_text(TWO)
    assert [server.name for server in read_deployment(str(path))] == ["chat", "embed"]
    assert [server.name for server in read_deployment(f"{path}#embed")] == ["embed"]
    with pytest.raises(InputError) as error:
        read_deployment(f"{path}#embedd")
    assert str(error.value) == f"{path}: no server 'embedd' (did you mean 'embed'?)"
    with pytest.raises(InputError) as error:
        select_server(read_deployment(str(path)), str(path))
    assert str(error.value) == f"{path}: holds 2 vLLM servers (chat, embed); name one: --deployment {path}#chat"


def test_a_name_of_a_file_may_have_a_hash(tmp_path):
    path = tmp_path / "a#b.yaml"
    path.write_text(TWO)
    assert len(read_deployment(str(path))) == 2


def test_servers_of_one_name_are_numbered(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text("vllm serve a\nvllm serve b\nvllm serve c\n")
    assert [server.name for server in read_deployments(str(path))] == ["run", "run-2", "run-3"]


SEEDS = (TWO, DEPLOYMENT + SETTINGS, STACK, LINE, UNIT.format(start="ExecStart=vllm serve m $A"), DOCKERFILE)
PIECES = st.sampled_from(
    [
        *(
            "\t",
            "\n",
            "  ",
            ":",
            "- ",
            "{",
            "}",
            "[",
            "]",
            "&a ",
            "*a",
            "<<: ",
            "'",
            '"',
            "\\",
            "$",
            "${",
            "$(",
            "`",
            "|",
        ),
        *("#", "---\n", "\0", "\r", "\ue000", "\ue001", "é", "null", "vllm serve ", "docker run ", "FROM ", "%i"),
        *("[Service]\n", "@-", *string.digits),
    ]
)


@st.composite
def mutated(draw):
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 40)))
        text = text[:at] + draw(st.one_of(PIECES, st.just(text[end : end + 30]))) + text[end:]
    return text


@given(text=mutated())
def test_a_changed_file_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("changed") / "deploy"
    path.write_bytes(text.encode())
    refused = ""
    try:
        for server in read_deployments(str(path)):
            gather_deployment(Deployment(), Deployment(), server=server)
    except InputError as error:
        refused = str(error)
    assert "\n" not in refused


K8S_REFERENCES = """\
apiVersion: v1
kind: Pod
spec:
  containers:
    - image: vllm/vllm-openai:v0.9.1
      env: [{name: A0, value: xxxxxxxxxx}, ENV]
      args: [--model, m]
"""


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\n" + "A=(x x x)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 30 + "vllm serve m ${A[@]}",
        "A=" + "x" * 10_000 + "\nvllm serve m " + "$A" * 20_000,
        "FROM vllm/vllm-openai:v0.9.1\nENV A=xxxxxxxxxx\n" + "ENV A=$A$A\n" * 60 + 'CMD ["--model", "m"]',
        "[Service]\nEnvironment=A=" + "x" * 10_000 + "\nExecStart=vllm serve m " + "${A}" * 20_000,
        "services: {a: {image: 'vllm/vllm-openai:v0.9.1', command: '" + "${A:-" * 5000 + "}" * 5000 + "'}}",
        K8S_REFERENCES.replace(
            "ENV", ", ".join(f"{{name: A{new}, value: $(A{new - 1})$(A{new - 1})}}" for new in range(1, 60))
        ),
        "#!/bin/sh\n" + "cat <<EOF\n" * 10_000,
        "sh -c '" * 3000 + "vllm serve m",
        "eval " * 20_000 + "vllm serve m",
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_grows_when_it_is_read_is_bounded(tmp_path, text):
    path = tmp_path / "deploy"
    path.write_text(text)
    size = 0
    try:
        size = sum(len(repr(server)) for server in read_deployments(str(path)))
    except InputError as error:
        assert "no vLLM server found" in str(error)  # noqa: PT017 - either is right
    assert size < 3_000_000
