"""Recorded prompts on a server: which are chosen, what is asked of each, and what is kept of them."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from regress_gate.bench.load.dataset import Dataset, DatasetFormat, open_dataset
from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.pass_requests import MAX_CHARACTERS, MAX_PROMPT_TOKENS
from regress_gate.errors import InputError
from regress_gate.model.suite import MAX_CONVERSATION_TOKENS

LENGTHS = {"input_len": 0, "output_len": 0}


def words(count: int, word: str = "w") -> str:
    return " ".join([word] * count)


def conversations(folder: Path, *lengths: tuple[int, int]) -> Dataset:
    """Conversations of so many words of prompt and answer; the fake server takes a word for a token."""
    entries = [
        {"conversations": [{"value": words(prompt, f"p{number}")}, {"value": words(answer)}]}
        for number, (prompt, answer) in enumerate(lengths)
    ]
    file = folder / "sharegpt.json"
    file.write_text(json.dumps(entries))
    return open_dataset(DatasetFormat.SHAREGPT, file)


def lines(folder: Path, *entries: dict[str, object]) -> Dataset:
    file = folder / "mine.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return open_dataset(DatasetFormat.CUSTOM, file)


def sent(server) -> list[tuple[int, int]]:
    """Tokens of the prompt and tokens asked for, of every request the server saw."""
    return [(request["prompt_tokens"], request["parameters"]["max_tokens"]) for request in server.requests]


def hashes(server) -> list[str]:
    return [request["prompt_sha256"] for request in server.requests]


def test_each_answer_is_asked_to_be_as_long_as_the_one_that_was_recorded(simulate, tmp_path):
    server = simulate()
    dataset = conversations(tmp_path, *((10 + number, 5 + number) for number in range(20)))
    trial = server.measure(**LENGTHS, dataset=dataset, num_requests=8, warmup_requests=4, concurrency=2).trial
    assert (trial.completed, trial.failed) == (8, 0)
    seen = sent(server)
    assert len(set(seen)) == 12
    assert all(prompt - answer == 5 for prompt, answer in seen)
    assert list(trial.samples.output_tokens) == [answer for _, answer in seen[4:]]
    assert trial.workload["mean_input_tokens"] == sum(prompt for prompt, _ in seen[4:]) / 8


def test_what_is_kept_says_which_file_it_was_and_no_length_that_was_not_asked_for(simulate, tmp_path):
    dataset = conversations(tmp_path, *[(10, 5)] * 20)
    result = simulate().measure(**LENGTHS, dataset=dataset, num_requests=4)
    workload = result.trial.workload
    assert (workload["dataset"], workload["dataset_sha256"]) == ("sharegpt", dataset.sha256)
    assert not {"input_len", "output_len", "prefix_len"} & workload.keys()
    assert result.notes == ()


def test_one_length_may_be_asked_of_all_answers(simulate, tmp_path):
    server = simulate()
    dataset = conversations(tmp_path, *[(10, 1)] * 8)  # what was recorded does not matter then, nor 4 tokens
    trial = server.measure(input_len=0, output_len=2, dataset=dataset, num_requests=8).trial
    assert {answer for _, answer in sent(server)} == {2}
    assert trial.workload["output_len"] == 2


@pytest.mark.parametrize(
    "unfit",
    [(3, 50), (50, 3), (MAX_PROMPT_TOKENS + 1, 5), (1000, MAX_CONVERSATION_TOKENS - 999)],
    ids=["short prompt", "short answer", "long prompt", "long together"],
)
def test_conversations_that_vllms_client_leaves_out_are_left_out(simulate, tmp_path, unfit):
    server = simulate("--tpot", "0")
    fit = [(4, 4), (MAX_PROMPT_TOKENS, 5), (1000, MAX_CONVERSATION_TOKENS - 1000)]
    server.measure(**LENGTHS, dataset=conversations(tmp_path, *fit, unfit), num_requests=3)
    assert sorted(sent(server)) == sorted(fit)
    with pytest.raises(InputError, match="3 of 4 prompts can be sent, 4 are needed in a trial; send fewer requests"):
        server.measure(**LENGTHS, dataset=conversations(tmp_path, *fit, unfit), num_requests=3, warmup_requests=1)


def test_the_same_pass_sends_the_same_prompts_and_every_other_sends_others(simulate, tmp_path):
    dataset = conversations(tmp_path, *[(20, 4)] * 400)
    passes = [{"ordinal": 1}, {"ordinal": 1}, {"ordinal": 2}, {"scenario": "d"}, {"seed": 5}]
    servers = [simulate() for _ in passes]
    for server, how in zip(servers, passes, strict=True):
        server.measure(**LENGTHS, dataset=dataset, num_requests=6, concurrency=1, **how)
    first, again, *others = map(hashes, servers)
    assert first == again
    assert len(set(first)) == 6
    assert all(one != other for one, other in pairwise([first, *others]))


@pytest.mark.parametrize("count", [60, 59])
def test_passes_of_a_scenario_share_no_prompt_and_it_is_said_where_they_may(simulate, tmp_path, count):
    """Of conversations, a pass may look at two for each that it sends: here 20 of 60."""
    server = simulate()
    dataset = conversations(tmp_path, *[(20, 4)] * count)
    results = [
        server.measure(**LENGTHS, dataset=dataset, num_requests=8, warmup_requests=2, ordinal=ordinal)
        for ordinal in (1, 2, 3)
    ]
    assert len(set(hashes(server))) == 30
    again = "sharegpt.json holds 59 prompts: earlier trials may have sent the same, which a cache remembers"
    assert [result.notes for result in results] == [(), (), (again,) if count == 59 else ()]


def test_each_line_of_ones_own_is_sent_once_before_any_is_sent_again(simulate, tmp_path):
    server = simulate()
    dataset = lines(tmp_path, *({"prompt": words(number + 1), "output_tokens": 2} for number in range(12)))
    results = [server.measure(**LENGTHS, dataset=dataset, num_requests=4, ordinal=ordinal) for ordinal in (1, 2, 3, 4)]
    prompts = [prompt for prompt, _ in sent(server)]
    assert sorted(prompts[:12]) == list(range(1, 13))
    assert prompts[12:] == prompts[:4]
    assert [len(result.notes) for result in results] == [0, 0, 0, 1]


def test_which_prompts_were_sent_and_how_long_their_answers_were_to_be_is_kept_as_a_digest(simulate, tmp_path):
    def digest(answer: int = 4, **how: int) -> str:
        dataset = conversations(tmp_path, *[(20, answer)] * 60)
        return simulate().measure(**LENGTHS, dataset=dataset, num_requests=6, **how).trial.workload["prompts_sha256"]

    assert digest() == digest(warmup_requests=3)
    assert len({digest(), digest(ordinal=2), digest(answer=5)}) == 3


def test_a_text_too_long_to_be_counted_is_left_out_like_any_that_is_too_long(simulate, tmp_path):
    server = simulate("--tokenize", "words")
    file = tmp_path / "sharegpt.json"
    turns = [["x" * (MAX_CHARACTERS + 1), words(5)], [words(5), "x" * (MAX_CHARACTERS + 1)], [words(6), words(5)]]
    file.write_text(json.dumps([{"conversations": [{"value": text} for text in pair]} for pair in turns]))
    server.measure(**LENGTHS, dataset=open_dataset(DatasetFormat.SHAREGPT, file), num_requests=1)
    assert sent(server) == [(6, 5)]


def test_the_warm_up_shares_no_prompt_and_moves_none(simulate, tmp_path):
    dataset = conversations(tmp_path, *[(20, 4)] * 60)
    cold, warm = simulate(), simulate()
    cold.measure(**LENGTHS, dataset=dataset, num_requests=6, concurrency=1)
    warm.measure(**LENGTHS, dataset=dataset, num_requests=6, concurrency=1, warmup_requests=3)
    assert hashes(warm)[3:] == hashes(cold)
    assert not set(hashes(warm)[:3]) & set(hashes(cold))


def test_own_prompts_are_sent_whole_and_their_tokens_are_not_counted_before(simulate, tmp_path):
    server = simulate("--tokenize", "missing", "--tpot", "0")
    dataset = lines(tmp_path, *({"prompt": words(number), "output_tokens": 2000 + number} for number in (1, 2, 3000)))
    trial = server.measure(**LENGTHS, dataset=dataset, num_requests=3).trial
    assert sorted(sent(server)) == [(1, 2001), (2, 2002), (3000, 5000)]
    assert trial.workload["dataset"] == "custom"


def test_own_prompts_need_a_length_from_somewhere(simulate, tmp_path):
    server = simulate()
    dataset = lines(tmp_path, {"prompt": "a b", "output_tokens": 3}, {"prompt": "c d"})
    with pytest.raises(InputError, match="prompt 2 has no output_tokens, and the workload has no output_len; give one"):
        server.measure(**LENGTHS, dataset=dataset, num_requests=2)
    assert server.measure(input_len=0, output_len=4, dataset=dataset, num_requests=2).trial.completed == 2


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("missing", r"its /tokenize does not count the tokens of a prompt \(HTTP 404: Not Found\)"),
        ("garbage", r"\(no count in its answer\)"),
        ("hang", r"\(no answer within 0.5 s\)"),
    ],
)
def test_a_server_that_does_not_count_tokens_cannot_be_sent_conversations(simulate, tmp_path, how, says):
    server = simulate("--tokenize", how)
    dataset = conversations(tmp_path, *[(10, 5)] * 4)
    with pytest.raises(LoadError, match=says):
        server.measure(**LENGTHS, dataset=dataset, num_requests=2, limits=LoadLimits(request=0.5))
    assert sent(server) == []


def test_no_server_at_all_is_said_as_that(simulate, tmp_path):
    server = simulate()
    server.stop()
    with pytest.raises(LoadError, match="connection refused"):
        server.measure(**LENGTHS, dataset=conversations(tmp_path, (10, 5)), num_requests=1)


def test_an_answer_of_another_length_than_its_own_is_wrong(simulate, tmp_path):
    server = simulate("--short-every", "2")
    dataset = conversations(tmp_path, *[(10, 8)] * 8)
    result = server.measure(**LENGTHS, dataset=dataset, num_requests=6, concurrency=1)
    assert [(found.kind, found.count) for found in result.failures] == [(RequestFailureKind.WRONG_LENGTH, 3)]
    assert server.measure(**LENGTHS, dataset=dataset, num_requests=6, ignore_eos=False).trial.failed == 0


def test_tokens_that_the_server_does_not_count_are_not_guessed(simulate, tmp_path):
    """Chunks may stand for the answers' tokens, but nothing stands for the prompts'."""
    result = simulate("--no-usage-every", "1").measure(
        **LENGTHS, dataset=conversations(tmp_path, *[(10, 8)] * 4), num_requests=3
    )
    assert [(found.kind, found.count) for found in result.failures] == [(RequestFailureKind.NO_USAGE, 3)]


def test_a_length_that_fits_no_conversation_is_an_error_before_any_is_counted(simulate, tmp_path):
    server = simulate("--tokenize", "hang")
    dataset = conversations(tmp_path, *[(10, 8)] * 4)
    with pytest.raises(InputError, match="output_len is 2045, and a conversation may have 2048 tokens in all; ask for"):
        server.measure(input_len=0, output_len=2045, dataset=dataset, num_requests=1)


def test_an_open_loop_sends_recorded_prompts_too(simulate, tmp_path):
    dataset = conversations(tmp_path, *[(10, 4)] * 40)
    assert simulate().measure(**LENGTHS, dataset=dataset, request_rate=200.0, num_requests=20).trial.completed == 20


def test_without_recorded_prompts_lengths_are_needed():
    with pytest.raises(InputError, match="input_len is 0, must be at least 1"):
        LoadWorkload(input_len=0, output_len=1, num_requests=1)
