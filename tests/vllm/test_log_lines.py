"""The lines of a log that say why a server died."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.vllm.log_lines import (
    MAX_BYTES,
    MAX_LENGTH,
    decisive_lines,
    drop_collector,
    engine_died,
    is_consequence,
    read_log_end,
    strip_prefix,
)
from regress_gate.vllm.start_log import read_start_log

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
def test_the_likeliest_cause_is_first(text: str, first: str) -> None:
    assert decisive_lines(text)[0] == first


def test_a_consequence_is_reported_if_there_is_no_cause() -> None:
    line = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    assert decisive_lines(f"{CORE}{line}") == (line,)


def test_an_empty_log_has_no_decisive_lines() -> None:
    assert decisive_lines("") == ()


def test_secrets_and_control_characters_do_not_leave_the_log() -> None:
    (line,) = decisive_lines("ValueError: token hf_abcdefgh12345 at https://me:pw@host \x07failed, api_key='sk-12'")
    assert line == "ValueError: token *** at https://***@host failed, api_key=***"


def test_a_line_without_end_is_cut() -> None:
    (line,) = decisive_lines("ValueError: " + "x" * 10**6)
    assert len(line) == MAX_LENGTH + 1


# Of real servers whose engine was killed with SIGKILL, shortened.
KILLED_0_19_1 = """\
(APIServer pid=30758) ERROR:    Exception in ASGI application
(APIServer pid=30758) Traceback (most recent call last):
(APIServer pid=30758)   File "/venv/lib/python3.11/vllm/renderers/params.py", line 412, in _token_len_check
(APIServer pid=30758)     raise VLLMValidationError(
(APIServer pid=30758) vllm.exceptions.VLLMValidationError: This model's maximum context length is 1024 tokens.
(APIServer pid=30758) INFO:     127.0.0.1:57744 - "POST /v1/completions HTTP/1.1" 404 Not Found
(APIServer pid=30758) INFO:     127.0.0.1:57770 - "GET /health HTTP/1.1" 200 OK
(APIServer pid=30758) ERROR 11-21 07:01:01 [core_client.py:667] Engine core proc EngineCore died unexpectedly, \
shutting down client.
(APIServer pid=30758) ERROR 11-21 07:01:01 [async_llm.py:707] AsyncLLM output_handler failed.
(APIServer pid=30758) ERROR 11-21 07:01:01 [async_llm.py:707] Traceback (most recent call last):
(APIServer pid=30758) ERROR 11-21 07:01:01 [async_llm.py:707]     raise self._format_exception(outputs) from None
(APIServer pid=30758) ERROR 11-21 07:01:01 [async_llm.py:707] vllm.v1.engine.exceptions.EngineDeadError: \
EngineCore encountered an issue. See stack trace (above) for the root cause.
(APIServer pid=30758) INFO:     127.0.0.1:57782 - "GET /health HTTP/1.1" 503 Service Unavailable
(APIServer pid=30758) INFO:     Shutting down
(APIServer pid=30758) INFO:     Finished server process [30758]
/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 \
leaked semaphore objects to clean up at shutdown
  warnings.warn('resource_tracker: There appear to be %d '
"""
KILLED_0_32_0 = """\
INFO:     127.0.0.1:38472 - "GET /health HTTP/1.1" 200 OK
(APIServer pid=27193) INFO 11-21 06:56:03 [utils.py:628] [shutdown] Process manager: send sigterm to process EngineCore
(Worker pid=28239) INFO 11-21 06:56:03 [multiproc_executor.py:843] Parent process exited, terminating worker queues
(APIServer pid=27193) WARNING 11-21 06:56:03 [core_client.py:817] [shutdown] MPClient: engine core exited \
unexpectedly; starting cleanup
(APIServer pid=27193) ERROR 11-21 06:56:03 [async_llm.py:906] AsyncLLM output_handler failed.
(APIServer pid=27193) ERROR 11-21 06:56:03 [async_llm.py:906] Traceback (most recent call last):
(APIServer pid=27193) ERROR 11-21 06:56:03 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: \
EngineCore encountered an issue. See stack trace (above) for the root cause.
INFO:     127.0.0.1:38476 - "GET /health HTTP/1.1" 503 Service Unavailable
INFO:     Application shutdown complete.
nanobind: leaked 4 instances!
 - leaked instance 0x7f99db598c08 of type "triton._C.libtriton.ir.attribute"
See https://nanobind.readthedocs.io/en/latest/refleaks.html/usr/lib/python3.11/multiprocessing/resource_tracker.py:254\
: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown
"""
DEAD = (
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
    "See stack trace (above) for the root cause."
)


def test_an_engine_that_was_killed_is_no_fault_of_a_request_that_failed_before() -> None:
    lines = decisive_lines(KILLED_0_19_1)
    assert lines == (
        DEAD,
        "Engine core proc EngineCore died unexpectedly, shutting down client.",
        "vllm.exceptions.VLLMValidationError: This model's maximum context length is 1024 tokens.",
    )
    assert is_consequence(lines[0])
    assert is_consequence(lines[1])
    assert engine_died(KILLED_0_19_1)


def test_an_engine_that_was_killed_in_newer_words() -> None:
    lines = decisive_lines(KILLED_0_32_0)
    assert lines == (DEAD, "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup")
    assert engine_died(KILLED_0_32_0)
    assert not engine_died(CHAIN)


REFUSED = """\
Triton is installed, but doesn't include CPU backend. Disabling Triton.
usage: vllm [-h] [-v]
            {chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}
            ...
vllm: error: unrecognized arguments: --no-such-flag=7
"""
CHOICE = """\
usage: vllm serve [model_tag] [options]
vllm serve: error: argument --dtype: invalid choice: 'float99' (choose from 'auto', 'bfloat16', 'float', 'half')
"""
TOO_LONG = """\
(APIServer pid=6131) Traceback (most recent call last):
(APIServer pid=6131)   File "/venv/lib/python3.11/site-packages/vllm/config/model.py", line 2146, in get_max_len
(APIServer pid=6131) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
(APIServer pid=6131)   Value error, User-specified max_model_len (999999) is greater than the derived max_model_len
"""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (REFUSED, "vllm: error: unrecognized arguments: --no-such-flag=7"),
        (CHOICE, CHOICE.splitlines()[1]),
        (
            TOO_LONG,
            (
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig | Value error, "
                "User-specified max_model_len (999999) is greater than the derived max_model_len"
            ),
        ),
    ],
)
def test_arguments_that_real_servers_refused(text: str, first: str) -> None:
    assert decisive_lines(text) == (first,)


@pytest.mark.parametrize(
    "unit",
    ["a", "█", "A.", "(", "Exception: ", "://", "\x1b[", "a\n", "Using ", " pid=", "'", "\0", "Traceback\n"],
)
def test_megabytes_of_anything_are_read_in_time(unit: str) -> None:
    text = unit * (2**20 // len(unit))
    assert len(decisive_lines(text)) <= 6
    read_start_log(text)


@given(st.text(max_size=200), st.sampled_from([KILLED_0_19_1, CHAIN, ""]))
def test_whatever_a_log_holds_a_decisive_line_is_one_short_line(noise: str, log: str) -> None:
    for line in decisive_lines(log[:300] + noise + log + noise):
        assert len(line) <= MAX_LENGTH + 1
        assert not any(letter < " " and letter != "\t" for letter in line)


def test_the_end_of_a_log_that_is_too_long_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(500 * 2**20)  # sparse: it takes no room on the disk
        file.seek(0, 2)
        file.write(b"\nlast")
    text = read_log_end(path)
    assert text.endswith("\nlast")
    assert len(text) == MAX_BYTES
    assert read_log_end(tmp_path / "none") == ""


COLLECTED = {
    "docker compose logs": "vllm-1  | {}",
    "docker compose logs --timestamps": "vllm-1  | 2026-11-21T02:11:13.123456789Z {}",
    "kubectl logs --timestamps": "2026-11-21T02:11:13.123456789Z {}",
    "kubectl logs --prefix": "[pod/vllm-0/vllm] {}",
    "kubectl logs --prefix --timestamps": "[pod/vllm-0/vllm] 2026-11-21T02:11:13.123456789Z {}",
    "containerd": "2026-11-21T02:11:13.123456789+01:00 stderr F {}",
    "journalctl": "Nov 21 02:11:13 host vllm[123]: {}",
    "journalctl -o short-iso": "2026-11-21T02:11:13+0100 host vllm[123]: {}",
    "json-file of Docker": '{{"log":"{}\\n","stream":"stderr","time":"2026-11-21T02:11:13.1Z"}}',
    "colours": "\x1b[32m{}\x1b[0m",
}


@pytest.mark.parametrize("collected", COLLECTED.values(), ids=COLLECTED.keys())
def test_what_a_collector_of_logs_puts_around_a_line_is_left_out(collected: str) -> None:
    line = "(APIServer pid=7) INFO 11-21 02:11:13 [utils.py:233] non-default args: {'model': 'm'}"
    assert strip_prefix(collected.format(line)) == "non-default args: {'model': 'm'}"
    assert drop_collector(collected.format(line)) == line


@pytest.mark.parametrize("line", ["| a | b |", "[pod] x", "2026 requests", '{"log": 7}', '{"log": "x', "a | b"])
def test_a_line_that_only_looks_like_a_collected_one_stays(line: str) -> None:
    assert drop_collector(line) == line
