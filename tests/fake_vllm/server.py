"""The HTTP side of the fake server: the routes, the streamed answer and its faults."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.fake_vllm import chat, completion, log
from tests.fake_vllm.engine import Engine
from tests.fake_vllm.options import Options
from tests.fake_vllm.pooling import pooled, prompt_of

_PROMPTS = ("prompt", "messages", "input", "query", "documents")
MAX_BODY = 64 * 2**20
STARTED = time.time()
"""When this process began, as the Prometheus client of a real server reports it."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes


class Server:
    def __init__(self, options: Options, stop: asyncio.Event) -> None:
        self._options = options
        self._stop = stop
        self._healthy = True
        self._engine = Engine(options)
        self._numbers = count(1)
        self._served_names = {options.served_model_name, *(each.partition("=")[0] for each in options.lora_modules)}
        self.requests: list[dict[str, Any]] = []
        self.counted: list[dict[str, Any]] = []
        """What /tokenize was asked beside the model and the text."""
        self._leaked: list[bytearray] = []

    @property
    def peak_running(self) -> int:
        return self._engine.peak_running

    def set_luck(self, luck: float) -> None:
        self._engine.luck = luck

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                await self._answer(request, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        match request.method, request.path:
            case "POST", "/v1/completions" | "/v1/chat/completions":
                await self._complete(json.loads(request.body), writer)
            case "POST", "/v1/embeddings" | "/rerank":
                await self._pool(json.loads(request.body), writer)
            case "POST", "/tokenize" if self._options.tokenize != "missing":
                await self._tokenize(json.loads(request.body), writer)
            case "GET", "/health":
                _send(writer, 200 if self._healthy else 503, b"")
            case "GET", "/version":
                _send_json(writer, 200, {"version": self._options.vllm_version})
            case "GET", "/v1/models":
                model = {"id": self._options.served_model_name, "object": "model", "owned_by": "vllm"}
                _send_json(writer, 200, {"object": "list", "data": [model]})
            case "GET", "/metrics":
                _send(writer, 200, self.metrics().encode(), "text/plain; version=0.0.4; charset=utf-8")
            case "GET", "/fake/requests":
                report = {"peak_running": self.peak_running, "luck": self._engine.luck, "requests": self.requests}
                report["launch_flags"] = list(self._options.launch_flags)
                _send_json(writer, 200, report)
            case _:
                _send_json(writer, 404, {"detail": "Not Found"})

    async def _complete(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = next(self._numbers)
        options = self._options
        record = _record(number, body, options)
        self.requests.append(record)
        self._leaked.append(bytearray(b"x") * int(options.leak_mb * 2**20))  # written, so that it is resident
        if options.die_after is not None and number > options.die_after:
            log.engine_failed()
            os._exit(1)
        if options.lose_engine_after is not None and number > options.lose_engine_after:
            self._lose_engine()
            error = {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}
            _send_json(writer, 500, {"error": error})
            return
        if options.unhealthy_after is not None and number > options.unhealthy_after:
            self._healthy = False
        if options.hang_after is not None and number > options.hang_after:
            await asyncio.Event().wait()
        if options.error_burst and options.error_burst[0] <= number < sum(options.error_burst):
            _send_json(writer, 503, {"error": {"message": "EngineCore encountered an issue.", "code": 503}})
            return
        if body.get("model") not in self._served_names:
            message = f"The model `{body.get('model')}` does not exist."
            _send_json(writer, 404, {"error": {"message": message, "type": "NotFoundError", "code": 404}})
            return
        if "messages" in body and (refusal := chat.refusal(options, body["messages"])) is not None:
            _send_json(writer, 400, {"error": {"message": refusal, "type": "BadRequestError", "code": 400}})
            return
        if not body.get("stream"):
            await self._complete_whole(number, body, writer)
            return
        async with self._engine.seat():
            await self._stream(number, body, record, writer)

    async def _tokenize(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """A word is a token, and the template of a chat has its own."""
        if self._options.tokenize == "hang":
            await asyncio.Event().wait()
        self.counted.append({key: body[key] for key in body.keys() - {"model", "prompt", "messages"}})
        if body.get("model") not in self._served_names:
            _send_json(writer, 404, {"error": {"message": f"The model `{body.get('model')}` does not exist."}})
            return
        messages = body.get("messages")
        count = len(body["prompt"].split()) if messages is None else chat.prompt_tokens(self._options, messages)
        answer = {"count": count, "max_model_len": 4096, "tokens": list(range(count)), "token_strs": None}
        _send_json(writer, 200, {} if self._options.tokenize == "garbage" else answer)

    async def _complete_whole(self, number: int, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if (refusal := completion.check(body)) is not None:
            _send_json(writer, 400, {"error": {"message": refusal, "type": "BadRequestError", "code": 400}})
            return
        asked = body.get("max_tokens", 16)
        asked = asked // 2 if _hits(self._options.short_every, number) else asked
        async with self._engine.seat():
            if not self._options.whole_at_once:
                async for _ in self._engine.token_times(number, max(1, asked)):
                    pass
            answer = completion.answer(self._options, number, body, asked)
            if _hits(self._options.no_usage_every, number):
                answer["usage"] = None
            if _hits(self._options.cut_every, number):
                writer.transport.abort()
            elif _hits(self._options.garbage_every, number):
                _send(writer, 200, b'{"choices": [{"text": \xff\xfe')
            else:
                _send_json(writer, 200, answer)
        self._engine.prompt_tokens += answer["usage"]["prompt_tokens"] if answer["usage"] else 0
        self._engine.generated_tokens += asked
        self._engine.finished += 1

    def _lose_engine(self) -> None:
        """The API server outlives its engine for a moment and then ends well."""
        if self._healthy:
            self._healthy = False
            log.engine_gone()
            if not self._options.stay:
                asyncio.get_running_loop().call_later(1.0, self._stop.set)

    async def _stream(
        self, number: int, body: dict[str, Any], record: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        messages = body.get("messages")
        asked = body["max_tokens" if messages is None else "max_completion_tokens"]
        tokens = asked // 2 if _hits(self._options.short_every, number) else asked
        sizes = list(_chunk_sizes(tokens, self._options.tokens_per_chunk))
        model = self._options.served_model_name
        talk = None if messages is None else chat.ChatEvents(number, self._options, len(sizes))
        events = talk or Events(number, model)
        finish_at = len(sizes) - (2 if _hits(self._options.disorder_every, number) else 1)
        _begin_stream(writer)
        prompt = prompt_of(body)
        prefill = self._engine.prefill_seconds(prompt if isinstance(prompt, list) else prompt.split())
        async for chunk in self._engine.token_times(number, len(sizes), prefill):
            if writer.is_closing():
                return
            if chunk == len(sizes) // 2:
                if _hits(self._options.cut_every, number):
                    writer.transport.abort()
                    return
                if _hits(self._options.garbage_every, number):
                    _write_event(writer, b'data: {"choices": [{"text": \xff\xfe\n\n')
            if talk is not None and chunk == 0:
                _write_event(writer, talk.begin())
            record["sent"].append(time.monotonic())
            _write_event(writer, events.token(sizes[chunk], last=chunk == finish_at))
            self._engine.generated_tokens += sizes[chunk]
        usage_asked = (body.get("stream_options") or {}).get("include_usage")
        if usage_asked and not _hits(self._options.no_usage_every, number):
            _write_event(writer, events.usage(record["prompt_tokens"], tokens))
        _write_event(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        self._engine.prompt_tokens += record["prompt_tokens"]
        self._engine.finished += 1

    async def _pool(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Embeddings and rerankings take as long as a first token."""
        number = next(self._numbers)
        record = _record(number, body, self._options)
        self.requests.append(record)
        if self._options.hang_after is not None and number > self._options.hang_after:
            await asyncio.Event().wait()
        if self._options.error_burst and self._options.error_burst[0] <= number < sum(self._options.error_burst):
            _send_json(writer, 503, {"error": {"message": "EngineCore encountered an issue.", "code": 503}})
            return
        async with self._engine.seat():
            async for _ in self._engine.token_times(number, 1):
                record["sent"].append(time.monotonic())
        answer = pooled(body, number, record["prompt_tokens"], short=_hits(self._options.short_every, number))
        if _hits(self._options.no_usage_every, number):
            del answer["usage"]
        if _hits(self._options.garbage_every, number):
            _send(writer, 200, b'{"data": [')
        else:
            _send_json(writer, 200, answer)

    def metrics(self) -> str:
        """The page /metrics."""
        ready = time.monotonic() + self._options.metrics_busy
        while time.monotonic() < ready:
            pass
        engine, model = self._engine, self._options.served_model_name
        labels = f'{{engine="0",model_name="{model}"}}'
        stopped = f'{{engine="0",finished_reason="length",model_name="{model}"}}'
        blocks = self._options.kv_cache_tokens // 16
        families = [
            ("gauge", "vllm:num_requests_running", labels, engine.running),
            ("gauge", "vllm:num_requests_waiting", labels, engine.waiting),
            ("counter", "vllm:prompt_tokens_total", labels, engine.prompt_tokens),
            ("counter", "vllm:generation_tokens_total", labels, engine.generated_tokens),
            ("counter", "vllm:request_success_total", stopped, engine.finished),
            ("counter", "vllm:num_preemptions_total", labels, engine.preemptions),
            ("gauge", "vllm:kv_cache_usage_perc", labels, engine.kv_cache_usage),
            ("gauge", "process_start_time_seconds", "", STARTED),
            ("gauge", "vllm:cache_config_info", f'{{block_size="16",engine="0",num_gpu_blocks="{blocks}"}}', 1),
        ]
        text = "".join(f"# TYPE {name} {kind}\n{name}{label} {value:.6f}\n" for kind, name, label, value in families)
        histograms = {
            "vllm:request_queue_time_seconds": engine.queue,
            "vllm:request_prefill_time_seconds": engine.prefill,
            "vllm:request_decode_time_seconds": engine.decode,
            "vllm:inter_token_latency_seconds": engine.itl,
        }
        for number in range(self._options.metrics_lines):
            text += f'vllm:other_seconds_bucket{{engine="0",le="{number}",model_name="{model}"}} 0.0\n'
        bucket = f'{{engine="0",le="+Inf",model_name="{model}"}}'
        return text + "".join(
            f"# TYPE {name} histogram\n{name}_bucket{bucket} {times.count}\n"
            f"{name}_sum{labels} {times.sum:.9f}\n{name}_count{labels} {times.count}\n"
            for name, times in histograms.items()
        )


class Events:
    """The server-sent events of one answer, in vLLM's format."""

    def __init__(self, number: int, model: str) -> None:
        self._common = {"id": f"cmpl-{number:032x}", "object": "text_completion", "created": 0, "model": model}
        self._more = self._encode(self._choice(" a", None))

    def token(self, tokens: int, *, last: bool) -> bytes:
        if tokens == 1 and not last:
            return self._more
        return self._encode(self._choice(" a" * tokens, "length" if last else None))

    def usage(self, prompt_tokens: int, tokens: int) -> bytes:
        usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens + tokens, "completion_tokens": tokens}
        return self._encode({"choices": [], "usage": usage})

    @staticmethod
    def _choice(text: str, finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason, "stop_reason": None}
        return {"choices": [choice], "usage": None}

    def _encode(self, event: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps({**self._common, **event}, separators=(",", ":")).encode() + b"\n\n"


def _record(number: int, body: dict[str, Any], options: Options) -> dict[str, Any]:
    prompt = prompt_of(body)
    if "messages" in body:
        read = chat.prompt_tokens(options, prompt)
    else:
        read = len(prompt) if isinstance(prompt, list) else len(prompt.split())
    return {
        "number": number,
        "received": time.monotonic(),
        "sent": [],
        "prompt_tokens": read,
        "prompt_sha256": hashlib.sha256(json.dumps(prompt).encode()).hexdigest(),
        "parameters": {key: value for key, value in body.items() if key not in _PROMPTS},
    }


def _hits(every: int | None, number: int) -> bool:
    return every is not None and number % every == 0


def _chunk_sizes(tokens: int, size: int) -> Iterator[int]:
    for start in range(0, tokens, size):
        yield min(size, tokens - start)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", 0))
    if length > MAX_BODY:
        raise ConnectionError("body too large")
    return Request(method, path, await reader.readexactly(length))


def _send(writer: asyncio.StreamWriter, status: int, body: bytes, content_type: str = "application/json") -> None:
    writer.write(
        f"HTTP/1.1 {status} Status\r\nserver: uvicorn\r\ncontent-type: {content_type}\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )


def _send_json(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    _send(writer, status, json.dumps(value).encode())


def _begin_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )


def _write_event(writer: asyncio.StreamWriter, event: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
