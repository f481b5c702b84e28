"""From runs to rows: which runs belong together, and which earlier runs show the usual spread."""

from datetime import UTC, datetime

import numpy as np
import pytest

from regress_gate.gate.replicates import make_replicates, measurement_design, tabulate
from regress_gate.model.run import BlockPosition
from regress_gate.stats.design import InterimStage
from tests.factories.runs import make_run, make_trial

TTFT, STARTUP = ("c8", "ttft_median"), ("server", "startup_time")


def placed(side, block, ttft, *, version=None, experiment="e1", group="server", scenario="c8", most=None, **changes):
    version = version or {"baseline": "0.19.0", "candidate": "0.19.1"}[side]
    place = BlockPosition(experiment, block, 1 if side == "baseline" else 2, side, group=group, most_blocks=most)
    trial = make_trial(scenario, ttft_median=ttft)
    return make_run(f"{experiment}-{block}-{side}-{group}", version, trial, place=place, **changes)


def on_day(day, label, ttft, *, version="0.19.0", **changes):
    started = None if day is None else datetime(2026, 7, day, 9, 0, tzinfo=UTC)
    return make_run(label, version, make_trial(ttft_median=ttft), started=started, **changes)


class TestRows:
    def test_in_blocks_row_i_of_one_side_belongs_to_row_i_of_the_other(self):
        baseline = [placed("baseline", block, block / 10) for block in (3, 1, 2)]
        candidate = [placed("candidate", block, block / 5) for block in (2, 3, 1)]
        table = tabulate(make_replicates(baseline, candidate, paired=True), {})
        ours, theirs = table.values(TTFT)
        assert ours.tolist() == [0.1, 0.2, 0.3]
        assert theirs.tolist() == [0.2, 0.4, 0.6]

    def test_a_block_that_lacks_a_series_on_one_side_keeps_its_row(self):
        baseline = [placed("baseline", block, 0.1) for block in (1, 2)]
        candidate = [placed("candidate", 1, 0.1), placed("candidate", 2, None)]
        ours, theirs = tabulate(make_replicates(baseline, candidate, paired=True), {}).values(TTFT)
        assert ours.tolist() == [0.1, 0.1]
        assert theirs == pytest.approx([0.1, np.nan], nan_ok=True)

    def test_a_series_that_a_side_never_has_has_no_rows(self):
        baseline = [placed("baseline", block, None) for block in (1, 2)]
        candidate = [placed("candidate", block, 0.1) for block in (1, 2)]
        ours, theirs = tabulate(make_replicates(baseline, candidate, paired=True), {}).values(TTFT)
        assert len(ours) == 0
        assert len(theirs) == 2

    @pytest.mark.parametrize("paired", [True, False])
    def test_the_servers_of_a_suite_share_a_row(self, paired):
        sides = [
            [
                placed(side, block, 0.1 * block, group=f"server-{name}", scenario=name)
                for block in (1, 2)
                for name in ("a", "b")
            ]
            for side in ("baseline", "candidate")
        ]
        table = tabulate(make_replicates(*sides, paired=paired), {})
        for name in ("a", "b"):
            assert table.values((name, "ttft_median"))[0] == pytest.approx([0.1, 0.2])

    def test_runs_of_no_plan_are_rows_in_their_order(self):
        sides = [
            [on_day(1, f"{version}-{n}", n / 10, version=version) for n in (3, 1)] for version in ("0.19.0", "0.19.1")
        ]
        assert tabulate(make_replicates(*sides, paired=False), {}).values(TTFT)[0] == pytest.approx([0.3, 0.1])

    def test_what_a_server_does_once_stands_in_the_row_of_its_run(self):
        sides = [
            [make_run(f"{version}-{n}", version, metrics={"startup_time": 10.0 + n}) for n in (1, 2)]
            for version in ("0.19.0", "0.19.1")
        ]
        assert tabulate(make_replicates(*sides, paired=False), {}).values(STARTUP)[1].tolist() == [11.0, 12.0]


class TestHowTheyWereMade:
    def test_sides_of_one_experiment_or_day_were_together(self):
        together = make_replicates([placed("baseline", 1, 0.1)], [placed("candidate", 1, 0.1)], paired=True)
        same_day = make_replicates([on_day(1, "a", 0.1)], [on_day(1, "b", 0.1, version="0.19.1")], paired=False)
        assert not together.apart
        assert not same_day.apart

    def test_sides_of_different_days_were_apart(self):
        assert make_replicates([on_day(1, "a", 0.1)], [on_day(2, "b", 0.1, version="0.19.1")], paired=False).apart

    def test_a_session_is_an_experiment_else_a_day_else_unknown(self):
        assert placed("baseline", 1, 0.1, experiment="e7").session == "e7"
        assert on_day(3, "a", 0.1).session == datetime(2026, 7, 3, tzinfo=UTC).date()
        assert on_day(None, "a", 0.1).session is None

    @pytest.mark.parametrize(("most", "looks"), [(None, None), (8, InterimStage(2, 8)), (1, InterimStage(2, 2))])
    def test_a_plan_that_may_end_early_was_looked_at_after_every_block(self, most, looks):
        sides = [[placed(side, block, 0.1, most=most) for block in (1, 2)] for side in ("baseline", "candidate")]
        assert make_replicates(*sides, paired=True).interim == looks

    def test_the_most_blocks_of_all_plans_count(self):
        sides = [
            [placed(side, 1, 0.1, most=4), placed(side, 1, 0.1, most=9, experiment="e2")]
            for side in ("baseline", "candidate")
        ]
        assert make_replicates(*sides, paired=True).interim == InterimStage(2, 9)


class TestEarlier:
    def made(self, *, paired=False):
        if paired:
            return make_replicates([placed("baseline", 1, 0.1)], [placed("candidate", 1, 0.1)], paired=True)
        return make_replicates([on_day(1, "a", 0.1)], [on_day(2, "b", 0.1, version="0.19.1")], paired=False)

    def test_a_session_is_what_was_made_together_of_one_version(self):
        earlier = [
            *(on_day(10, f"a{n}", 0.1 + n, version="0.18.0") for n in (0, 1)),
            *(on_day(10, f"b{n}", 0.3 + n, version="0.18.1") for n in (0, 1, 2)),
            *(on_day(11, f"c{n}", 0.5 + n, version="0.18.0") for n in (0, 1)),
            on_day(12, "alone", 0.7),
            *(on_day(None, f"d{n}", 0.9) for n in (0, 1)),
        ]
        found = measurement_design(self.made(), [TTFT], earlier, {})
        assert [session[0].tolist() for session in found.earlier] == [[0.1, 1.1], [0.3, 1.3, 2.3], [0.5, 1.5]]
        assert found.apart

    def test_the_runs_that_are_compared_are_not_earlier_ones(self):
        made = make_replicates([on_day(1, "a", 0.1), on_day(1, "b", 0.2)], [on_day(2, "c", 0.1)], paired=False)
        assert measurement_design(made, [TTFT], [on_day(1, "a", 0.1), on_day(1, "b", 0.2)], {}).earlier == ()

    def test_a_series_that_earlier_runs_lack_has_gaps_there(self):
        earlier = [on_day(10, f"a{n}", 0.1) for n in (0, 1)]
        (session,) = measurement_design(self.made(), [TTFT, STARTUP], earlier, {}).earlier
        assert session[0].tolist() == [0.1, 0.1]
        assert np.isnan(session[1]).all()

    def test_of_earlier_blocks_the_ratio_of_the_sides_counts(self):
        earlier = [
            placed(side, block, ttft, experiment="e0")
            for block, ttfts in ((1, (0.1, 0.2)), (2, (0.1, 0.4)), (3, (0.1, None)))
            for side, ttft in zip(("baseline", "candidate"), ttfts, strict=True)
        ]
        found = measurement_design(self.made(paired=True), [TTFT], earlier, {})
        assert found.earlier[0][0] == pytest.approx([np.log(2), np.log(4), np.nan], nan_ok=True)
        assert found.paired
        assert not found.apart

    def test_an_experiment_of_one_whole_block_has_no_spread(self):
        earlier = [placed(side, 1, 0.1, experiment="e0") for side in ("baseline", "candidate")]
        earlier.append(placed("baseline", 2, 0.1, experiment="e0"))
        assert measurement_design(self.made(paired=True), [TTFT], earlier, {}).earlier == ()

    @pytest.mark.parametrize("value", [0.0, -1.0])
    def test_what_has_no_ratio_is_a_gap(self, value):
        earlier = [
            placed(side, block, value if block == 1 else 0.1, experiment="e0")
            for block in (1, 2)
            for side in ("baseline", "candidate")
        ]
        (session,) = measurement_design(self.made(paired=True), [TTFT], earlier, {}).earlier
        assert session[0] == pytest.approx([np.nan, 0.0], nan_ok=True)

    def test_fractions_have_no_ratio(self):
        earlier = [placed(side, block, 0.1, experiment="e0") for block in (1, 2) for side in ("baseline", "candidate")]
        (session,) = measurement_design(self.made(paired=True), [("c8", "failed_requests")], earlier, {}).earlier
        assert np.isnan(session[0]).all()

    @pytest.mark.parametrize("paired", [False, True])
    def test_only_those_trials_count_that_count_of_the_runs_compared(self, paired):
        """The first trial of a server is often its slowest; a run without one of those compared tells nothing."""

        def tried(block, *ttfts):
            trials = [make_trial(ordinal=ordinal, ttft_median=ttft) for ordinal, ttft in ttfts]
            return [
                make_run(
                    f"{block}-{side}",
                    version,
                    *trials,
                    place=BlockPosition("e0", block, 1, side),
                    metrics={"startup_time": 9.0},
                )
                for side, version in (("baseline", "0.18.0"), ("candidate", "0.18.1" if paired else "0.18.0"))
            ]

        earlier = [
            *tried(1, (1, 0.9), (2, 0.1), (3, 0.3)),
            *tried(2, (2, 0.2), (3, 0.2)),
            *tried(3, (1, 0.9), (2, 0.1)),
        ]
        (session,) = measurement_design(self.made(paired=paired), [TTFT, STARTUP], earlier, {"c8": {2, 3}}).earlier
        expected = [0.0, 0.0, np.nan] if paired else [0.2, 0.2, 0.2, 0.2, np.nan, np.nan]
        assert session[0] == pytest.approx(expected, nan_ok=True)
        assert np.isfinite(session[1]).all()
