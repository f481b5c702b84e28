"""How long things take in the fake server: a base, jitter, one run's luck, and the slowdown by others in the batch."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.fake_vllm.options import Options

BLOCK = 16
"""Tokens of a block of the prefix cache, as vLLM's. It holds prompts only, and never forgets one."""


class Times:
    """Sum and count of a histogram."""

    def __init__(self) -> None:
        self.sum = 0.0
        self.count = 0

    def add(self, seconds: float) -> None:
        self.sum += seconds
        self.count += 1


def _seats(options: Options) -> int:
    """Requests that run at once: as many as are allowed, and as fit into the KV cache."""
    if not options.tokens_per_request:
        return options.max_num_seqs
    return max(1, min(options.max_num_seqs, options.kv_cache_tokens // options.tokens_per_request))


class Engine:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._seats = asyncio.Semaphore(_seats(options))
        self.luck = math.exp(random.Random(f"run {options.seed}").gauss(0.0, options.run_spread))
        self.running = 0
        self.waiting = 0
        self.peak_running = 0
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self.finished = 0
        self.preemptions = 0
        self._blocks: set[int] = set()
        self.queue = Times()
        self.prefill = Times()
        self.decode = Times()
        self.itl = Times()

    @property
    def kv_cache_usage(self) -> float:
        """A fraction."""
        return min(1.0, self.running * self._options.tokens_per_request / max(1, self._options.kv_cache_tokens))

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """A place in the batch, waited for in the order of arrival."""
        arrived = asyncio.get_running_loop().time()
        self.waiting += 1
        try:
            await self._seats.acquire()
        finally:
            self.waiting -= 1
        self.queue.add(asyncio.get_running_loop().time() - arrived)
        self.running += 1
        self.peak_running = max(self.peak_running, self.running)
        try:
            yield
        finally:
            self.running -= 1
            self._seats.release()

    def prefill_seconds(self, prompt: Sequence[object]) -> float:
        """What a prompt adds to its first token: whole blocks with which an earlier prompt began cost nothing."""
        if not self._options.prefill_time:
            return 0.0
        cached, seen = 0, 0
        for end in range(BLOCK, len(prompt) + 1, BLOCK):
            seen = hash((seen, tuple(prompt[end - BLOCK : end])))
            if seen in self._blocks:
                cached = end
            elif not self._options.forget_prefixes:
                self._blocks.add(seen)
        return (len(prompt) - cached) * self._options.prefill_time

    async def token_times(self, number: int, chunks: int, prefill: float = 0.0) -> AsyncIterator[int]:
        """Yields 0, 1, … when each chunk of request `number` is due. `prefill`: seconds that its prompt adds.

        Due times add up from each other and not from the moment of waking, so the mean is the one that was asked for.
        """
        luck = random.Random(f"request {self._options.seed} {number}")
        loop = asyncio.get_running_loop()
        begin = first = last = due = loop.time()
        options = self._options
        preempted = options.preempt_every is not None and number % options.preempt_every == 0
        for chunk in range(chunks):
            base = options.ttft + prefill if chunk == 0 else options.tpot * options.tokens_per_chunk
            if (
                chunk
                and options.max_cudagraph_capture_size is not None
                and self.running > options.max_cudagraph_capture_size
            ):
                base *= options.uncaptured_slowdown
            if options.slow_moe_backend is not None and options.slow_moe_backend == options.moe_backend:
                base *= options.slow_moe_factor
            if preempted and chunk == chunks // 2:
                self.preemptions += 1
                base += options.preemption_cost
            jitter = max(0.0, luck.gauss(1.0, self._options.jitter)) if self._options.jitter else 1.0
            due += base * jitter * self.luck * (1 + self._options.batch_slowdown * (self.running - 1))
            await asyncio.sleep(max(0.0, due - loop.time()))
            if chunk == 0:
                self.prefill.add(due - begin)
                first = due
            else:
                self.itl.add(due - last)
            last = due
            yield chunk
        self.decode.add(last - first)
