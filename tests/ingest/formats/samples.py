"""A small valid file of every generation of every format, for the tests that all formats must pass.

Key: `format/generation`. Value: the file's name, what makes its bytes, and the files that lie beside it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tests.factories.serve_results import console, detailed, made_up, plain, pooling, script_0_6_2, script_0_6_4
from tests.ingest.formats import aiperf_results as aiperf
from tests.ingest.formats import evalscope_results as evalscope
from tests.ingest.formats import gha_results as gha
from tests.ingest.formats import guidellm_results as guidellm
from tests.ingest.formats import inference_perf_results as inference_perf
from tests.ingest.formats import inferencex_results as inferencex
from tests.ingest.formats import llm_d_results as llm_d
from tests.ingest.formats import llmperf_results as llmperf
from tests.ingest.formats import long_tables, mlperf_results
from tests.ingest.formats import sglang_results as sglang
from tests.ingest.formats import vllm_family as vllm


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    make: Callable[[], bytes]
    beside: Mapping[str, bytes] = field(default_factory=dict)


SAMPLES: dict[str, Sample] = {
    "vllm-latency/all": Sample("latency.json", lambda: vllm.as_bytes(vllm.latency(model_id=vllm.MODEL))),
    "vllm-throughput/all": Sample("throughput.json", lambda: vllm.as_bytes(vllm.throughput(model_id=vllm.MODEL))),
    "vllm-startup/0.13": Sample(
        "startup_tiny.json",
        lambda: vllm.as_bytes(vllm.startup()),
        {"startup_tiny.commands": vllm.as_bytes({"startup_command": f" vllm bench startup --model {vllm.MODEL}"})},
    ),
    "vllm-serve/0.6.2": Sample("r.json", lambda: vllm.as_bytes(script_0_6_2(made_up(5)))),
    "vllm-serve/0.6.4": Sample("r.json", lambda: vllm.as_bytes(script_0_6_4(made_up(5)))),
    "vllm-serve/0.9": Sample("r.json", lambda: vllm.as_bytes(detailed(made_up(5)))),
    "vllm-serve/pooling": Sample("r.json", lambda: vllm.as_bytes(pooling(made_up(5)))),
    "vllm-serve-console/any": Sample("issue.md", lambda: f"model='org/tiny'\n{console(made_up(5))}".encode()),
    "vllm-sweep/0.11.1": Sample(
        "summary.json", lambda: vllm.as_bytes([plain(made_up(number), run_number=number) for number in range(2)])
    ),
    "vllm-serve/ci": Sample(
        f"{vllm.TEST}.json",
        lambda: vllm.as_bytes(plain(made_up(4))),
        {f"{vllm.TEST}.commands": vllm.as_bytes(vllm.commands())},
    ),
    "pytorch-hud/serve": Sample("result.pytorch.json", lambda: vllm.as_bytes(vllm.hud_serve())),
    "pytorch-hud/latency": Sample("latency.pytorch.json", lambda: vllm.as_bytes(vllm.hud_latency())),
    "pytorch-hud/throughput": Sample("throughput.pytorch.json", lambda: vllm.as_bytes(vllm.hud_throughput())),
    "pytorch-hud/startup": Sample("s.cold_startup.pytorch.json", lambda: vllm.as_bytes(vllm.hud_startup())),
    "vllm-ci-table/rows": Sample("benchmark_results.json", lambda: vllm.as_bytes(vllm.table())),
    "vllm-ci-table/columns": Sample("benchmark_results.json", lambda: vllm.as_bytes(vllm.old_table())),
    "perf-eval/row": Sample("row.json", lambda: vllm.as_bytes(vllm.perf_row())),
    "perf-eval/dashboard": Sample("perf_eval.json", lambda: vllm.as_bytes(vllm.dashboard())),
    "vllm-console-json/rows": Sample("bench.json", lambda: vllm.as_bytes([vllm.harness_row()])),
    "vllm-console-json/quoted": Sample("human_result.json", lambda: vllm.as_bytes(vllm.quoting())),
    "sglang-bench-serving/0.5.2": Sample("sglang_1121.jsonl", lambda: sglang.lines(sglang.old_line())),
    "sglang-bench-serving/0.5.23": Sample(
        "sglang_1121.jsonl", lambda: sglang.lines(sglang.new_line(), sglang.new_line(**sglang.details()))
    ),
    "guidellm/0.3": Sample("benchmarks.json", lambda: guidellm.as_json(guidellm.report("0.3"))),
    "guidellm/0.4": Sample("benchmarks.json", lambda: guidellm.as_json(guidellm.report("0.4"))),
    "guidellm/0.5": Sample("benchmarks.json", lambda: guidellm.as_json(guidellm.report("0.5"))),
    "guidellm/0.8": Sample("benchmarks.json", lambda: guidellm.as_json(guidellm.report("0.8"))),
    "guidellm/sampled": Sample(
        "benchmarks.json", lambda: guidellm.as_json(guidellm.without_requests(guidellm.report("0.8")))
    ),
    "guidellm/yaml": Sample("benchmarks.yaml", lambda: guidellm.as_yaml(guidellm.report("0.3"))),
    "guidellm/csv-0.3": Sample("benchmarks.csv", guidellm.early_csv),
    "guidellm/csv-0.8": Sample("benchmarks.csv", guidellm.later_csv),
    "aiperf/first": Sample("profile_export_aiperf.json", lambda: aiperf.as_json(aiperf.first())),
    "aiperf/0.1": Sample("profile_export_aiperf.json", lambda: aiperf.as_json(aiperf.early())),
    "aiperf/0.13": Sample("profile_export_aiperf.json", lambda: aiperf.as_json(aiperf.later())),
    "aiperf/records": Sample(
        "profile_export.jsonl",
        lambda: aiperf.as_lines(aiperf.records()),
        {"profile_export_aiperf.json": aiperf.as_json(aiperf.later())},
    ),
    "aiperf/csv": Sample("profile_export_aiperf.csv", lambda: aiperf.csv_text(aiperf.AIPERF_CSV).encode()),
    "genai-perf/flat": Sample("profile_export_genai_perf.json", lambda: aiperf.as_json(aiperf.genai())),
    "genai-perf/sections": Sample("profile_export_genai_perf.json", lambda: aiperf.as_json(aiperf.genai_sections())),
    "genai-perf/csv": Sample(
        "profile_export_genai_perf.csv", lambda: aiperf.csv_text(aiperf.GENAI_CSV, title_case=True).encode()
    ),
    "inference-perf/chunks": Sample(
        "stage_0_lifecycle_metrics.json",
        lambda: inference_perf.as_json(inference_perf.stage()),
        {"config.yaml": inference_perf.config(), "manifests.yaml": inference_perf.manifests()},
    ),
    "inference-perf/tokens": Sample(
        "stage_0_lifecycle_metrics.json", lambda: inference_perf.as_json(inference_perf.later())
    ),
    "inference-perf/yaml": Sample(
        "stage_0_lifecycle_metrics.yaml", lambda: inference_perf.as_yaml(inference_perf.later())
    ),
    "llmperf/summary": Sample(f"{llmperf.STEM}_summary.json", lambda: llmperf.as_json(llmperf.summary())),
    "llmperf/responses": Sample(
        f"{llmperf.STEM}_individual_responses.json",
        lambda: llmperf.as_json(llmperf.responses()),
        {f"{llmperf.STEM}_summary.json": llmperf.as_json(llmperf.summary())},
    ),
    "evalscope/1.0": Sample(
        "benchmark_summary.json",
        lambda: vllm.as_bytes(evalscope.seconds()),
        {
            "benchmark_percentile.json": vllm.as_bytes(evalscope.columns()),
            "benchmark_args.json": vllm.as_bytes(evalscope.arguments()),
        },
    ),
    "evalscope/1.14": Sample(
        "benchmark_summary.json",
        lambda: vllm.as_bytes(evalscope.milliseconds()),
        {"benchmark_percentile.json": vllm.as_bytes(evalscope.rows())},
    ),
    "inferencex/node": Sample("agg_a.json", lambda: vllm.as_bytes(inferencex.aggregate())),
    "inferencex/nodes": Sample("agg_b.json", lambda: vllm.as_bytes([inferencex.several_nodes()])),
    "inferencex-decode/all": Sample("big_isl4096.json", lambda: vllm.as_bytes(inferencex.decode())),
    "mlperf/server": Sample(
        "mlperf_log_summary.txt",
        lambda: mlperf_results.SERVER.encode(),
        {"mlperf_log_detail.txt": mlperf_results.DETAIL.encode()},
    ),
    "mlperf/offline": Sample("mlperf_log_summary.txt", lambda: mlperf_results.OFFLINE.encode()),
    "github-action-benchmark/script": Sample("data.js", lambda: gha.script(gha.history(gha.entry(gha.LATENCIES)))),
    "github-action-benchmark/nm-vllm": Sample("data.json", lambda: vllm.as_bytes(gha.nm_vllm())),
    "github-action-benchmark/input": Sample("output.json", lambda: vllm.as_bytes(gha.LATENCIES)),
    "llm-d/0.1": Sample("report.json", lambda: vllm.as_bytes(llm_d.early())),
    "llm-d/0.2": Sample("report.json", lambda: vllm.as_bytes(llm_d.late())),
    "llm-d/yaml": Sample("report.yaml", lambda: llm_d.as_yaml(llm_d.late("guidellm"))),
    "long-table/csv": Sample("table.csv", lambda: long_tables.as_csv(long_tables.rows(testbed="box"))),
    "long-table/json": Sample("table.json", lambda: long_tables.as_json(long_tables.rows(testbed="box"))),
    "long-table/lines": Sample("table.jsonl", lambda: long_tables.as_lines(long_tables.rows(testbed="box"))),
}
# Each is made once: the tests ask for the same bytes a hundred times.
SAMPLES = {key: replace(sample, make=cache(sample.make)) for key, sample in SAMPLES.items()}
