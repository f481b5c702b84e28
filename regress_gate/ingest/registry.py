"""The formats that are read, one line a reader. Every file is shown to all of them."""

from regress_gate.ingest.formats.aiperf import AiPerf
from regress_gate.ingest.formats.evalscope import Evalscope
from regress_gate.ingest.formats.genai_perf import GenAiPerf
from regress_gate.ingest.formats.github_action_benchmark import GithubActionBenchmark
from regress_gate.ingest.formats.guidellm import GuideLlm
from regress_gate.ingest.formats.inference_perf import InferencePerf
from regress_gate.ingest.formats.inferencex import InferenceX
from regress_gate.ingest.formats.inferencex_decode import InferenceXDecode
from regress_gate.ingest.formats.llm_d import LlmD
from regress_gate.ingest.formats.llmperf import LlmPerf
from regress_gate.ingest.formats.long_table import LongTable
from regress_gate.ingest.formats.mlperf import MlperfLoadgen
from regress_gate.ingest.formats.perf_eval import PerfEval
from regress_gate.ingest.formats.pytorch_hud import PytorchHud
from regress_gate.ingest.formats.sglang_bench_serving import SglangBenchServing
from regress_gate.ingest.formats.vllm_ci_table import VllmCiTable
from regress_gate.ingest.formats.vllm_console_json import BANNER, VllmConsoleJson
from regress_gate.ingest.formats.vllm_offline import VllmLatency, VllmStartup, VllmThroughput
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.formats.vllm_serve_console import VllmServeConsole
from regress_gate.ingest.formats.vllm_sweep import VllmSweepSummary
from regress_gate.ingest.interface import Reader

READERS: tuple[Reader, ...] = (
    VllmServe(),
    VllmSweepSummary(),
    VllmServeConsole(),
    AiPerf(),
    GenAiPerf(),
    InferencePerf(),
    LlmPerf(),
    VllmThroughput(),
    VllmStartup(),
    VllmLatency(),
    VllmConsoleJson(),
    VllmCiTable(),
    PerfEval(),
    PytorchHud(),
    SglangBenchServing(),
    GuideLlm(),
    Evalscope(),
    InferenceX(),
    InferenceXDecode(),
    MlperfLoadgen(),
    GithubActionBenchmark(),
    LongTable(),
    LlmD(),
)

MARKS_IN_TEXTS = (BANNER,)
"""Texts that readers search for inside the values of an object. Apart from these, readers must recognise an object
without nested objects by its keys and the types of its values and list elements alone; recognition.py relies on it."""
