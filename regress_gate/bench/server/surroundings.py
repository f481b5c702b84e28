"""Whether a server that failed speaks of its surroundings and not of its version: the hub, the disk, the devices.

Nothing can be held against a version that could not get its model. What a version may bring about itself is left out:
memory that runs out, a file that the hub does not have, a driver that is too old for it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.bench.server.log_lines import is_consequence


@dataclass(frozen=True, slots=True)
class _Cause:
    signs: str
    what: str
    only_starting: bool = False
    """Whether a server that was ready has no more need of it."""


_CAUSES = (
    _Cause(r"No space left on device|Disk quota exceeded|database or disk is full", "a disk is full"),
    _Cause(
        # Names of huggingface_hub.errors, and what transformers says in their place.
        r"\b(HfHubHTTPError|LocalEntryNotFoundError|OfflineModeIsEnabled|GatedRepoError|RepositoryNotFoundError)\b"
        r"|couldn't connect to 'https?://|trying to access a gated repo|is not a valid model identifier"
        r"|\brequests\.exceptions\.(ConnectionError|HTTPError|ReadTimeout|ConnectTimeout)\b|\bMaxRetryError\b"
        r"|\bhttpx\.(Connect|Read|Write|Proxy)(Error|Timeout)\b|\bHTTPError: (401|403|429|5\d\d) ",
        "the model cannot be had from its hub",
        only_starting=True,
    ),
    _Cause(
        # A version that wants more than it did says the same; where others hold memory, that cannot be told apart.
        r"(Free memory on device|Available memory on node)\b.* is less than desired",
        "others hold the memory that it is to have",
        only_starting=True,
    ),
    _Cause(
        r"No CUDA GPUs are available|no CUDA-capable device is detected|Found no NVIDIA driver|CUDA unknown error"
        r"|CUDA-capable device\(s\) is/are busy or unavailable|Driver/library version mismatch|Driver Not Loaded"
        r"|uncorrectable (ECC|NVLink) error|fallen off the bus|GPU is lost|system not yet initialized",
        "the GPU or its driver does not work",
    ),
)


def fault_of_surroundings(lines: Sequence[str], *, ready: bool) -> str | None:
    """What of its surroundings a server's decisive lines speak of, in a few words; None where they do not.

    All causes count, because what failed first is often told as the cause of something vaguer.
    """
    causes = [line for line in lines if not is_consequence(line)]
    for cause in _CAUSES:
        if not (ready and cause.only_starting) and any(re.search(cause.signs, line) for line in causes):
            return cause.what
    return None
