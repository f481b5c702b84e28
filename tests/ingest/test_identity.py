"""Whose result a file is: flags, metadata, sidecar and path, which must not contradict each other."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest

from regress_gate.errors import InputError
from regress_gate.ingest.identity import IdentityFlags, PathPattern, merge_versions
from regress_gate.ingest.interface import FileOutcome
from regress_gate.model.run import IMPORTED_SUITE, SuiteRef
from regress_gate.model.version import Version
from tests.factories.serve_results import console, detailed, import_all, made_up, plain, write
from tests.ingest.formats.guidellm_results import as_json
from tests.ingest.formats.samples import SAMPLES
from tests.ingest.formats.test_guidellm import unclear

NO_FLAGS = IdentityFlags.parse()


def flags(**more):
    return IdentityFlags.parse(**{"version": "0.19.1", "testbed": "box", **more})


def the_run(*paths, flags):
    intake = import_all(*paths, flags=flags)
    assert [report.reason for report in intake.files if report.outcome is FileOutcome.REFUSED] == []
    (run,) = intake.runs
    return run


def the_refusal(*paths, flags) -> str:
    (reason,) = [r.reason for r in import_all(*paths, flags=flags).files if r.outcome is FileOutcome.REFUSED]
    return reason


def test_flags_say_it_for_all_files(tmp_path):
    path = write(tmp_path / "r.json", plain(made_up()))
    given = flags(suite="llama@2", scenario="chat", run="night-7", testbed_facts={"accelerator": "H100"})
    run = the_run(path, flags=given)
    assert (str(run.version), run.testbed.name, run.testbed.accelerator) == ("0.19.1", "box", "H100")
    assert (run.suite, run.label, run.trials[0].scenario) == (SuiteRef("llama", "2"), "night-7", "chat")


def test_metadata_in_the_file_states_identity(tmp_path):
    said = {
        "vllm_version": "v0.20.0",
        "testbed": "lab-3",
        "gpu": "H200",
        "scenario": "chat",
        "run": "4",
        "suite": "s@1",
    }
    run = the_run(write(tmp_path / "r.json", plain(made_up(), **said)), flags=NO_FLAGS)
    assert (str(run.version), run.testbed.name, run.testbed.accelerator) == ("0.20.0", "lab-3", "H200")
    assert (run.label, run.trials[0].scenario, str(run.suite)) == ("4", "chat", "s@1")


SIDECAR = {
    "version": "0.19.1",
    "run": 2,
    "started_unix": 1795227351,
    "startup_s": 51.25,
    "client": "vllm 0.32.0 bench serve",
    "outside_cpu_cores_mean": 0.02,
    "outside_cpu_cores": {"c4-r1": 0.03, "c4-r2": None},
    "memory_mb_total": 2899,
    "testbed": {"name": "box", "cpu_count": 8},
    "suite": "tiny@1",
    "libraries": {"torch": "2.10.0"},
}


def test_the_sidecar_describes_the_run_and_is_not_a_result(tmp_path):
    for number in (1, 2):
        write(tmp_path / f"c4-r{number}.json", plain(made_up(number)))
    write(tmp_path / "conditions.json", SIDECAR)
    intake = import_all(tmp_path, flags=NO_FLAGS)
    (run,) = intake.runs
    assert intake.complete
    assert (run.label, run.testbed.cpu_count, str(run.suite)) == ("2", 8, "tiny@1")
    assert run.metrics == {"startup_time": 51.25, "peak_memory": 2899e6}
    assert run.started == datetime.fromtimestamp(1795227351, UTC)
    assert run.conditions.outside_cpu_cores == 0.02
    assert run.libraries == {"torch": "2.10.0"}
    assert [trial.conditions.outside_cpu_cores for trial in run.trials] == [0.03, None]
    assert run.trials[0].source.client_version == "vllm 0.32.0 bench serve"


@pytest.mark.parametrize(
    ("sidecar", "reason"),
    [
        ({"versoin": "0.19.1"}, "unknown key 'versoin' (did you mean 'version'?)"),
        ({"startup_s": "51"}, "startup_s"),
        ({"startup_s": -1}, "startup_s"),
        ({"started_unix": 1e15}, "started_unix"),
        ({"outside_cpu_cores": {"r": -0.5}}, "outside_cpu_cores"),
        ({"version": "latest and greatest"}, "is not a vLLM version"),
        ({"suite": "no-version"}, "write NAME@VERSION"),
        ([1], "expected keys and values"),
    ],
)
def test_a_sidecar_that_cannot_be_trusted_refuses_the_results_beside_it(tmp_path, sidecar, reason):
    path = write(tmp_path / "r.json", plain(made_up()))
    write(tmp_path / "conditions.json", sidecar)
    said = the_refusal(path, flags=flags())
    assert "conditions.json" in said
    assert reason in said


def test_a_broken_sidecar_refuses_the_results_beside_it(tmp_path):
    path = write(tmp_path / "r.json", plain(made_up()))
    write(tmp_path / "conditions.json", '{"version": ')
    assert "conditions.json is not usable" in the_refusal(path, flags=flags())


def test_the_path_states_identity_by_a_pattern(tmp_path):
    places = itertools.product(("0.19.0", "0.19.1"), (1, 2), (1, 2))
    for seed, (version, number, trial) in enumerate(places):  # equal seeds would be copies, which are left out
        write(tmp_path / version / f"run{number}" / f"c4-r{trial}.json", plain(made_up(seed)))
    pattern = "{version}/run{run}/{scenario}-r{trial}.json"
    intake = import_all(tmp_path, flags=IdentityFlags.parse(testbed="box", pattern=pattern))
    assert sorted((str(run.version), run.label) for run in intake.runs) == [
        (version, label) for version in ("0.19.0", "0.19.1") for label in ("1", "2")
    ]
    for run in intake.runs:
        assert [(trial.scenario, trial.ordinal) for trial in run.trials] == [("c4", 1), ("c4", 2)]
        assert run.suite == IMPORTED_SUITE


def test_a_path_that_does_not_fit_the_pattern_is_refused(tmp_path):
    path = write(tmp_path / "r.json", plain(made_up()))
    assert "does not end like --pattern" in the_refusal(path, flags=flags(pattern="{version}/{scenario}-c.json"))


@pytest.mark.parametrize(
    ("pattern", "path", "fields"),
    [
        ("{version}/{scenario}.json", "/a/0.19.1/chat.json", {"version": "0.19.1", "scenario": "chat"}),
        ("/{version}/x.json", "/a/0.19.1/x.json", {"version": "0.19.1"}),
        ("v{version}_*.json", "/a/v0.19.1_anything.json", {"version": "0.19.1"}),
        ("{scenario}-r{trial}.json", "/a/long-context-r12.json", {"scenario": "long-context", "trial": "12"}),
        ("{version}/{scenario}.json", "/0.19.1/deep/er/chat.json", {"version": "er", "scenario": "chat"}),
        ("{run}.json", "/a/b.json.bak", None),
        ("{run}.json", "/a/bXjson", None),
        ("r{run}(.*)+[a-z].json", "/a/r1(.*)+[a-z].json", {"run": "1"}),
    ],
)
def test_patterns_match_the_end_of_the_path_literally(pattern, path, fields):
    assert PathPattern.parse(pattern).match(PurePosixPath(path)) == fields


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("{verison}/x.json", "did you mean 'version'"),
        ("{version}/{version}.json", "given twice"),
        ("{version}{run}.json", "without text between them"),
        ("*{run}.json", "without text between them"),
        ("x.json", "holds no field"),
        ("{version", "without its partner"),
        ("version}", "without its partner"),
        ("{run}" + "/*x" * 5, "more than 4 stars"),
        ("{run}" + "x" * 300, "longer than 300"),
    ],
)
def test_patterns_that_cannot_be_meant_are_refused(pattern, reason):
    with pytest.raises(InputError, match="--pattern") as caught:
        PathPattern.parse(pattern)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("given", "metadata", "sidecar", "reason"),
    [
        (
            {"version": "0.19.1"},
            {"version": "0.19.0"},
            {},
            "version is 0.19.1 by --version and 0.19.0 by the file (version)",
        ),
        (
            {"version": "0.19.1"},
            {},
            {"version": "0.20.0"},
            "version is 0.19.1 by --version and 0.20.0 by conditions.json",
        ),
        ({}, {"vllm_version": "0.19.1", "engine_version": "0.20.0"}, {}, "the file (engine_version)"),
        ({}, {"version": "0.19.1"}, {"version": "0.20.0"}, "by the file (version) and 0.20.0 by conditions.json"),
        (
            {"testbed": "a"},
            {},
            {"testbed": "b", "version": "1.0"},
            "testbed is a by --testbed and b by conditions.json",
        ),
        (
            {"testbed": "a", "testbed_facts": {"accelerator": "H100"}},
            {"gpu": "H200"},
            {"version": "1.0"},
            "has accelerator H100, the file (gpu) says H200",
        ),
        ({"run": "1"}, {}, {"run": 2, "version": "1.0"}, "run is 1 by --run and 2 by conditions.json"),
        (
            {"suite": "a@1"},
            {},
            {"suite": "a@2", "version": "1.0"},
            "suite is a@1 by --suite and a@2 by conditions.json",
        ),
        (
            {"scenario": "a"},
            {"scenario": "b"},
            {"version": "1.0"},
            "scenario is a by --scenario and b by the file (scenario)",
        ),
    ],
)
def test_sources_that_contradict_each_other_are_an_error_that_names_both(tmp_path, given, metadata, sidecar, reason):
    path = write(tmp_path / "r.json", plain(made_up(), **metadata))
    write(tmp_path / "conditions.json", sidecar)
    assert reason in the_refusal(path, flags=IdentityFlags.parse(**{"testbed": "a", **given}))


def test_the_path_may_not_contradict_either(tmp_path):
    path = write(tmp_path / "0.20.0" / "r.json", plain(made_up()))
    said = the_refusal(path, flags=flags(pattern="{version}/*.json"))
    assert "version is 0.19.1 by --version and 0.20.0 by --pattern" in said


def test_run_3_and_run3_are_one_run(tmp_path):
    path = write(tmp_path / "run3" / "r.json", plain(made_up()))
    write(tmp_path / "run3" / "conditions.json", {"run": 3})
    assert the_run(path, flags=flags(pattern="{run}/*.json")).label == "3"


def test_two_spellings_of_an_accelerator_are_no_contradiction(tmp_path):
    path = write(tmp_path / "r.json", plain(made_up(), gpu="NVIDIA H100 80GB HBM3"))
    assert the_run(path, flags=flags(testbed_facts={"accelerator": "H100"})).testbed.accelerator == "H100"


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ("0.19.1", "v0.19.1", "0.19.1"),
        ("0.19.1", "0.19.1+cpu", "0.19.1+cpu"),
        ("0.20.0rc1.dev3+g1234567", "0.20.0rc1.dev3+cu129", "0.20.0rc1.dev3+g1234567.cu129"),
        ("commit:1234567", "0.20.0rc1.dev3+g1234567890", "0.20.0rc1.dev3+g1234567890"),
        ("0.19.1", "0.19.0", None),
        ("0.19.1+cpu", "0.19.1+cu129", None),
        ("commit:1234567", "0.19.1", None),
    ],
)
def test_versions_that_may_be_one_build_are_put_together(one, other, merged):
    found = merge_versions(Version.parse(one), Version.parse(other))
    assert (None if found is None else str(found)) == merged


def test_a_word_that_is_no_version_is_not_taken_for_one(tmp_path):
    path = write(tmp_path / "r.json", plain(made_up(), version="my second try"))
    (report,) = import_all(path, flags=flags()).files
    assert report.outcome is FileOutcome.STORED
    assert "no vLLM version" in report.notes[0]


def test_everything_that_is_missing_is_asked_for_in_one_message(tmp_path):
    write(tmp_path / "a" / "r.json", plain(made_up(1)))
    write(tmp_path / "a" / "conditions.json", {"version": "0.19.1"})
    for seed in (2, 3, 4, 5):
        write(tmp_path / "b" / f"r{seed}.json", plain(made_up(seed)))
    with pytest.raises(InputError) as caught:
        import_all(tmp_path, flags=NO_FLAGS)
    message = str(caught.value)
    assert "vLLM version that was measured is not stated by 4 results" in message
    assert "testbed (the machine) is not stated by 5 results" in message
    assert "give --version VERSION and --testbed TESTBED" in message
    assert "\n" not in message


def test_what_several_formats_lack_is_asked_for_in_one_message(tmp_path):
    write(tmp_path / "a.json", plain(made_up(1)))
    write(tmp_path / "b.json", SAMPLES["guidellm/0.4"].make())
    write(tmp_path / "c.txt", console(made_up(2)))
    with pytest.raises(InputError) as caught:
        import_all(tmp_path, flags=IdentityFlags.parse(testbed="box"))
    message = str(caught.value)
    assert "version that was measured is not stated by 3 results" in message
    assert "a scenario, or a model to name it by, is not stated by 1 result" in message


def test_files_that_lack_several_things_are_named_once(tmp_path):
    write(tmp_path / "a.json", plain(made_up(1)))
    with pytest.raises(InputError) as caught:
        import_all(tmp_path, flags=NO_FLAGS)
    message = str(caught.value)
    assert "; the testbed (the machine) is not stated by the same; give --version" in message
    assert message.count("a.json") == 1


def test_a_metric_that_only_the_clients_version_makes_clear_is_asked_for(tmp_path):
    path = write(tmp_path / "b.json", as_json(unclear()))
    (note,) = [note for note in import_all(path, flags=flags(scenario="chat")).notes if "client" in note]
    assert "version of the client, without which some metrics are unclear, is not stated by 1 result" in note
    assert "give --client-version VERSION" in note
    with pytest.raises(InputError, match="--version VERSION and --client-version VERSION"):
        import_all(path, flags=IdentityFlags.parse(testbed="box", scenario="chat"))
    told = import_all(path, flags=flags(scenario="chat", client_version="0.4.0"))
    assert not told.notes


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"run": "1", "run_per_file": True}, "--run"),
        ({"testbed": "a/b"}, "--testbed"),
        ({"scenario": ""}, "--scenario"),
        ({"suite": "x"}, "--suite"),
        ({"testbed_facts": {"accelerator": "H100"}}, "--testbed"),
    ],
)
def test_flags_that_cannot_be_meant_name_the_flag(given, where):
    with pytest.raises(InputError) as caught:
        IdentityFlags.parse(**given)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ({}, "tiny-c4-inf-n12"),
        ({"max_concurrency": None}, "tiny-unlimited-inf-n12"),
        ({"request_rate": 2.5}, "tiny-c4-r2.5-n12"),
        ({"burstiness": 0.5}, "tiny-c4-inf-b0.5-n12"),
        ({"model_id": "/m/models--org--Big-Model/snapshots/0a1b2c/"}, "Big-Model-c4-inf-n12"),
        ({"model_id": "/models/a b\x1b[31m/"}, "a-b-c4-inf-n12"),
    ],
)
def test_a_scenario_without_a_name_is_named_after_its_workload(tmp_path, workload, name):
    made = made_up(rate=workload.get("request_rate"))
    path = write(tmp_path / "r.json", {**plain(made), **workload})
    assert the_run(path, flags=flags()).trials[0].scenario == name


def test_names_with_control_characters_are_refused(tmp_path):
    path = write(tmp_path / "r.json", json.dumps(detailed(made_up(), scenario="chat\x1b[2J")))
    assert "cannot be a name" in the_refusal(path, flags=flags())
