"""Which runs of two versions are compared: those made side by side, if there are any."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.gate.replicates import pair_runs
from regress_gate.model.run import BlockPosition, Run
from tests.factories.runs import make_run, make_side_of


def placed(version: str, experiment: str, *blocks: int, side: str = "baseline", group: str = "server") -> list[Run]:
    return [
        make_run(
            f"{experiment}/{block}/{group}/{side}",
            version,
            place=BlockPosition(experiment, block, 1, side, group=group),
        )
        for block in blocks
    ]


def test_where_no_block_holds_both_all_runs_are_taken() -> None:
    found = pair_runs(placed("0.19.0", "spring", 1, 2), placed("0.19.1", "autumn", 1, 2))
    assert (len(found.baseline), len(found.candidate), found.blocks, found.left_out) == (2, 2, 0, 0)
    assert not found.is_side_by_side


def test_only_whole_blocks_count_where_there_are_any() -> None:
    calibrated = placed("0.19.0", "calibration", 1, 2, 3)
    baseline = [*calibrated, *placed("0.19.0", "e1", 1, 2, 3)]
    candidate = placed("0.19.1", "e1", 1, 3, side="candidate")
    found = pair_runs(baseline, candidate)
    assert [run.label for run in found.baseline] == ["e1/1/server/baseline", "e1/3/server/baseline"]
    assert (len(found.candidate), found.blocks, found.left_out) == (2, 2, 4)


def test_results_without_a_place_stand_back_behind_blocks() -> None:
    imported = [make_run(f"run{n}", "0.19.0") for n in range(3)]
    blocks = placed("0.19.0", "e1", 1), placed("0.19.1", "e1", 1, side="candidate")
    assert pair_runs([*imported, *blocks[0]], blocks[1]).left_out == 3
    assert pair_runs(imported, [make_run("run1", "0.19.1")]).left_out == 0


def test_of_several_servers_the_one_with_the_fewest_blocks_says_how_many_there_are() -> None:
    both = [
        [*placed(version, "e1", 1, 2, side=side, group="a"), *placed(version, "e1", 1, side=side, group="b")]
        for version, side in (("0.19.0", "baseline"), ("0.19.1", "candidate"))
    ]
    assert pair_runs(*both).blocks == 1


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 3)), unique=True), st.data())
def test_what_is_kept_is_in_blocks_of_both_or_everything(places: list[tuple[str, int]], data: st.DataObject) -> None:
    sides = []
    for version, side in (("0.19.0", "baseline"), ("0.19.1", "candidate")):
        chosen = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
        sides.append([run for name, block in chosen for run in placed(version, name, block, side=side)])
    found = pair_runs(*sides)
    kept = [{(run.place.experiment, run.place.block) for run in side} for side in (found.baseline, found.candidate)]
    assert found.left_out == sum(map(len, sides)) - len(found.baseline) - len(found.candidate)
    if found.is_side_by_side:
        assert kept[0] == kept[1]
        assert len(kept[0]) == found.blocks
    else:
        assert (list(found.baseline), list(found.candidate)) == (sides[0], sides[1])


def test_a_run_that_was_void_when_it_was_made_stays_so() -> None:
    side = make_side_of("0.19.0", replace(make_run(), void="0 of 1 trials of c1 could be used"), make_run("2"))
    assert [run.label for run in side.counted] == ["2"]
    assert side.void[0].reason == "0 of 1 trials of c1 could be used"
