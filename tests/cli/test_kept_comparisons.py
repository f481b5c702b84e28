"""`compare` keeps its results in the store: which, when it does not, and that it never fails for that."""

import os
import sqlite3

import pytest

from regress_gate.store.repository import open_store

TOKEN = "hf_" + "a1b2c3d4e5f6"


def kept(gate):
    with open_store(f"sqlite:///{gate.store}", create=False) as store:
        return [(str(one.baseline), str(one.candidate), one.decision) for one in store.comparisons()]


@pytest.fixture
def stored(gate):
    for version, speed in (("0.19.1", 1.0), ("0.20.0", 1.0), ("0.21.0", 1.33)):
        assert gate.import_starts(version, speed=speed).code == 0
    return gate


def test_every_decision_is_kept_with_its_whole_result(stored):
    for candidate in ("0.20.0", "0.21.0"):
        shown = stored("compare", "0.19.1", candidate, "--format", "json")
    assert [(baseline, candidate) for baseline, candidate, _ in kept(stored)] == [
        ("0.19.1", "0.21.0"),
        ("0.19.1", "0.20.0"),
    ]
    assert kept(stored)[0][2] == shown.json["decision"] == "fail"
    with open_store(f"sqlite:///{stored.store}", create=False) as store:
        newest = store.comparisons()[0]
        assert store.comparison_document(newest.id) == shown.json
    assert "2 comparisons" in stored("db", "info").out


def test_the_same_comparison_again_is_kept_once(stored):
    for _ in range(3):
        stored("compare", "0.19.1", "0.21.0", "-q")
    assert len(kept(stored)) == 1
    stored.import_starts("0.21.0", speed=1.2)
    stored("compare", "0.19.1", "0.21.0", "-q")
    assert len(kept(stored)) == 2


def test_a_comparison_that_fails_or_is_not_to_be_kept_is_not(stored):
    assert stored("compare", "0.19.1", "0.99.0").code == 5
    assert stored("compare", "0.19.1", "0.21.0", "--output", "json:missing/gate.json").code == 2
    assert stored("compare", "0.19.1", "0.21.0", "--no-keep").code == 1
    assert kept(stored) == []


def test_without_a_store_none_is_made_and_only_v_says_so(gate):
    usual, verbose = (gate("compare", "v0.19.0", "v0.19.1", *more) for more in ([], ["-v"]))
    assert (usual.code, usual.err) == (0, "")
    assert verbose.err == (
        "regress-gate: note: the result is not kept in the store: "
        "there is no store yet; importing or measuring something makes one\n"
    )
    assert gate.bytes_of_store() is None


def test_shipped_versions_are_kept_where_there_is_a_store(gate):
    assert gate("baseline", "pin", "v0.19.1").code == 0
    gate("compare", "v0.19.0", "v0.19.1", "-q")
    assert kept(gate) == [("0.19.0+cpu", "0.19.1+cpu", "pass")]


def test_a_store_that_somebody_writes_to_does_not_fail_a_comparison(stored, monkeypatch):
    monkeypatch.setattr("regress_gate.app.compare.KEEPING_TIMEOUT", 0.05)
    writer = sqlite3.connect(stored.store, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        usual, verbose = (stored("compare", "0.19.1", "0.21.0", *more) for more in ([], ["-v"]))
    finally:
        writer.execute("ROLLBACK")
        writer.close()
    assert (usual.code, usual.err) == (1, "")
    assert "another process has been writing to the store for too long" in verbose.err
    assert kept(stored) == []


def test_a_store_that_may_only_be_read_does_not_fail_a_comparison(stored):
    with sqlite3.connect(stored.store) as connection:
        connection.execute("CREATE TRIGGER readers BEFORE INSERT ON comparison BEGIN SELECT RAISE(ABORT, 'no'); END")
    connection.close()
    usual = stored("compare", "0.19.1", "0.21.0", "-q")
    assert (usual.code, usual.out, usual.err) == (1, "", "")
    assert kept(stored) == []


def test_no_secret_is_kept(stored):
    line = f"vllm serve m/tiny --hf-token {TOKEN}"
    stored("compare", "0.19.1", "0.21.0", "-q", "--serve-command", line, "--env", f"HF_TOKEN={TOKEN}")
    with open_store(f"sqlite:///{stored.store}", create=False) as store:
        [found] = store.comparisons()
        assert TOKEN not in str(store.comparison_document(found.id))


def test_the_log_says_who_compared_with_which_waiver_and_when(stored, monkeypatch):
    monkeypatch.setenv("REGRESS_GATE_ACTOR", "ana")
    stored("compare", "0.19.1", "0.21.0", "-q")
    waiver = 'finding = "*"\nuntil = 2099-01-01\nmax_change = 0.9\nowner = "ops"\nreason = "known | until spring"\n'
    (stored.directory / "regress-gate.toml").write_text(f"[[waivers]]\n{waiver}")
    assert stored("compare", "0.19.1", "0.20.0", "-q").code == 0
    assert "waive" not in stored("db", "log").out, "it covered nothing"
    for _ in range(2):
        assert stored("compare", "0.19.1", "0.21.0", "-q").code == 0
    lines = [line for line in stored("db", "log").out.splitlines() if " waive " in line]
    assert [line.split("  ")[-1].strip() for line in lines] == [
        "waive * until 2099-01-01 (ops: known | until spring), pass against 0.19.1: 0.21.0 on lab, imported@1"
    ]
    assert " ana " in lines[0]
    (entry,) = [one for one in stored("db", "log", "--format", "json").json["entries"] if one["kind"] == "waive"]
    assert entry["waivers"] == [
        {
            "finding": "*",
            "until": "2099-01-01",
            "max_change": 0.9,
            "owner": "ops",
            "reason": "known | until spring",
        }
    ]


def test_pruning_says_how_many_comparisons_go_too(stored):
    stored("compare", "0.19.1", "0.21.0", "-q")
    listed = stored("baseline", "prune", "v0.21.0", "--dry-run").out
    assert listed == "0.21.0 on lab, imported@1: 6 runs, 1 comparison\n"
    assert len(kept(stored)) == 1
    assert stored("baseline", "prune", "v0.21.0", "--yes").code == 0
    assert kept(stored) == []


def test_the_python_api_reads_only(stored):
    import regress_gate as rg

    assert rg.compare("0.19.1", "0.21.0", store=os.fspath(stored.store)).decision == "fail"
    assert kept(stored) == []
