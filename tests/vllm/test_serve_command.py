"""`vllm serve` lines from scripts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from regress_gate.vllm.build_config import Argument, BuildConfig
from regress_gate.vllm.serve_command import MOST_CONFIG_BYTES, parse_serve_command, with_config_file

BUILD = BuildConfig(
    version=Version.parse("0.19.1"),
    arguments={
        "enforce_eager": Argument(flags=("--enforce-eager", "--no-enforce-eager"), values="none"),
        "tensor_parallel_size": Argument(flags=("--tensor-parallel-size", "-tp")),
        "served_model_name": Argument(flags=("--served-model-name",), values="many"),
        "middleware": Argument(flags=("--middleware",), values="many"),
        "compilation_config": Argument(flags=("--compilation-config", "-cc")),
    },
    env={},
    packages={},
)


def read(line: str) -> Deployment:
    return parse_serve_command(line, [BUILD])


def test_a_line_from_a_script() -> None:
    found = read(
        "HF_HUB_OFFLINE=1 VLLM_USE_V1='1' vllm serve meta-llama/Llama-3.1-8B \\\n  --max_model_len=8192 "
        "--gpu-memory-utilization 0.9 --quantization fp8 -tp 2 --enforce-eager --trust-remote-code"
    )
    assert found.model == "meta-llama/Llama-3.1-8B"
    assert found.quantization == "fp8"
    assert found.env == {"HF_HUB_OFFLINE": "1", "VLLM_USE_V1": "1"}
    assert found.engine_args == {
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.9,
        "quantization": "fp8",
        "tensor_parallel_size": 2,
        "enforce_eager": True,
        "trust_remote_code": True,
    }


@pytest.mark.parametrize(
    ("arguments", "engine_args"),
    [
        ("--no-enforce-eager", {"enforce_eager": False}),
        ("--no-enable-chunked-prefill", {"enable_chunked_prefill": False}),
        ("""--compilation-config '{"mode": 3}'""", {"compilation_config": '{"mode": 3}'}),
        ("-cc.mode=3", {"compilation_config.mode": 3}),
        ("--compilation-config.mode 3", {"compilation_config.mode": 3}),
        ("-O3", {"optimization_level": 3}),
        ("-O 2", {"optimization_level": 2}),
        ("""-O '{"level": 3}'""", {"O": '{"level": 3}'}),
        ("-O.level=3", {"O.level": 3}),
        ("--served-model-name a b --seed 1", {"served_model_name": '["a", "b"]', "seed": 1}),
        ("--middleware a --middleware b", {"middleware": '["a", "b"]'}),
        ("--served-model-name a", {"served_model_name": "a"}),
        ("--seed 1 --seed 2", {"seed": 2}),
        ("--some-bias -1.5", {"some_bias": -1.5}),
        ("--chat-template=", {"chat_template": ""}),
    ],
)
def test_every_way_to_write_an_argument(arguments: str, engine_args: dict[str, object]) -> None:
    assert read(f"vllm serve m {arguments}").engine_args == engine_args


def test_a_switch_takes_no_model_away() -> None:
    found = read("/opt/venv/bin/vllm serve --enforce-eager m")
    assert (found.model, found.engine_args) == ("m", {"enforce_eager": True})


def test_the_module_of_old_lines_and_the_model_as_a_flag() -> None:
    found = read("python3 -m vllm.entrypoints.openai.api_server --model m --seed 1")
    assert (found.model, found.engine_args) == ("m", {"seed": 1})


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("vllm bench serve --model m", "no `vllm serve` found; write the line from `vllm serve` on"),
        ("", "no `vllm serve` found"),
        ("vllm serve 'm", "cannot be read: no closing quotation"),
        ("vllm serve m n", "'n' belongs to no argument"),
    ],
)
def test_other_commands_are_refused(line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=r"^--serve-command: ") as error:
        read(line)
    assert complaint in str(error.value)


@given(st.text(max_size=60))
def test_any_line_can_be_parsed(line: str) -> None:
    try:
        found = read(f"vllm serve {line}")
    except InputError:
        return
    assert isinstance(found, Deployment)


class TestConfigFile:
    """As vLLM inserts it: `vllm serve [MODEL]`, the file's arguments, the rest of the line."""

    @pytest.mark.parametrize(
        ("content", "line", "model", "engine_args"),
        [
            ("tensor-parallel-size: 4\n", "vllm serve m --config c.yaml", "m", {"tensor_parallel_size": 4}),
            ("tensor-parallel-size: 4\n", "vllm serve m --config=c.yaml -tp 2", "m", {"tensor_parallel_size": 2}),
            ("tensor-parallel-size: 4\n", "vllm serve m -tp 2 --config c.yaml", "m", {"tensor_parallel_size": 2}),
            ("model: from-file\n", "vllm serve --config c.yaml", "from-file", {}),
            ("model: from-file\n", "vllm serve m --config c.yaml", "m", {}),
            ("enforce-eager: true\n", "vllm serve m --config c.yaml", "m", {"enforce_eager": True}),
            ("enforce-eager: off\n", "vllm serve m --config c.yaml", "m", {}),
            ("served-model-name: [a, b]\n", "vllm serve m --config c.yaml", "m", {"served_model_name": '["a", "b"]'}),
            (
                "compilation-config:\n  mode: 3\n",
                "X=1 vllm serve m --config c.yaml",
                "m",
                {"compilation_config": '{"mode": 3}'},
            ),
            (
                "tensor-parallel-size: 4\n",
                "python -m vllm.entrypoints.openai.api_server --model m --config c.yaml",
                "m",
                {"tensor_parallel_size": 4},
            ),
        ],
    )
    def test_its_arguments_come_before_those_of_the_line(
        self, tmp_path: Path, content: str, line: str, model: str, engine_args: dict[str, object]
    ) -> None:
        (tmp_path / "c.yaml").write_text(content)
        found = read(with_config_file(line, tmp_path))
        assert (found.model, found.engine_args) == (model, engine_args)

    @pytest.mark.parametrize("line", ["vllm serve m -tp 2", "vllm serve m --config none.yaml", "vllm serve m --config"])
    def test_a_line_without_a_file_that_is_here_stays_as_it_was(self, tmp_path: Path, line: str) -> None:
        assert with_config_file(line, tmp_path) == line

    @pytest.mark.parametrize(
        ("name", "content", "complaint"),
        [
            ("c.json", b"{}", "c.json: vLLM takes a file of --config only by the ending .yaml or .yml"),
            ("c.yaml", b"- a\n", "c.yaml: holds no arguments"),
            ("c.yaml", b"a: [1\n", "c.yaml:2: not valid YAML"),
            ("c.yaml", b"a: &x [1]\nb: *x\n", "c.yaml:2: YAML aliases are not supported"),
            ("c.yaml", b"#" * (MOST_CONFIG_BYTES + 1), "c.yaml: is larger than"),
        ],
    )
    def test_a_file_that_cannot_be_read_is_named(
        self, tmp_path: Path, name: str, content: bytes, complaint: str
    ) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as caught:
            parse_serve_command(with_config_file(f"vllm serve m --config {name}", tmp_path), [BUILD])
        assert complaint in str(caught.value)
