"""What `check` answers for 60 deployments as people run them, in 7 moves each, with the launch line and without.

    python benchmarks/check_table.py --answers AFTER.json
    python benchmarks/check_table.py --before BEFORE.json --after AFTER.json --write benchmarks/results/check_table.md

The answers of an older state of the program come from a worktree of its commit, by this script:

    git worktree add ../before 889e0d3
    PYTHONPATH=../before python benchmarks/check_table.py --answers BEFORE.json

A green was earned if every release of the move was reviewed for the platform and the candidate takes the launch line,
as far as is known today: coverage.yaml, and the launch lines that the newest answers refuse. Issues that may apply are
counted as `check` counts them: apart are those below high that one source settles together (the launch line, or
`--collect-env`), which have no line of their own. No network is used, and no store. Four launch lines carry what
people carry along: flags of the past, and one that never was.
"""

import argparse
import io
import json
import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

MOVES = (
    ("0.18.1", "0.19.1"),
    ("0.19.1", "0.20.0"),
    ("0.23.0", "0.24.0"),
    ("0.26.0", "0.28.0"),
    ("0.28.0", "0.29.0"),
    ("0.32.0", "0.33.0"),
    ("0.19.1", "0.33.0"),
)
WITH, WITHOUT = "with launch line", "without"


@dataclass(frozen=True, slots=True)
class Row:
    """A deployment: its accelerator, the quantization of its weights, and its launch line after `vllm serve`."""

    accelerator: str
    quantization: str
    line: str

    @property
    def model(self) -> str:
        return next(part for part in self.line.split() if not part.startswith("-") and "=" not in part)


def rows(accelerator: str, *lines: tuple[str, str]) -> list[Row]:
    return [Row(accelerator, quantization, line) for quantization, line in lines]


EAGLE3 = '{"method":"eagle3","model":"yuhuili/EAGLE3-LLaMA3.3-Instruct-70B","num_speculative_tokens":3}'
DEPLOYMENTS = [
    *rows(
        "H100",
        ("none", "meta-llama/Llama-3.1-8B-Instruct --max-model-len 16384"),
        ("none", "meta-llama/Llama-3.3-70B-Instruct -tp 4 --max-model-len 32768 --gpu-memory-utilization 0.92"),
        ("fp8", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic -tp 2 --max-num-seqs 256"),
        ("none", "Qwen/Qwen2.5-72B-Instruct -tp 4 --enable-prefix-caching --disable-log-requests"),
        ("fp8", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8 -tp 8 --enable-expert-parallel --max-model-len 65536"),
        ("none", "Qwen/Qwen3-32B -tp 2 --reasoning-parser qwen3 --enable-auto-tool-choice --tool-call-parser hermes"),
        ("mxfp4", "openai/gpt-oss-120b -tp 2 --tool-call-parser openai --enable-auto-tool-choice"),
        ("mxfp4", "openai/gpt-oss-20b --max-num-seqs 128 --async-scheduling"),
        ("none", "mistralai/Mixtral-8x7B-Instruct-v0.1 -tp 2"),
        ("none", "meta-llama/Llama-3.1-8B-Instruct --enable-lora --max-loras 4 --max-lora-rank 32"),
        ("none", "Qwen/Qwen2.5-VL-7B-Instruct --max-model-len 32768 --max-num-seqs 64"),
        ("none", "google/gemma-3-27b-it -tp 2 --max-model-len 32768"),
        (
            "none",
            "meta-llama/Llama-3.3-70B-Instruct -tp 4 --speculative-config " + EAGLE3,
        ),
    ),
    *rows(
        "H200",
        ("fp8", "deepseek-ai/DeepSeek-R1 -tp 8 --enable-expert-parallel --max-model-len 65536"),
        ("fp8", "deepseek-ai/DeepSeek-V3.1 -tp 8 --kv-cache-dtype fp8 --max-num-seqs 256"),
        ("fp8", "deepseek-ai/DeepSeek-V3.2 -dp 8 --enable-expert-parallel --max-model-len 131072"),
        ("none", "mistralai/Mixtral-8x22B-Instruct-v0.1 -tp 8"),
        ("fp8", "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 -tp 8 --enable-expert-parallel --max-model-len 131072"),
        ("none", "meta-llama/Llama-4-Maverick-17B-128E-Instruct -tp 8 --max-model-len 131072"),
        (
            "fp8",
            "zai-org/GLM-4.6-FP8 -tp 8 --tool-call-parser glm45 --reasoning-parser glm45 --enable-auto-tool-choice",
        ),
        ("none", "Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --max-model-len 65536"),
        ("fp8", "MiniMaxAI/MiniMax-M2 -tp 4 --enable-expert-parallel --trust-remote-code"),
        ("none", "Qwen/Qwen3-Embedding-8B --convert embed --max-model-len 8192"),
    ),
    *rows(
        "A100",
        ("none", "meta-llama/Llama-3.1-70B-Instruct -tp 4 --max-model-len 16384"),
        ("awq_marlin", "Qwen/Qwen2.5-72B-Instruct-AWQ -tp 2 --quantization awq_marlin"),
        ("gptq_marlin", "TheBloke/Llama-2-70B-Chat-GPTQ -tp 2 --quantization gptq_marlin"),
        ("none", "mistralai/Mistral-7B-Instruct-v0.3 --max-num-sequences 256"),
        ("none", "Qwen/Qwen2.5-Coder-32B-Instruct -tp 2 --enable-chunked-prefill --max-num-partial-prefills 2"),
        ("none", "Qwen/Qwen2-VL-7B-Instruct --max-num-seqs 32"),
        ("none", "microsoft/phi-4 --max-model-len 16384"),
    ),
    *rows(
        "L40S",
        ("none", "meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --gpu-memory-utilization 0.9"),
        ("fp8", "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8 -tp 4 --kv-cache-dtype fp8"),
        ("none", "Qwen/Qwen3-14B --max-model-len 32768 --guided-decoding-backend xgrammar"),
        ("awq_marlin", "Qwen/Qwen2.5-32B-Instruct-AWQ --max-model-len 16384"),
    ),
    *rows(
        "RTX 4090",
        ("awq_marlin", "Qwen/Qwen3-14B-AWQ --max-model-len 16384 --gpu-memory-utilization 0.95"),
        ("none", "meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --enforce-eager"),
        ("compressed-tensors", "cyankiwi/gemma-4-26B-A4B-it-AWQ-4bit --max-model-len 16384"),
        ("gptq_marlin", "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4 -tp 2 --disable-custom-all-reduce"),
    ),
    *rows("RTX PRO 6000", ("fp8", "Qwen/Qwen3.6-27B-FP8 --max-model-len 131072 --kv-cache-dtype fp8")),
    *rows(
        "B200",
        ("fp8", "deepseek-ai/DeepSeek-R1-0528 -tp 8 --enable-expert-parallel"),
        ("nvfp4", "nvidia/DeepSeek-R1-FP4 -tp 4 --kv-cache-dtype fp8"),
        ("none", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16 -tp 8 --trust-remote-code"),
        ("mxfp4", "openai/gpt-oss-120b --max-num-seqs 512"),
        ("fp8", "zai-org/GLM-5-FP8 -tp 8 --enable-expert-parallel"),
    ),
    *rows(
        "MI300X",
        ("fp8", "deepseek-ai/DeepSeek-R1 -tp 8 --max-model-len 32768"),
        ("none", "meta-llama/Llama-3.1-70B-Instruct -tp 4"),
        ("fp8", "zai-org/GLM-4.7-FP8 -tp 8"),
        ("none", "mistralai/Mixtral-8x7B-Instruct-v0.1 -tp 1"),
        ("none", "Qwen/Qwen3-30B-A3B-Instruct-2507 --max-model-len 65536"),
        ("fp8", "Qwen/Qwen3-235B-A22B-FP8 -tp 4 --enable-expert-parallel"),
    ),
    *rows(
        "MI325X",
        ("fp8", "MiniMaxAI/MiniMax-M2.5 -tp 4"),
        ("none", "meta-llama/Llama-3.3-70B-Instruct -tp 2 --kv-cache-dtype fp8"),
    ),
    *rows(
        "cpu",
        ("none", "meta-llama/Llama-3.2-3B-Instruct --max-model-len 4096 --dtype bfloat16"),
        ("none", "Qwen/Qwen3-0.6B --max-model-len 2048 --max-num-seqs 16"),
        ("none", "facebook/opt-125m"),
    ),
    *rows(
        "Ascend 910B3",
        ("none", "Qwen/Qwen3-8B --max-model-len 16384"),
        ("w8a8", "vllm-ascend/DeepSeek-V3.1-W8A8 -tp 16 --enable-expert-parallel --quantization ascend"),
    ),
    *rows("Gaudi3", ("none", "meta-llama/Llama-3.1-8B-Instruct --block-size 128")),
    *rows("Arc Pro B60", ("none", "Qwen/Qwen3-8B -tp 2 --enforce-eager --block-size 64")),
    *rows("TPU v6e", ("none", "meta-llama/Llama-3.1-8B-Instruct --max-model-len 4096 -tp 4")),
]


def answers(numbers: Collection[int] = range(len(DEPLOYMENTS))) -> list[dict[str, Any]]:
    """One answer for each of these deployments, move and way to describe it."""
    from regress_gate.app import known_issues
    from regress_gate.cli.main import run

    # Reading the records takes most of the time of a check.
    known_issues.load_records = cache(known_issues.load_records)
    given = []
    for number, row in ((number, DEPLOYMENTS[number]) for number in numbers):
        facts = ["--accelerator", row.accelerator, "--model", row.model, "--quantization", row.quantization]
        for way, more in ((WITH, ["--serve-command", _shell(row.line)]), (WITHOUT, [])):
            for base, candidate in MOVES:
                command = ["check", candidate, "--from", base, *facts, *more, "--format", "json"]
                result = _answer(run, command)
                found = result.get("known_issues", [])
                given.append(
                    {
                        "row": number,
                        "way": way,
                        "move": [base, candidate],
                        "decision": result.get("decision", f"error {result['exit_code']}"),
                        "exit_code": result["exit_code"],
                        "reasons": sorted({reason["code"] for reason in result.get("reasons", ())}),
                        "may_apply": sum(one["applies"] == "unknown" for one in found),
                        "to_read": _to_read(result),
                        "applies": sum(one["applies"] == "yes" for one in found),
                        "missing": [one["missing"] or [one["why"]] for one in found if one["applies"] == "unknown"],
                        "ids": [one["id"] for one in found if one["applies"] == "unknown"],
                    }
                )
    return given


def _to_read(result: dict[str, Any]) -> int:
    """Issues that may apply and have a line of their own; in older states of the program all of them."""
    may_apply = sum(one["applies"] == "unknown" for one in result.get("known_issues", ()))
    try:
        from regress_gate.model.result import Result
        from regress_gate.report.views.issues_view import issues_counted_together

        read = Result.model_validate(result)
    except (ImportError, ValueError):
        return may_apply
    return may_apply - sum(map(len, issues_counted_together(read).values()))


def _shell(line: str) -> str:
    return "vllm serve " + " ".join(shlex.quote(part) for part in line.split())


def _answer(run: Any, arguments: list[str]) -> dict[str, Any]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            run(arguments)
    except SystemExit as ended:
        out.flush()
        text = out.buffer.getvalue().decode()
        return json.loads(text) if text else {"exit_code": int(ended.code or 0), "error": err.getvalue()}
    raise AssertionError("the program returned without an exit code")


def earned(row: int, base: str, candidate: str) -> bool:
    """Whether every release of the move was reviewed for the platform, as far as coverage.yaml says today."""
    from regress_gate.accelerators.registry import identify
    from regress_gate.known.records.coverage import assess_coverage, load_coverage
    from regress_gate.known.records.releases import shipped_releases
    from regress_gate.model.version import Version

    sides = Version.parse(base), Version.parse(candidate)
    platform = identify(DEPLOYMENTS[row].accelerator).platform
    return assess_coverage(load_coverage(), shipped_releases(), platform, *sides, ()).covered


def report(states: dict[str, list[dict[str, Any]]]) -> str:
    """The table for people: a summary, then one line for each deployment."""
    lines = [
        "# What check answers: 60 deployments, 7 moves",
        "",
        "Made by `python benchmarks/check_table.py --before BEFORE.json --after AFTER.json`; the script says how the",
        f"answers are made, on {datetime.now(UTC).date()}. Before is commit 889e0d3. P pass, F fail, I inconclusive, E",
        "refused: the answers to the seven moves with the launch line. May apply: known issues that need more facts,",
        "mean of the checks; apart are those that one source settles together, as `check` counts them.",
        "",
        "| | " + " | ".join(states) + " |",
        "|---|" + "---|" * len(states),
    ]
    for title, cell in _summary(states):
        lines.append(f"| {title} | " + " | ".join(cell) + " |")
    lines += [
        "",
        "| move | " + " | ".join(f"{name}: P / F / I" for name in states) + " |",
        "|---|" + "---|" * len(states),
    ]
    for move in MOVES:
        cells = []
        for given in states.values():
            counts = Counter(one["decision"] for one in given if one["way"] == WITH and tuple(one["move"]) == move)
            cells.append(f"{counts['pass']} / {counts['fail']} / {counts['inconclusive']}")
        lines.append(f"| {' → '.join(move)} | " + " | ".join(cells) + " |")
    names = " | ".join(f"{name} | may apply" for name in states)
    lines += ["", f"| deployment (`vllm serve …`) | {names} |", "|---|" + "---|---|" * len(states)]
    for number, row in enumerate(DEPLOYMENTS):
        cells = []
        for given in states.values():
            own = [one for one in given if one["row"] == number and one["way"] == WITH]
            letters = "".join(one["decision"][0].upper() for one in own)
            cells.append(f"{letters} | {mean_to_read(own, WITH):.1f}")
        lines.append(f"| {row.accelerator}: `{row.line}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def mean_to_read(given: list[dict[str, Any]], way: str) -> float:
    """Issues in a line of their own, mean of the checks of one way to describe a deployment."""
    own = [one.get("to_read", one["may_apply"]) for one in given if one["way"] == way]
    return sum(own) / len(own)


def _summary(states: dict[str, list[dict[str, Any]]]) -> list[tuple[str, list[str]]]:
    summary: list[tuple[str, list[str]]] = []
    for decision in ("pass", "fail", "inconclusive"):
        title = f"{decision}, of {len(DEPLOYMENTS) * len(MOVES)} with launch line"
        counts = [sum(one["decision"] == decision and one["way"] == WITH for one in given) for given in states.values()]
        summary.append((title, list(map(str, counts))))
    greens = [[one for one in given if one["decision"] == "pass" and one["way"] == WITH] for given in states.values()]
    newest = list(states.values())[-1]
    refused = {(one["row"], *one["move"]) for one in newest if "launch_line" in one["reasons"]}
    kept = [
        sum((one["row"], *one["move"]) not in refused and earned(one["row"], *one["move"]) for one in given)
        for given in greens
    ]
    summary.append(("greens that were earned", [f"{k} of {len(g)}" for k, g in zip(kept, greens, strict=True)]))
    for code in ("not_covered", "launch_line", "known_issue", "undecided"):
        counts = [sum(code in one["reasons"] and one["way"] == WITH for one in given) for given in states.values()]
        summary.append((f"reason `{code}`", list(map(str, counts))))
    for way in (WITH, WITHOUT):
        own = [[one for one in given if one["way"] == way] for given in states.values()]
        every = [sum(one["may_apply"] for one in given) / len(given) for given in own]
        read = [mean_to_read(given, way) for given in states.values()]
        summary.append((f"may apply a check, {way}", [f"{mean:.2f}" for mean in read]))
        apart = [f"{mean - alone:.2f}" for mean, alone in zip(every, read, strict=True)]
        summary.append((f"more that one source settles together, {way}", apart))
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, help="write the answers of the installed program there")
    parser.add_argument("--before", type=Path, help="answers of an older state")
    parser.add_argument("--after", type=Path, help="answers of today")
    parser.add_argument("--write", type=Path, help="write the table there, in place of printing it")
    given = parser.parse_args()
    if given.answers:
        target = given.answers.absolute()
        with tempfile.TemporaryDirectory() as empty, chdir(empty):
            # Neither the user's store nor what was fetched before counts.
            os.environ |= {f"XDG_{kind}_HOME": empty for kind in ("CACHE", "CONFIG", "DATA", "STATE")}
            target.write_text(json.dumps(answers()), encoding="utf-8")
        return 0
    files = {"before": given.before, "after": given.after}
    text = report({name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items() if path})
    if given.write:
        given.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
