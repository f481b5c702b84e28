"""`check` beyond what was reviewed: not knowing is never a pass."""

import pytest

from tests.cli.test_check_acceptance import DENSE, MIXTRAL
from tests.cli.test_known_issues import SCHEMA, checked, issue

CPU = ("--platform", "cpu", *DENSE[2:])


def reasons(result):
    return [reason["code"] for reason in result["reasons"]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("v0.33.0", "--from", "v0.32.0", *DENSE), "0.33.0 was not reviewed; the review for cuda reaches"),
        (("v0.33.0", "--from", "v0.19.1", *DENSE), "0.30.0 to 0.33.0 were not reviewed"),
        (("v9.99.0", "--from", "v0.19.1", *DENSE), "9.99.0 is newer than all known releases"),
        (("v9.99.0", *DENSE), "9.99.0 is newer than all known releases"),
        (("v0.19.7", "--from", "v0.19.1", *DENSE), "there is no release 0.19.7: the nearest is 0.19.1"),
        (("v0.24.0", "--from", "v0.23.0", *CPU), "0.24.0 was not reviewed; the review for cpu reaches"),
        (("v0.19.1", "--from", "v0.19.0", "--accelerator", "TPU v6e", *DENSE[2:]), "no release was reviewed for tpu"),
        (("v0.19.1", "--from", "v0.19.0", "--accelerator", "Gaudi3", *DENSE[2:]), "no release was reviewed for gaudi"),
        (("v0.19.1", "--from", "v0.19.0", *DENSE[2:]), "the platform is not known"),
    ],
)
def test_a_version_without_review_is_inconclusive(gate, arguments, why):
    result = checked(gate, "check", *arguments)
    assert (result["decision"], result["exit_code"]) == ("inconclusive", 3)
    assert "not_covered" in reasons(result)
    assert "no_blocking_issue" not in reasons(result)
    assert result["coverage"]["covered"] is False
    assert why in result["coverage"]["why"]
    assert why in next(reason["text"] for reason in result["reasons"] if reason["code"] == "not_covered")


@pytest.mark.parametrize("format_", ["table", "markdown"])
def test_the_report_says_how_far_the_review_reaches_and_what_to_do(gate, format_):
    done = gate("check", "v0.33.0", "--from", "v0.32.0", *DENSE, "--format", format_)
    text = " ".join(done.out.replace("\\", "").split())
    assert done.code == 3
    assert "0.33.0 was not reviewed; the review for cuda reaches from 0.6.0 to 0.29.0" in text
    told = gate("check", "v0.33.0", "--from", "v0.32.0", *DENSE, "--format", "json").json["coverage"]
    assert told["records_in_interval"] > 0
    assert f"{told['records_in_interval']} records for cuda begin or end between the two versions" in text
    assert "compare 0.32.0 0.33.0" in text


@pytest.mark.parametrize("format_", ["table", "markdown"])
def test_a_covered_move_says_so_too(gate, format_):
    done = gate("check", "v0.19.1", "--from", "v0.19.0", *DENSE, "--format", format_)
    assert done.code == 0
    assert "reviewed through 0.29.0 (the whole tracker was read, 2026-11-21)" in " ".join(done.out.split())


def test_coverage_in_json_is_that_of_the_contract(gate):
    found = checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL)["coverage"]
    assert (found["platform"], found["reviewed_through"], found["covered"]) == ("cuda", "0.29.0", True)
    assert found["records_in_interval"] > 0


@pytest.mark.parametrize(("policy", "code"), [("pass", 0), ("fail", 1)])
def test_a_team_that_rolls_out_decides_what_not_knowing_means(gate, policy, code):
    done = gate("check", "v0.33.0", "--from", "v0.32.0", *DENSE, "--on-inconclusive", policy, "--format", "json")
    assert (done.code, done.json["decision"]) == (code, "inconclusive")


def test_a_blocking_issue_outweighs_a_missing_review(gate):
    flags = ("--accelerator", "MI355X", "--model", "zai-org/GLM-5.3")
    result = checked(gate, "check", "v0.31.0", "--from", "v0.28.0", *flags)
    assert (result["decision"], result["exit_code"]) == ("fail", 1)
    assert {"known_issue", "not_covered"} <= set(reasons(result))
    assert "blocked by VLLM-54924" in result["advice"]


def test_without_a_platform_the_accelerator_is_asked_for(gate):
    assert "--accelerator" in checked(gate, "check", "v0.19.1", "--from", "v0.19.0")["advice"]


class TestVersionsThatNeverExisted:
    def test_one_to_move_to_is_inconclusive_and_the_nearest_is_named(self, gate):
        result = checked(gate, "check", "v0.19.7", "--from", "v0.19.0", *DENSE)
        assert (result["exit_code"], result["coverage"]["nearest_release"]) == (3, "0.19.1")
        assert result["advice"].startswith("There is no release 0.19.7: check 0.19.1, the nearest.")

    def test_one_to_come_from_is_refused_with_the_nearest(self, gate):
        done = gate("check", "v0.20.0", "--from", "v0.19.7", *DENSE)
        assert (done.code, done.out) == (2, "")
        assert done.error == "--from: vLLM 0.19.7 was never released; the nearest release is 0.19.1"

    def test_one_that_is_stored_exists(self, gate):
        gate.import_starts("v0.19.7")
        assert gate("check", "v0.20.0", "--from", "v0.19.7", *DENSE).code == 0

    @pytest.mark.parametrize("base", ["v0.34.0", "v9.99.0"])
    def test_one_that_is_newer_than_all_known_ones_is_said_to_be(self, gate, base):
        done = checked(gate, "check", "v0.29.0", "--from", base, *DENSE)
        assert (done["exit_code"], done["decision"]) == (3, "inconclusive")
        (reason,) = [one for one in done["reasons"] if one["code"] == "not_covered"]
        assert f"{base[1:]}, which runs now, is no known release: the newest is 0.33.0 of 2026-" in reason["text"]
        assert done["coverage"]["too_new"] == base[1:]
        assert done["advice"].startswith(f"If {base[1:]} is a slip, name the version that runs now; if it was released")

    @pytest.mark.parametrize("base", ["0.19.2.dev1+g1234567", "commit:1234567", "0.19.7+acme", "v0.34.0", "0.20.0rc1"])
    def test_what_may_exist_is_not_refused(self, gate, base):
        assert gate("check", "v0.20.0", "--from", base, *DENSE).code in (0, 3)


class TestDowngrade:
    MOVE = ("check", "v0.22.1", "--from", "v0.23.0", *MIXTRAL)

    def test_what_the_newer_version_fixed_comes_back_and_blocks(self, gate):
        result = checked(gate, *self.MOVE)
        assert (result["move"], result["exit_code"]) == ("downgrade", 1)
        found = issue(result, "VLLM-41306")
        assert (found["effect"], found["blocks"]) == ("new", True)

    def test_what_the_newer_version_brought_is_left_behind(self, gate):
        result = checked(gate, "check", "v0.19.1", "--from", "v0.20.0", *MIXTRAL)
        assert (issue(result, "VLLM-41306")["effect"], result["decision"]) == ("resolved", "pass")
        assert "No known issue stops a downgrade to 0.19.1" in result["advice"]

    @pytest.mark.parametrize("format_", ["table", "markdown"])
    def test_it_is_called_one(self, gate, format_):
        out = gate(*self.MOVE, "--format", format_).out
        assert "0.23.0 → 0.22.1 (a downgrade)" in out.replace("\\", "")
        assert "Comes back with the older version" in out
        assert "New with this move" not in out


class TestRecommendation:
    def test_it_is_the_newest_reviewed_release_that_nothing_blocks(self, gate):
        done = gate("check", "--recommend", "--from", "v0.26.0", *DENSE, "--offline", "--format", "json")
        assert (done.code, done.json["candidate"]["version"], done.json["coverage"]["covered"]) == (0, "0.29.0", True)
        assert "Passed over: 0.33.0 to 0.30.0: not reviewed for cuda." in done.json["advice"]

    def test_where_nothing_is_reviewed_none_is_recommended(self, gate):
        done = gate("check", "--recommend", "--from", "v0.31.0", *DENSE, "--offline", "--format", "json")
        assert (done.code, done.json["decision"]) == (3, "inconclusive")
        assert "no newer release passes (0.33.0 and 0.32.0: not reviewed for cuda)" in done.json["advice"]

    def test_without_a_platform_none_is_recommended(self, gate):
        done = gate("check", "--recommend", "--from", "v0.26.0", *DENSE[2:], "--offline", "--format", "json")
        assert done.code == 3
        assert "to 0.27.0: platform not known" in done.json["advice"]


class TestCompare:
    @pytest.fixture
    def measured(self, gate):
        for version in ("v0.19.0", "v0.32.0", "v0.33.0"):
            gate.import_starts(version)
        return gate

    @pytest.mark.parametrize("format_", ["table", "markdown"])
    def test_a_measured_pass_stays_one_and_the_report_says_that_no_review_reaches_it(self, measured, format_):
        flags = ("compare", "v0.32.0", "v0.33.0", *DENSE)
        done = measured(*flags, "--format", "json")
        SCHEMA.validate(done.json)
        assert (done.code, done.json["decision"]) == (0, "pass")
        assert done.json["coverage"]["covered"] is False
        text = " ".join(measured(*flags, "--format", format_).out.split())
        known = text.partition("Known issues")[2]
        assert "Not covered: 0.33.0 was not reviewed" in known

    def test_without_an_accelerator_the_records_that_may_apply_are_not_listed(self, measured):
        done = measured("compare", "v0.19.0", "v0.33.0")
        text = " ".join(done.out.split())
        assert "Not covered: the platform is not known (--accelerator)" in text
        found = measured("compare", "v0.19.0", "v0.33.0", "--format", "json").json["known_issues"]
        open_ = [one["id"] for one in found if one["applies"] == "unknown"]
        assert len(open_) > 100, "JSON has everything"
        assert not any(f"{id_}," in done.out for id_ in open_)
        assert "name the accelerator (--accelerator)" in text

    def test_the_accelerator_of_an_import_is_used(self, gate):
        for version in ("v0.19.0", "v0.33.0"):
            gate.import_starts(version, "--testbed-fact", "accelerator=H200")
        assert gate("compare", "v0.19.0", "v0.33.0", "--format", "json").json["coverage"]["platform"] == "cuda"
