"""How long things take in the fake server: a base, jitter, one run's luck, and the slowdown by others in the batch."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.fake_vllm.options import Options


class Engine:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._seats = asyncio.Semaphore(options.max_num_seqs)
        self.luck = math.exp(random.Random(f"run {options.seed}").gauss(0.0, options.run_spread))
        self.running = 0
        self.waiting = 0
        self.peak_running = 0
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self.finished = 0

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """A place in the batch, waited for in the order of arrival."""
        self.waiting += 1
        try:
            await self._seats.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        self.peak_running = max(self.peak_running, self.running)
        try:
            yield
        finally:
            self.running -= 1
            self._seats.release()

    async def token_times(self, number: int, chunks: int) -> AsyncIterator[int]:
        """Yields 0, 1, … when each chunk of request `number` is due.

        Due times add up from each other and not from the moment of waking, so the mean is the one that was asked for.
        """
        luck = random.Random(f"request {self._options.seed} {number}")
        loop = asyncio.get_running_loop()
        due = loop.time()
        for chunk in range(chunks):
            base = self._options.ttft if chunk == 0 else self._options.tpot * self._options.tokens_per_chunk
            jitter = max(0.0, luck.gauss(1.0, self._options.jitter)) if self._options.jitter else 1.0
            due += base * jitter * self.luck * (1 + self._options.batch_slowdown * (self.running - 1))
            await asyncio.sleep(max(0.0, due - loop.time()))
            yield chunk
