"""What the fake server did in one pass, beside what a client says it saw of it. Not for starting either.

Server and client read the same clock of the same machine (CLOCK_MONOTONIC, which is Python's `monotonic` and
`perf_counter` on Linux), so a chunk's delay is the client's stamp less the server's, whatever client it was.
"""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Floats = npt.NDArray[np.float64]
WINDOW = 0.5
"""Seconds."""
BLOCK = 400
"""Requests whose partners are found at once."""
REACH = 200
"""How many places a request may be from its own, in the order of first chunks."""
COMPARED = ("ttft_median", "ttft_p99", "tpot_median", "tpot_p99")


@dataclass(frozen=True, slots=True)
class Served:
    """One request as the server knows it."""

    received: float
    sent: Sequence[float]
    """When each chunk was handed to the socket."""


def served(url: str, after: int = 0) -> list[Served]:
    """The requests that the fake server has seen, but for the first `after`."""
    with urllib.request.urlopen(f"{url}/fake/requests") as answer:
        told = json.load(answer)["requests"]
    return [Served(request["received"], request["sent"]) for request in told if request["number"] > after]


def statistics(requests: Sequence[Served]) -> dict[str, float]:
    """The server's own ttft and tpot, by the definitions of both clients; seconds."""
    ttft = [request.sent[0] - request.received for request in requests]
    tpot = [
        (request.sent[-1] - request.sent[0]) / (len(request.sent) - 1) for request in requests if len(request.sent) > 1
    ]
    found = {}
    for family, values in (("ttft", ttft), ("tpot", tpot)):
        if values:
            found[f"{family}_median"], found[f"{family}_p99"] = np.percentile(values, (50, 99)).tolist()
    return found


def delays(requests: Sequence[Served], chunks: Sequence[Sequence[float]]) -> tuple[Floats, Floats]:
    """For every chunk, when the server sent it and how many seconds later the client stamped it.

    Which request of the client is which of the server's is found from the times themselves (least sum of squared
    distances of first and last chunk), because not every client writes down what it sent.
    """
    mine = sorted(range(len(chunks)), key=lambda number: chunks[number][0])
    theirs = sorted(requests, key=lambda request: request.sent[0])
    ours = np.array([(chunks[number][0], chunks[number][-1]) for number in mine])
    told = np.array([(request.sent[0], request.sent[-1]) for request in theirs])
    sent, late = [], []
    for begin in range(0, len(mine), BLOCK):  # one assignment of thousands of requests would take minutes
        end = min(begin + BLOCK, len(mine))
        row, column = max(0, begin - REACH), max(0, begin - 2 * REACH)
        near = told[column : end + 2 * REACH]
        distance = ((ours[row : end + REACH, None] - near) ** 2).sum(axis=2)
        for found, other in zip(*linear_sum_assignment(distance), strict=True):
            if begin <= row + found < end:
                sent.append(np.array(theirs[column + other].sent))
                late.append(np.array(chunks[mine[row + found]]) - sent[-1])
    return np.concatenate(sent), np.concatenate(late)


def steady_p99(sent: Floats, late: Floats) -> float:
    """The p99 delay of half-second windows, of which the lower quartile is taken.

    A neighbour on the machine spoils some windows, a client without capacity spoils all.
    """
    window = ((sent - sent.min()) / WINDOW).astype(int)
    return float(np.percentile([np.percentile(late[window == one], 99) for one in np.unique(window)], 25))


def over_truth(metrics: Mapping[str, float], truth: Mapping[str, float]) -> dict[str, float]:
    """What the client reports over what the server did; 1 is perfect."""
    return {name: metrics[name] / truth[name] for name in COMPARED if name in truth}
