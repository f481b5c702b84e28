"""What a run of each GPU suite probably costs: the numbers under `cost` in the shipped suites.

    python benchmarks/suite_cost.py            the table, and whether the suites say the same (exit 1 if not)

Nobody measured these suites, so the minutes come from a model of the machine, and are meant for a budget, not for a
claim. Datasheets give the bandwidth of the memory and the dense arithmetic of each GPU; a server is taken to reach 60 %
of the one and 40 % of the other. A decoding step reads the weights that the batch needs (of a mixture of experts, those
that at least one of its tokens is routed to) and costs 2 ms more for everything else. A prompt costs two operations a
parameter and token, and its attention. An image costs the same in the vision encoder, which reads four patches for each
token that the prompt then has of it. A capacity is taken to be what 64 requests at once get answered; its search is not
part of a run. A start reads the weights from a disk at 2 GB/s and takes a minute more for
compilation and graphs; the sixteen fixed prompts and the stop take another half. Numbers are rounded up to half a
minute. On another disk, or with a cold compilation cache, a start takes minutes longer.
"""

import math
import sys
from dataclasses import dataclass

from measure import Row, report

from regress_gate.bench.experiment.experiment_plan import LEVELS
from regress_gate.model.suite import Images, Suite, Workload
from regress_gate.suites import shipped_suites

BANDWIDTH_SHARE, ARITHMETIC_SHARE = 0.6, 0.4
STEP_OVERHEAD = 0.002
DISK = 2e9
START, PROMPTS_AND_STOP = 60.0, 30.0
CROWD = 64
"""Requests at once with which a server is near its capacity."""


@dataclass(frozen=True)
class Gpu:
    bandwidth: float
    """Bytes a second."""
    arithmetic: float
    """Dense operations a second, in the precision of the model."""


# NVIDIA's datasheets: H100 SXM, H200 SXM (FP8 for DeepSeek), L4, L40S, B200; AWS' of the A10G; AMD's of the MI300X.
H100, H200, L4 = Gpu(3.35e12, 989e12), Gpu(4.8e12, 1979e12), Gpu(0.3e12, 121e12)
H100_FP8, L40S, A10G = Gpu(3.35e12, 1979e12), Gpu(0.864e12, 362e12), Gpu(0.6e12, 70e12)
MI300X_FP8, B200 = Gpu(5.3e12, 2615e12), Gpu(8e12, 2250e12)


@dataclass(frozen=True)
class Model:
    """From its card: parameters in all, those of one token, bytes of each, layers and width."""

    parameters: float
    active: float
    size: float
    layers: int
    width: int
    experts: int = 1
    chosen: int = 1
    vision: "Model | None" = None
    """The encoder of images, which are not parts of `parameters`."""

    def bytes_read(self, batch: float) -> float:
        if self.experts == 1:
            return self.parameters * self.size
        touched = 1 - (1 - self.chosen / self.experts) ** batch
        shared = (self.active - self.parameters * self.chosen / self.experts) / (1 - self.chosen / self.experts)
        return (shared + (self.parameters - shared) * touched) * self.size

    def operations(self, tokens: int) -> float:
        return 2 * self.active * tokens + 2 * self.layers * self.width * tokens**2


IMAGE_TOKEN, PATCHES = 32, 4
"""Pixels of a side of what is one token of Qwen3-VL, and patches that its encoder makes of them."""


def tokens_of(image: Images) -> int:
    return math.ceil(image.width / IMAGE_TOKEN) * math.ceil(image.height / IMAGE_TOKEN)


LLAMA_8B = Model(8.03e9, 8.03e9, 2, 32, 4096)
LLAMA_70B_FP8 = Model(70.6e9, 70.6e9, 1, 80, 8192)
GPT_OSS = Model(117e9, 5.1e9, 0.55, 36, 2880, experts=128, chosen=4)
DEEPSEEK = Model(671e9, 37e9, 1, 61, 7168, experts=256, chosen=8)
ENCODER = Model(0.57e9, 0.57e9, 2, 24, 1024)
QWEN_VL = Model(8.19e9, 8.19e9, 2, 36, 4096, vision=Model(0.58e9, 0.58e9, 2, 27, 1152))
SUITES: dict[str, tuple[Model, Gpu, int]] = {
    "h100-llama8b": (LLAMA_8B, H100, 1),
    "h100-llama8b-capacity": (LLAMA_8B, H100, 1),
    "h100-llama70b-tp4": (Model(70.6e9, 70.6e9, 2, 80, 8192), H100, 4),
    "h100-long-context": (LLAMA_8B, H100, 1),
    "h100-lora": (Model(3.21e9, 3.21e9, 2, 28, 3072), H100, 1),
    "h100-moe": (Model(30.5e9, 3.3e9, 2, 48, 2048, experts=128, chosen=8), H100, 1),
    "h100-spec-decode": (LLAMA_8B, H100, 1),
    "h100-structured-output": (LLAMA_8B, H100, 1),
    "h200-deepseek-r1-ep": (DEEPSEEK, H200, 8),
    "a10g-llama8b": (LLAMA_8B, A10G, 1),
    "b200-gpt-oss-120b": (GPT_OSS, B200, 1),
    "h100-gpt-oss-120b": (GPT_OSS, H100, 1),
    "h100-llama70b-fp8-tp2": (LLAMA_70B_FP8, H100_FP8, 2),
    "h100-qwen3-vl-8b": (QWEN_VL, H100, 1),
    "h200-deepseek-v3.2": (DEEPSEEK, H200, 8),
    "l40s-llama8b": (LLAMA_8B, L40S, 1),
    "mi300x-llama70b-fp8": (LLAMA_70B_FP8, MI300X_FP8, 1),
    "l4-embed": (ENCODER, L4, 1),
    "l4-rerank": (ENCODER, L4, 1),
}


def seconds_of(workload: Workload, model: Model, gpu: Gpu, gpus: int) -> float:
    """Of one trial with its warm-up. The shared prefix of a prompt is read once."""
    requests = (workload.num_requests or 0) + workload.warmup_requests
    if workload.capacity is not None:
        crowd = workload.model_copy(update={"capacity": None, "concurrency": CROWD})
        return len(LEVELS) * seconds_of(crowd, model, gpu, gpus)
    if workload.request_rate is not None:
        return requests / workload.request_rate
    batch = min(workload.concurrency or requests, requests)
    tokens = ((workload.input_len or 0) - workload.prefix_len) * (workload.documents or 1)
    operations = 0.0
    if workload.images is not None and model.vision is not None:
        tokens += workload.images.count * tokens_of(workload.images)
        operations = workload.images.count * model.vision.operations(PATCHES * tokens_of(workload.images))
    operations += model.operations(tokens)
    prefill = operations / (gpus * gpu.arithmetic * ARITHMETIC_SHARE) + STEP_OVERHEAD
    step = model.bytes_read(batch) / (gpus * gpu.bandwidth * BANDWIDTH_SHARE) + STEP_OVERHEAD
    return requests * prefill + requests / batch * (workload.output_len or 0) * step


def minutes_of(suite: Suite) -> float:
    model, gpu, gpus = SUITES[suite.name]
    weights = model.parameters + (model.vision.parameters if model.vision else 0)
    seconds = weights * model.size / DISK + START + PROMPTS_AND_STOP
    seconds += suite.trials * sum(seconds_of(each.workload, model, gpu, gpus) for each in suite.scenarios)
    return math.ceil(seconds / 30) / 2


def main() -> int:
    rows = []
    for name, (_, _, gpus) in SUITES.items():
        suite = shipped_suites()[name]
        minutes = minutes_of(suite)
        said = suite.cost
        if said is None or (said.minutes, said.gpus) != (minutes, gpus):
            rows.append(Row(name, f"{minutes:g} min", f"{said and said.minutes} in the suite", 2.0, 1.0))
        else:
            whole = f"{2 * (suite.blocks or 0) * minutes * gpus:.0f} GPU minutes for {suite.blocks} blocks"
            rows.append(Row(name, f"{minutes:g} min", whole, 1.0, 1.0))
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
