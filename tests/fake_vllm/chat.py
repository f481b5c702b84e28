"""Chats in vLLM's format, field by field as 0.19.1 streams them: the role first, then content, then the usage."""

import json
from typing import Any

from tests.fake_vllm.options import Options


def text_of(messages: list[dict[str, Any]]) -> str:
    """The words of all messages."""
    parts = [part for message in messages for part in _parts(message)]
    return " ".join(part["text"] for part in parts if part["type"] == "text")


def images_of(messages: list[dict[str, Any]]) -> list[str]:
    """The URLs of all images."""
    parts = [part for message in messages for part in _parts(message)]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def prompt_tokens(options: Options, messages: list[dict[str, Any]]) -> int:
    """A word is a token, and the template and each image add theirs."""
    words = len(text_of(messages).split())
    return options.template_tokens + words + options.image_tokens * len(images_of(messages))


def refusal(options: Options, messages: list[dict[str, Any]]) -> str | None:
    """Why vLLM would refuse a request with status 400."""
    if options.refuse_images and images_of(messages):
        return f"{options.served_model_name} is not a multimodal model"
    return None


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class ChatEvents:
    """The server-sent events of one answer. The first half is reasoning where a key for it is given."""

    def __init__(self, number: int, options: Options, chunks: int) -> None:
        model = options.served_model_name
        self._common = {
            "id": f"chatcmpl-{number:016x}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
        }
        self._reasoning_key = options.reasoning_key
        self._reasoning_left = chunks // 2 if options.reasoning_key else 0

    def begin(self) -> bytes:
        return self._encode([self._choice({"role": "assistant", "content": ""}, None)], prompt_token_ids=None)

    def token(self, tokens: int, *, last: bool) -> bytes:
        key = self._reasoning_key if self._reasoning_left and self._reasoning_key else "content"
        self._reasoning_left = max(0, self._reasoning_left - 1)
        return self._encode([self._choice({key: " a" * tokens}, "length" if last else None)])

    def usage(self, prompt_tokens: int, tokens: int) -> bytes:
        counts = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens + tokens, "completion_tokens": tokens}
        return self._encode([], usage=counts)

    @staticmethod
    def _choice(delta: dict[str, str], finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        if finish_reason is not None:
            choice["stop_reason"] = None
        return choice if "role" in delta else {**choice, "token_ids": None}

    def _encode(self, choices: list[dict[str, Any]], **more: object) -> bytes:
        event = {**self._common, "choices": choices, **more}
        return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
