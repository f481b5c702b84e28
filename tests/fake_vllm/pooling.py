"""Embeddings and rerankings in vLLM's format, answered in one piece with made-up numbers."""

from typing import Any


def prompt_of(body: dict[str, Any]) -> Any:
    """What is hashed and counted of a request, whichever endpoint it is for."""
    if "documents" in body:
        return " ".join(f"{body['query']} {document}" for document in body["documents"])
    if "messages" in body:
        return body["messages"]
    return body["input"] if "input" in body else body["prompt"]


def pooled(body: dict[str, Any], number: int, prompt_tokens: int, *, short: bool) -> dict[str, Any]:
    """The answer to an embedding or rerank request; `short` leaves one result out."""
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    if "documents" in body:
        results: list[dict[str, Any]] = [
            {"index": index, "document": {"text": document}, "relevance_score": 1 / (index + 2)}
            for index, document in enumerate(body["documents"])
        ]
        return {"id": f"score-{number:032x}", "model": body["model"], "usage": usage, "results": results[short:]}
    data = [{"index": 0, "object": "embedding", "embedding": [0.25] * 64}]
    return {"id": f"embd-{number:032x}", "object": "list", "model": body["model"], "data": data[short:], "usage": usage}
