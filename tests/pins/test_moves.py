"""Pins before and after a change, paired: properties that hold for any files and versions."""

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.model.version import Version
from regress_gate.pins.git_tree import EmptyTree
from regress_gate.pins.moves import Change, Outcome, find_moves, judge_moves
from regress_gate.pins.pin import Pin, Pinned

numbers = st.sampled_from(["0.18.0", "0.19.1", "0.30.0", "0.32.0", None])


def pin(file: str, place: str, number: str | None, line: int = 1, kind: str = "compose") -> Pin:
    version = None if number is None else Version.parse(number)
    return Pin(file, line, kind, place, Pinned("vllm", number or "latest", version, "" if version else "no version"))


def judged(before, after):
    return judge_moves(find_moves(before, after, EmptyTree(), EmptyTree()))


places = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), numbers), max_size=8, unique_by=lambda one: one[:2]
)


@given(places=places, lines=st.integers(1, 50), data=st.data())
def test_lines_and_folders_move_no_version(places, lines, data):
    before = [pin(f"{file}.yaml", place, number) for file, place, number in places]
    after = [pin(f"deploy/{file}.yaml", place, number, lines) for file, place, number in places]
    after = data.draw(st.permutations(after))
    assert judged(before, after).moves == []


@given(places=places, old=st.sampled_from(["0.18.0", "0.19.1"]), new=st.sampled_from(["0.30.0", "0.32.0"]))
def test_a_bump_of_all_is_one_move_and_the_way_back_too(places, old, new):
    before = [pin(file, place, old) for file, place, _ in places]
    after = [pin(file, place, new) for file, place, _ in places]
    forth, back = judged(before, after), judged(after, before)
    assert forth.outcome is (Outcome.MOVED if places else Outcome.UNCHANGED)
    if places:
        assert (str(forth.baseline), str(forth.candidate)) == (old, new)
        assert (str(back.baseline), str(back.candidate)) == (new, old)


@given(before=places, after=places)
def test_every_pin_is_accounted_for_once(before, after):
    old = [pin(file, place, number) for file, place, number in before]
    new = [pin(file, place, number) for file, place, number in after]
    moves = find_moves(old, new, EmptyTree(), EmptyTree())
    answer = judge_moves(moves)
    assert len({id(move.after) for move in moves if move.after}) == len([move for move in moves if move.after])
    assert all(one in old for one in (move.before for move in moves) if one is not None)
    assert all(one in new for one in (move.after for move in moves) if one is not None)
    targets = {str(move.target) for move in moves if move.target is not None}
    if answer.outcome is Outcome.MOVED:
        assert targets == {str(answer.candidate)}
    if len(targets) > 1:
        assert answer.outcome is Outcome.AMBIGUOUS
    if answer.outcome is Outcome.UNCHANGED:
        assert not [move for move in moves if move.change is Change.MOVED]


@given(before=places, after=places)
def test_the_order_of_the_files_does_not_matter(before, after):
    old = [pin(file, place, number) for file, place, number in before]
    new = [pin(file, place, number) for file, place, number in after]
    one, other = judged(old, new), judged(list(reversed(old)), list(reversed(new)))
    assert (one.outcome, one.baseline, one.candidate) == (other.outcome, other.baseline, other.candidate)


def test_an_image_and_a_wheel_of_one_release_are_one_target():
    before = [pin("Dockerfile", "FROM", "0.19.1"), pin("requirements.txt", "vllm", "0.19.1")]
    after = [pin("Dockerfile", "FROM", "0.32.0"), pin("requirements.txt", "vllm", "0.32.0+cu129")]
    answer = judged(before, after)
    assert (str(answer.baseline), str(answer.candidate)) == ("0.19.1", "0.32.0")


def test_the_variant_is_kept_where_all_name_it():
    answer = judged([pin("a", "x", "0.19.1+cu129")], [pin("a", "x", "0.32.0+cu130")])
    assert (str(answer.baseline), str(answer.candidate)) == ("0.19.1+cu129", "0.32.0+cu130")


def test_another_build_of_the_same_release_is_no_move():
    assert judged([pin("a", "x", "0.19.1+cu129")], [pin("a", "x", "0.19.1+cu130")]).moves == []


def test_two_nightlies_of_one_number_are_told_apart_by_their_commits():
    answer = judged([pin("a", "x", "0.23.1rc1.dev1+gaaaaaaaaa")], [pin("a", "x", "0.23.1rc1.dev1+gbbbbbbbbb")])
    assert answer.outcome is Outcome.MOVED


def test_a_short_number_is_the_same_release():
    assert judged([pin("a", "x", "0.19")], [pin("a", "x", "0.19.0")]).moves == []
