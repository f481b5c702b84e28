"""`waive`: permissions are added to the file without touching the rest of it, listed, and watched for their end."""

import tomllib
from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.app import authoring
from regress_gate.cli import waive

TODAY = datetime.now(UTC).date()
DETAILS = ("--max-change", "0.5", "--owner", "serving", "--reason", "until the router is out")
COMMENTED = "# ours\n[gate]  # decided in May\nblock_severity = 'high'\n"


@pytest.fixture(autouse=True)
def midnight_does_not_pass(monkeypatch):
    for module in (authoring, waive):
        monkeypatch.setattr(module, "today", lambda: TODAY)


def add(gate, finding, *more, days=30):
    return gate("waive", "add", finding, "--until", (TODAY + timedelta(days)).isoformat(), *DETAILS, *more)


def configured(gate, name="regress-gate.toml"):
    return gate.directory / name


class TestAdd:
    def test_the_first_one_makes_the_file(self, gate):
        assert add(gate, "c8/ttft_p99").out == "added to regress-gate.toml\n"
        (waiver,) = tomllib.loads(configured(gate).read_text())["waivers"]
        assert waiver == {
            "finding": "c8/ttft_p99",
            "until": TODAY + timedelta(30),
            "max_change": 0.5,
            "owner": "serving",
            "reason": "until the router is out",
        }

    def test_what_is_in_the_file_stays_byte_for_byte(self, gate):
        configured(gate).write_text(COMMENTED)
        for finding in ("c8/ttft_p99", "VLLM-1"):
            assert add(gate, finding).code == 0
        assert configured(gate).read_text().startswith(COMMENTED + "\n[[waivers]]\n")
        assert len(tomllib.loads(configured(gate).read_text())["waivers"]) == 2

    @pytest.mark.parametrize("before", [COMMENTED.rstrip(), COMMENTED.replace("\n", "\r\n")])
    def test_the_line_ends_of_the_file_are_kept(self, gate, before):
        configured(gate).write_bytes(before.encode())
        assert add(gate, "x").code == 0
        after = configured(gate).read_bytes().decode()
        assert after.startswith(before)
        assert after.count("\r\n") in (0, after.count("\n"))

    def test_permissions_of_the_file_are_kept(self, gate):
        configured(gate).write_text(COMMENTED)
        configured(gate).chmod(0o600)
        add(gate, "x")
        assert configured(gate).stat().st_mode & 0o777 == 0o600

    def test_in_pyproject_it_goes_into_our_table(self, gate):
        configured(gate, "pyproject.toml").write_text("[tool.regress-gate.gate]\nblock_severity = 'high'\n")
        assert add(gate, "x").code == 0
        assert tomllib.loads(configured(gate, "pyproject.toml").read_text())["tool"]["regress-gate"]["waivers"]

    @pytest.mark.parametrize(
        "text", ['"quoted" \\ back', "two\nlines", "tab\tand del\x7f", "ünïcode 🙂", "a = [1] # no"]
    )
    def test_any_text_comes_back_as_it_was_given(self, gate, text):
        assert add(gate, text, "--reason", text).code == 0
        (waiver,) = tomllib.loads(configured(gate).read_text())["waivers"]
        assert (waiver["finding"], waiver["reason"]) == (text, text)
        listed = gate("waive", "list").out
        assert listed.replace("\n", "").isprintable()

    @pytest.mark.parametrize(
        ("arguments", "hint"),
        [
            (["--until", "2020-01-01", *DETAILS], "--until: 2020-01-01 is over"),
            (["--until", "soon", *DETAILS], "'soon'"),
            (["--until", "2099-01-01", "--max-change", "0", *DETAILS[2:]], "max_change"),
            (["--until", "2099-01-01", "--max-change", "-0.1", *DETAILS[2:]], "max_change"),
            (["--until", "2099-01-01", "--max-change", "nan", *DETAILS[2:]], "max_change"),
            (["--until", "2099-01-01", "--max-change", "inf", *DETAILS[2:]], "max_change"),
            (["--until", "2099-01-01", *DETAILS, "--owner", " "], "owner"),
            (["--until", "2099-01-01", *DETAILS[:4]], "--reason"),
        ],
    )
    def test_a_hole_in_the_gate_is_refused_and_nothing_is_written(self, gate, arguments, hint):
        refused = gate("waive", "add", "x", *arguments)
        assert refused.code == 2
        assert hint in refused.error
        assert not configured(gate).exists()

    @pytest.mark.parametrize("text", ["waivers = []\n", "gate = {}\nwaivers = []"])
    def test_a_file_that_would_be_broken_by_it_is_left_as_it_is(self, gate, text):
        configured(gate).write_text(text)
        refused = add(gate, "x")
        assert refused.code == 2
        assert "[[waivers]]" in refused.error
        assert configured(gate).read_text() == text


class TestEffect:
    @pytest.fixture
    def slower(self, gate):
        gate.import_starts("0.19.1")
        gate.import_starts("0.20.0", speed=1.2)
        assert gate("compare", "v0.19.1", "v0.20.0").code == 1
        return gate

    def test_waived_losses_pass_and_the_report_names_the_waivers(self, slower):
        add(slower, "chat/*")
        done = slower("compare", "v0.19.1", "v0.20.0", "--format", "json")
        assert (done.code, done.json["decision"]) == (0, "pass")
        assert done.json["waivers"][0]["state"] == "used"

    def test_a_waiver_that_is_too_small_or_for_something_else_changes_nothing(self, slower):
        add(slower, "chat/*", "--max-change", "0.01")
        add(slower, "elsewhere/*")
        done = slower("compare", "v0.19.1", "v0.20.0", "--format", "json")
        assert done.code == 1
        assert [waiver["state"] for waiver in done.json["waivers"]] == ["exceeded", "unused"]

    def test_an_expired_waiver_counts_for_nothing(self, slower):
        add(slower, "chat/*")
        text = configured(slower).read_text().replace((TODAY + timedelta(30)).isoformat(), "2020-01-01")
        configured(slower).write_text(text)
        done = slower("compare", "v0.19.1", "v0.20.0", "--format", "json")
        assert done.code == 1
        assert done.json["waivers"][0]["state"] == "expired"

    def test_a_known_issue_can_be_waived_by_its_id(self, gate):
        check = ["check", "v0.20.0", "--from", "v0.19.1", "--accelerator", "H200", "--model"]
        check += ["mistralai/Mixtral-8x7B-v0.1", "--quantization", "none"]
        assert gate(*check).code == 1
        add(gate, "VLLM-41306")
        assert gate(*check).code == 0


class TestListAndCheck:
    def test_none(self, gate):
        assert gate("waive", "list").out == "there are no waivers\n"
        assert gate("waive", "check").code == 0

    def test_the_days_that_are_left_are_listed(self, gate):
        add(gate, "c8/ttft_p99", days=10)
        add(gate, "VLLM-1", days=0)
        lines = gate("waive", "list").out.splitlines()
        assert "10 days left" in lines[1]
        assert "0 days left" in lines[2]
        assert "50.0%" in lines[1]
        assert [one["days_left"] for one in gate("waive", "list", "--format", "json").json["waivers"]] == [10, 0]

    def test_a_scheduled_job_is_warned_of_what_has_expired_or_soon_will(self, gate):
        add(gate, "c8/ttft_p99", days=10)
        assert gate("waive", "check").code == 0
        assert gate("waive", "check", "--within", "9").code == 0
        soon = gate("waive", "check", "--within", "10")
        assert (soon.code, soon.out) == (1, "c8/ttft_p99 (serving): 10 days left\n")
        text = configured(gate).read_text().replace((TODAY + timedelta(10)).isoformat(), "2020-01-01")
        configured(gate).write_text(text)
        assert gate("waive", "check").code == 1
