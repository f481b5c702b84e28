"""`check --recommend`: which release to go to, with what is not known about releases said."""

import json

import pytest

from tests.cli.test_known_issues import MIXTRAL
from tests.known.test_release_index import index

MIXTRAL_BF16 = (*MIXTRAL, "--quantization", "none")
OFFLINE = ("--offline", "--format", "json")


def test_the_recommended_release_is_checked(gate):
    done = gate("check", "--recommend", "--from", "v0.19.1", *MIXTRAL_BF16, *OFFLINE)
    assert (done.code, done.json["decision"]) == (0, "pass")
    version = done.json["candidate"]["version"]
    assert done.json["recommended"] == version
    assert done.json["advice"].startswith(f"The recommended version is {version}, published 20")
    assert done.err.startswith(
        "regress-gate: note: releases after 2026-11-22 are not known; name an index with release_index"
    )


def test_offline_no_index_is_asked(gate):
    with index(b"{}") as (url, asked):
        (gate.directory / "regress-gate.toml").write_text(f"[check]\nrelease_index = '{url}'\n")
        done = gate("check", "--recommend", "--from", "v0.19.1", *MIXTRAL_BF16, *OFFLINE)
    assert done.err == "regress-gate: note: offline: releases after 2026-11-22 are not known\n"
    assert asked == []


def test_a_version_that_is_named_is_checked_and_another_recommended(gate):
    done = gate("check", "v0.20.0", "--recommend", "--from", "v0.19.1", *MIXTRAL_BF16, *OFFLINE)
    assert (done.code, done.json["candidate"]["version"]) == (1, "0.20.0")
    assert "blocked by VLLM-41306" in done.json["advice"]
    assert f"The recommended version is {done.json['recommended']}," in done.json["advice"]
    assert done.json["recommended"] != "0.20.0"


def test_the_minimum_age_comes_from_a_flag_or_the_file(gate):
    flags = ("check", "--recommend", "--from", "v0.19.1", *MIXTRAL_BF16, *OFFLINE)
    (gate.directory / "regress-gate.toml").write_text("[check]\nmin_release_age_days = 365\n")
    done = gate(*flags)
    assert done.json["advice"].startswith("Stay on 0.19.1: no newer release passes")
    assert done.json["recommended"] is None
    assert gate(*flags, "--min-release-age", "0").json["advice"].startswith("The recommended version is ")


def test_releases_that_are_newer_than_the_program_come_from_the_index(gate):
    day = [{"upload_time": "2026-01-01T00:00:00"}]
    answer = json.dumps({"releases": {"0.29.0": day, "0.33.0": day, "0.99.0": day}}).encode()
    with index(answer) as (url, asked):
        (gate.directory / "regress-gate.toml").write_text(f"[check]\nrelease_index = '{url}'\n")
        done = gate("check", "--recommend", *MIXTRAL_BF16, "--format", "json")
    assert done.json["candidate"]["version"] == "0.29.0"
    assert "Passed over: 0.99.0 and 0.33.0: not reviewed for cuda" in done.json["advice"]
    assert (len(asked), done.err) == (1, "")


def test_an_index_that_is_down_is_said(gate):
    with index(b"", 503) as (url, _):
        (gate.directory / "regress-gate.toml").write_text(f"[check]\nrelease_index = '{url}'\n")
        done = gate("check", "--recommend", *MIXTRAL_BF16)
    assert "does not answer (" in done.err
    assert "are not known" in done.err


def test_without_a_version_one_has_to_be_asked_for(gate):
    done = gate("check", *MIXTRAL)
    assert done.code == 2
    assert "name a VERSION, or let --recommend choose one" in done.error


@pytest.mark.parametrize("days", ["-1", "366", "soon"])
def test_an_age_that_is_none_is_an_error(gate, days):
    assert gate("check", "--recommend", "--min-release-age", days).code == 2


@pytest.mark.parametrize(("version", "is_newer"), [("v0.33.0", False), ("v0.33.1", True), ("v9.9.9", True)])
def test_a_release_that_is_newer_than_the_list_is_said_to_be_one(gate, version, is_newer):
    coverage = gate("check", version, *MIXTRAL_BF16, "--format", "json").json["coverage"]
    assert coverage["covered"] is False
    assert (f"{version[1:]} is newer than all known releases (up to 0.33.0" in coverage["why"]) is is_newer


def test_a_release_that_the_index_knows_is_not_newer_than_the_list(gate):
    answer = json.dumps({"releases": {"0.34.0": [{"upload_time": "2026-11-20T00:00:00"}]}}).encode()
    with index(answer) as (url, asked):
        (gate.directory / "regress-gate.toml").write_text(f"[check]\nrelease_index = '{url}'\n")
        gate("check", "--recommend", *MIXTRAL_BF16, "--format", "json")
        coverage = gate("check", "v0.34.0", *MIXTRAL_BF16, "--format", "json").json["coverage"]
    assert coverage["why"].startswith("0.34.0 was not reviewed")
    assert len(asked) == 1, "a check alone asks nobody"
