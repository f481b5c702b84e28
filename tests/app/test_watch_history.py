"""What the watch says over many builds: pictures of a series, and steps that no single look decides on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from regress_gate.app.history import SuiteOnTestbed
from regress_gate.app.settings import Settings
from regress_gate.app.watch_history import changes_so_far, measured_levels, with_charts
from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredLook
from tests.factories.results import a_result, a_series
from tests.factories.runs import SUITE, TESTBED, make_run, make_trial
from tests.factories.watching import a_finding

MONDAY = datetime(2027, 1, 4, 4, 17, tzinfo=UTC)
NAME = "chat-c8/output_throughput"


def a_stored_look(week: int, **data: object) -> StoredLook:
    begun = MONDAY + timedelta(weeks=week)
    return StoredLook(f"week-{week}", "lab small@1", begun, begun, Version.parse(f"0.40.1.dev{week}"), data)


def test_a_look_keeps_the_levels_of_what_gates() -> None:
    shown = a_series("c8", "ttft_median", means=(0.1, 0.11))
    result = a_result(
        series=[shown, a_series("c8", "tpot_median", gated=False), a_series("c8", "itl_p99", means=(0.1, None))]
    )
    assert measured_levels(result) == {"levels": {"c8/ttft_median": 0.11}}
    assert measured_levels(a_result(series=[])) == {}


def test_a_finding_has_a_picture_of_its_worst_series_over_the_builds() -> None:
    looks = [a_stored_look(week, levels={NAME: 512.0 - 10 * week}) for week in range(3)]
    finding = a_finding(first_bad=looks[1].candidate, charts=())
    ((name, chart),) = with_charts(finding, [*looks, a_stored_look(3, kind="check")]).charts
    assert (name, chart.values, chart.marks) == (NAME, (512.0, 502.0, 492.0), (1,))
    assert (chart.first, chart.last, chart.write(492.0)) == ("0.40.1.dev0", "0.40.1.dev2", "492.0 tok/s")
    assert with_charts(finding, looks[:1]).charts == ()


def measured(settings: Settings, step: float) -> None:
    """Fourteen nightlies, each with three server starts, and a step in the middle."""
    with open_store(str(settings.store_url.value), create=True) as store:
        for week, start in product(range(14), range(3)):
            level = 0.1 * (1 + step * (week >= 7)) * (1 + 0.003 * ((start * 7 + week * 5) % 3 - 1))
            trial = make_trial(ttft_median=level)
            trial = replace(trial, source=replace(trial.source, sha256=f"{100 * week + start:064d}"))
            begun = MONDAY + timedelta(weeks=week, minutes=start)
            store.add_runs([make_run(f"{week} {start}", f"0.40.1.dev{week}", trial, started=begun)])


@pytest.mark.parametrize(("step", "is_seen"), [(0.035, True), (0.0, False), (-0.035, False)])
def test_a_loss_below_the_margin_of_a_look_is_named_over_many(tmp_path: Path, step: float, is_seen: bool) -> None:
    settings = Settings(store_flag=f"sqlite:///{tmp_path / 'store.db'}")
    measured(settings, step)
    place = SuiteOnTestbed(TESTBED.name, SuiteRef(SUITE.name, SUITE.version), None)
    texts = changes_so_far(settings, place, Version.parse("0.40.1.dev13"))
    assert [text.startswith("c8/ttft_median: step of +3.") for text in texts] == [True] * is_seen
    assert all(", worse, at 0.40.1.dev7, between 0.40.1.dev6 and 0.40.1.dev7" in text for text in texts)
    assert changes_so_far(settings, place, Version.parse("0.41.0")) == []
