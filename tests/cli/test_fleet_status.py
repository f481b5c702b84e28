"""`fleet status`: the hosts of a store by class, their noise and level, and one that has stepped away."""

from dataclasses import replace
from datetime import timedelta

import numpy as np

from tests.cli.test_compare_hosts import stored
from tests.factories.fleets import host_runs
from tests.factories.runs import NOW


def nights(count, *, hosts=3, step_at=None):
    """One experiment a night with two blocks on each host; host 0 becomes 12 % slower at one of them."""
    rng, runs = np.random.default_rng(3), []
    levels = rng.normal(0, 0.05, hosts)
    for night in range(count):
        slower = 0.12 if step_at is not None and night >= step_at else 0.0
        made = host_runs(rng, (2,) * hosts, host_cv=0.0, noise=0.01, scenarios=2)
        for run in made:
            host = int(run.testbed.name[1:])
            factor = np.exp(levels[host] + (slower if host == 0 else 0.0))
            trials = [
                replace(
                    trial,
                    started=NOW + timedelta(days=night, minutes=10 * run.place.block),
                    metrics={
                        **trial.metrics,
                        "ttft_median": trial.metrics["ttft_median"] * factor,
                        "output_throughput": trial.metrics["output_throughput"] / factor,
                    },
                )
                for trial in run.trials
            ]
            place = replace(run.place, experiment=f"night{night:02d}")
            started = NOW + timedelta(days=night, minutes=10 * run.place.block)
            label = f"{night}-{run.label}"
            runs.append(replace(run, label=label, place=place, started=started, trials=tuple(trials)))
    return runs


def hosts_of(shown):
    (only,) = shown.json["classes"]
    return {host["name"]: host for host in only["hosts"]}


def test_each_host_has_its_noise_its_level_and_its_last_block(gate):
    stored(gate, nights(5))
    hosts = hosts_of(gate("fleet", "status", "--format", "json"))
    assert sorted(hosts) == ["h0", "h1", "h2"]
    for host in hosts.values():
        assert host["runs"] == 20
        assert host["recent"] == {"runs": 20, "void": 0, "failed": 0, "sessions": 5}
        assert host["noise_interval"][0] < 0.01 < host["noise_interval"][1]
        assert host["level_interval"][0] < host["level"] < host["level_interval"][1]
        assert host["last"].startswith((NOW + timedelta(days=4)).date().isoformat())
        assert host["steps"] == []
    assert abs(np.mean([np.log1p(host["level"]) for host in hosts.values()])) < 1e-9


def test_a_host_that_steps_away_from_the_others_is_named_with_the_day(gate):
    stored(gate, nights(20, step_at=12))
    hosts = hosts_of(gate("fleet", "status", "--format", "json"))
    (step,) = hosts["h0"]["steps"]
    assert 0.06 < step["change"] < 0.18
    assert step["since"].startswith((NOW + timedelta(days=12)).date().isoformat())
    shown = gate("fleet", "status")
    assert shown.code == 0
    assert "h0 stepped away from the others of its class in chat@1" in shown.out


def test_void_runs_are_counted(gate):
    runs = nights(3, hosts=2)
    stored(gate, [replace(run, void="disturbed") if run.place.block == 1 else run for run in runs])
    hosts = hosts_of(gate("fleet", "status", "--format", "json"))
    assert [hosts[name]["recent"]["void"] for name in ("h0", "h1")] == [6, 0]


def test_hosts_of_other_hardware_are_a_class_of_their_own(gate):
    runs = nights(3, hosts=2)
    other = [
        replace(run, testbed=replace(run.testbed, cpu_count=64)) if run.testbed.name == "h1" else run for run in runs
    ]
    stored(gate, other)
    shown = gate("fleet", "status", "--format", "json").json["classes"]
    assert [[host["name"] for host in one["hosts"]] for one in shown] == [["h0"], ["h1"]]
    assert shown[0]["hosts"][0]["level"] is None
    assert [one["machine"]["cpu_count"] for one in shown] == [16, 64]


def test_hosts_without_a_version_in_common_have_no_level(gate):
    stored(gate, [run for run in nights(3, hosts=2) if (run.testbed.name == "h0") == (str(run.version) == "0.19.0")])
    assert [host["level"] for host in hosts_of(gate("fleet", "status", "--format", "json")).values()] == [None, None]


def test_the_table_has_a_line_for_each(gate, snapshot):
    stored(gate, nights(3))
    assert gate("fleet", "status", "--testbed", "h[01]").out == snapshot


def test_without_stored_runs_it_says_so(gate):
    refused = gate("fleet", "status")
    assert (refused.code, refused.out) == (5, "")
    assert "no stored runs" in refused.err
