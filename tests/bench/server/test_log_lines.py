"""Of a dead server's log, the lines that say why."""

import pytest

from regress_gate.bench.server.log_lines import MAX_LENGTH, decisive_lines

CORE = "(EngineCore pid=207) ERROR 11-21 02:16:39 [core.py:1091] "
API = "(APIServer pid=101) "

CHAIN = f"""\
(APIServer pid=101) INFO 11-21 02:16:28 [model.py:549] Resolved architecture: LlamaForCausalLM
(APIServer pid=101) WARNING 11-21 02:16:29 [x.py:1] ImportError: an optional kernel is not there
{CORE}EngineCore failed to start.
{CORE}Traceback (most recent call last):
{CORE}  File "/venv/vllm/v1/engine/core.py", line 1082, in run_engine_core
{CORE}    engine_core = EngineCoreProc(*args, **kwargs)
{CORE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
(EngineCore pid=207) Process EngineCore:
(EngineCore pid=207) Traceback (most recent call last):
(EngineCore pid=207)   File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap
(EngineCore pid=207) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
{API}Traceback (most recent call last):
{API}  File "/venv/bin/vllm", line 10, in <module>
{API}RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
{API}INFO:     Shutting down
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "/venv/pool.py", line 1, in __del__
ImportError: sys.meta_path is None
/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: there appear to be 1 leaked objects
"""


def test_the_cause_comes_before_what_followed_from_it() -> None:
    assert decisive_lines(CHAIN) == (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    )


WRONG_CONFIG = """\
\x1b[0;36m(APIServer pid=1)\x1b[0;0m Traceback (most recent call last):
\x1b[0;36m(APIServer pid=1)\x1b[0;0m pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
\x1b[0;36m(APIServer pid=1)\x1b[0;0m   Value error, Model architectures ['X'] are not supported
"""
DOUBLE = """\
Traceback (most recent call last):
  File x
KeyError: 'rope'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File y
ValueError: bad config
"""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("usage: vllm serve\nvllm: error: unrecognized arguments: --x", "vllm: error: unrecognized arguments: --x"),
        (
            WRONG_CONFIG,
            (
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"
                " | Value error, Model architectures ['X'] are not supported"
            ),
        ),
        ("INFO 11-21 02:16:27 [a.py:1] x\nFatal Python error: Bus error", "Fatal Python error: Bus error"),
        ("sh: 1: vllm: command not found", "sh: 1: vllm: command not found"),
        (DOUBLE, "ValueError: bad config"),
        ("(APIServer pid=1) ERROR 11-21 02:16:39 [x.py:1] the server is unwell\nbye", "the server is unwell"),
        ("first\nlast words\n", "first"),
    ],
)
def test_what_stands_first(text: str, first: str) -> None:
    assert decisive_lines(text)[0] == first


def test_a_consequence_is_told_when_there_is_nothing_else() -> None:
    line = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    assert decisive_lines(f"{CORE}{line}") == (line,)


def test_nothing_is_said_of_nothing() -> None:
    assert decisive_lines("") == ()


def test_secrets_and_control_characters_do_not_leave_the_log() -> None:
    (line,) = decisive_lines("ValueError: token hf_abcdefgh12345 at https://me:pw@host \x07failed, api_key='sk-12'")
    assert line == "ValueError: token *** at https***host failed, api_key=***"


def test_a_line_without_end_is_cut() -> None:
    (line,) = decisive_lines("ValueError: " + "x" * 10**6)
    assert len(line) == MAX_LENGTH + 1
