"""The prompt set: fixed for ever under its name, and fit for every server."""

import json
from hashlib import sha256

from regress_gate.bench.fixed_prompts import ANSWER_TOKENS, PROMPT_SET, sanity_prompts


def test_the_prompts_of_this_version_never_change():
    content = json.dumps([[prompt.name, prompt.content] for prompt in sanity_prompts()])
    assert (PROMPT_SET, sha256(content.encode()).hexdigest()) == (
        "sanity@1",
        "c98a5cb61d36c47fe0bff399fc14cfe570d3d551f95ed579bb017d014a242a9c",
    ), "raise the version of the set"


def test_every_prompt_has_a_name_of_its_own():
    names = [prompt.name for prompt in sanity_prompts()]
    assert len(set(names)) == len(names) == 16


def test_token_ids_fit_every_vocabulary_and_a_context_of_512():
    ids = [prompt.content for prompt in sanity_prompts() if isinstance(prompt.content, list)]
    assert [len(each) for each in ids] == [32, 64, 128, 256]
    assert all(1000 <= token < 10_000 for each in ids for token in each)
    assert max(map(len, ids)) + ANSWER_TOKENS <= 512


def test_the_first_prompt_is_the_shortest_so_that_a_refusal_is_not_about_its_length():
    texts = [prompt.content for prompt in sanity_prompts() if isinstance(prompt.content, str)]
    assert texts[0] == min(texts, key=lambda text: len(text.encode()))
