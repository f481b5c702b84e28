"""The fixed prompts whose answers are compared between versions. Not for load: what is timed is in the suites.

Two kinds, because each sees what the other cannot. Text is what models are made for: their next tokens are clear, so
that an answer changes for a reason. Token ids come from a generator, go past the tokenizer and are as long as we like,
so that attention over many blocks of the cache is exercised; to a trained model they are noise, and its answers to
them hang by less. Any change here needs a new version: answers to different sets are not compared.
"""

from dataclasses import dataclass
from hashlib import shake_256

from regress_gate.bench.load.load_workload import FIRST_TOKEN, LAST_TOKEN

PROMPT_SET_NAME, PROMPT_SET_VERSION = "sanity", "1"
PROMPT_SET = f"{PROMPT_SET_NAME}@{PROMPT_SET_VERSION}"
ANSWER_TOKENS = 32


@dataclass(frozen=True, slots=True)
class SanityPrompt:
    name: str
    content: str | list[int]
    """Text, or token ids."""


# Written for this set. The first is the shortest, because what a server is able to answer is found out with it.
TEXTS = {
    "capital": "The capital of France is",
    "story": "Once upon a time, in a village between the mountains and the sea, there lived a clockmaker who",
    "sum": "Question: A box holds 12 pencils. How many pencils do 7 boxes hold?\nAnswer:",
    "python": 'def fibonacci(n: int) -> int:\n    """Return the n-th Fibonacci number."""\n',
    "sql": "-- The five customers who ordered most in 2024\nSELECT customer_id, COUNT(*) AS orders FROM",
    "json": '{"planets": [{"name": "Mercury", "moons": 0}, {"name": "Venus", "moons": 0}, {"name": "Earth", "moons":',
    "list": "The months of the year in order:\n1. January\n2. February\n3. March\n4.",
    "german": "Übersetze ins Englische. Deutsch: Der Zug nach München fährt heute zehn Minuten später ab. Englisch:",
    "chinese": "问题：水在标准大气压下多少摄氏度沸腾？\n回答：",
    "science": "Plants look green because the pigment in their leaves absorbs red and blue light and",
    "copy": "Repeat: alpha bravo charlie delta echo foxtrot. Repeat: alpha bravo charlie delta echo foxtrot. Repeat:",
    "summary": (
        "The committee met on Tuesday to decide on the new bridge. The engineers explained that the old one, built in "
        "1931, could carry lorries of twelve tonnes at most, and that every repair of the last ten years had cost more "
        "than the one before. The shopkeepers of the left bank feared two summers without visitors. The mayor proposed "
        "to build the new bridge beside the old one and to close the road for three weeks only, in November. After "
        "four hours the proposal was accepted with nine votes against two.\n\nIn one sentence, what was decided?"
    ),
}
ID_LENGTHS = (32, 64, 128, 256)
"""Tokens; with the answer they fit every server that takes 512."""


def sanity_prompts() -> list[SanityPrompt]:
    """The prompts of the set, always in this order."""
    return [
        *(SanityPrompt(name, text) for name, text in TEXTS.items()),
        *(SanityPrompt(f"ids-{length}", _random_ids(length)) for length in ID_LENGTHS),
    ]


def _random_ids(length: int) -> list[int]:
    """Ids that every vocabulary beyond 10,000 has, from a hash and no library's generator: the same for ever."""
    stream = shake_256(f"{PROMPT_SET}/{length}".encode()).digest(4 * length)
    numbers = (int.from_bytes(stream[at : at + 4], "little") for at in range(0, len(stream), 4))
    return [FIRST_TOKEN + number % (LAST_TOKEN - FIRST_TOKEN + 1) for number in numbers]
