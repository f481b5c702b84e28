"""Where settings come from, which one counts, and what is said of a file that is wrong."""

from pathlib import Path

import pytest

from tests.factories.server_starts import write_starts


def shown(gate, *arguments):
    """Setting → (value, origin)."""
    done = gate("config", "show", *arguments)
    assert (done.code, done.err) == (0, "")
    rows = [line.partition("  # ") for line in done.out.splitlines() if not line.startswith("#")]
    return {row[0].partition(" = ")[0]: (row[0].partition(" = ")[2], row[2]) for row in rows}


def configure(gate, text, name="regress-gate.toml"):
    path = gate.directory / name
    path.write_text(text)
    return str(path)


class TestPrecedence:
    def test_without_anything_all_is_default(self, gate, monkeypatch):
        monkeypatch.delenv("REGRESS_GATE_STORE")
        found = shown(gate)
        assert {origin for _, origin in found.values()} == {"default"}
        assert found["store.url"][0] == str(Path.home() / ".local/share/regress-gate/store.db")
        assert found["gate.margins.*_p99"] == ("0.1", "default")
        assert found["waivers"] == ("0", "default")

    @pytest.mark.parametrize(
        ("setting", "flag", "variable", "table"),
        [
            ("store.url", "--store", "REGRESS_GATE_STORE", "[store]\nurl = '{}'"),
            ("defaults.suite", "--suite", "REGRESS_GATE_SUITE", "[defaults]\nsuite = '{}'"),
            ("defaults.testbed", "--testbed", "REGRESS_GATE_TESTBED", "[defaults]\ntestbed = '{}'"),
        ],
    )
    def test_a_flag_goes_before_a_variable_before_a_file_before_the_default(
        self, gate, monkeypatch, setting, flag, variable, table
    ):
        path = configure(gate, table.format("/filed"))
        monkeypatch.setenv(variable, "/varied")
        assert shown(gate, flag, "/flagged")[setting] == ("/flagged", flag)
        assert shown(gate)[setting] == ("/varied", variable)
        monkeypatch.setenv(variable, "")
        assert shown(gate)[setting] == ("/filed", path)
        monkeypatch.delenv(variable)
        assert shown(gate)[setting] == ("/filed", path)
        (gate.directory / "regress-gate.toml").unlink()
        assert shown(gate)[setting][1] == "default"

    def test_what_the_file_says_of_gate_and_deployment_has_its_origin(self, gate):
        path = configure(
            gate,
            "[gate]\nfalse_alarm_budget = 0.01\nmargins = {'*_p99' = 0.2}\n"
            "[deployment]\naccelerator = 'H200'\nengine_args = {dtype = 'auto', tensor_parallel_size = 8}\n",
        )
        found = shown(gate, "--model", "org/tiny", "--engine-arg", "dtype=float16")
        harder = "; weaker than the defaults: false_alarm_budget is 1% (default 5%), so a loss is harder to show"
        assert found["gate.false_alarm_budget"] == ("0.01", path + harder)
        assert found["gate.slo"] == ("none", "default")
        weaker = '; weaker than the defaults: margin "*_p99" is 20% (default 10%)'
        assert found["gate.margins.*_p99"] == ("0.2", path + weaker)
        assert found["gate.confidence"] == ("0.9", "default")
        assert found["deployment.accelerator"] == ("H200", path)
        assert found["deployment.model"] == ("org/tiny", "flags")
        assert found["deployment.engine_args"] == ("dtype=float16, tensor_parallel_size=8", f"flags over {path}")
        assert found["deployment.env"] == ("none", "default")

    def test_the_file_can_be_named_by_flag_or_variable(self, gate, monkeypatch):
        configure(gate, "[defaults]\ntestbed = 'here'")
        other = configure(gate, "[defaults]\ntestbed = 'other'", "other.toml")
        assert shown(gate, "--config", other)["defaults.testbed"] == ("other", other)
        monkeypatch.setenv("REGRESS_GATE_CONFIG", other)
        assert shown(gate)["defaults.testbed"] == ("other", other)

    def test_the_nearest_file_above_counts_and_none_beyond_the_repository(self, gate, monkeypatch):
        path = configure(gate, "[defaults]\ntestbed = 'here'")
        (gate.directory.parent / "regress-gate.toml").write_text("[defaults]\ntestbed = 'beyond'")
        below = gate.directory / "a" / "b"
        below.mkdir(parents=True)
        monkeypatch.chdir(below)
        assert shown(gate)["defaults.testbed"] == ("here", path)
        Path(path).unlink()
        assert shown(gate)["defaults.testbed"] == ("not set", "default")

    def test_pyproject_counts_where_it_has_a_table_of_ours(self, gate):
        path = configure(
            gate, "[project]\nname = 'x'\n\n[tool.regress-gate.defaults]\ntestbed = 'py'", "pyproject.toml"
        )
        assert shown(gate)["defaults.testbed"] == ("py", path)
        own = configure(gate, "[defaults]\ntestbed = 'own'")
        assert shown(gate)["defaults.testbed"] == ("own", own)

    @pytest.mark.parametrize("text", ["[project]\nname = 'x'", "# [tool.regress-gate]\ntool = 5", "broken ["])
    def test_somebody_elses_pyproject_is_left_alone(self, gate, text):
        configure(gate, text, "pyproject.toml")
        assert shown(gate)["defaults.testbed"] == ("not set", "default")


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "text", "complaint"),
        [
            ("regress-gate.toml", "[gate]\n\nmargin = 1", ":3: unknown key 'margin' in gate (did you mean 'margins'?)"),
            ("regress-gate.toml", "[sotre]\n", ":1: unknown key 'sotre' (did you mean 'store'?)"),
            ("regress-gate.toml", "[gate.margins]\n'ttft_p98' = 0.1", ":2: gate.margins.ttft_p98: unknown metric"),
            ("regress-gate.toml", "[gate\n", ":1: not valid TOML"),
            ("regress-gate.toml", "a = 1\na = 2", ":2: not valid TOML"),
            (
                "regress-gate.toml",
                "[[waivers]]\nfinding = 'x'\nuntill = 2026-01-01",
                ":3: unknown key 'untill' in waivers.0",
            ),
            (
                "pyproject.toml",
                "[project]\nname = 'x'\n[tool.regress-gate.gate]\nmetric = []",
                ":4: unknown key 'metric' in gate (did you mean 'metrics'?)",
            ),
        ],
    )
    @pytest.mark.parametrize("command", [["compare", "v0.19.0", "v0.19.1"], ["config", "show"], ["waive", "list"]])
    def test_a_wrong_file_is_named_with_its_line_by_every_command_that_reads_it(
        self, gate, name, text, complaint, command
    ):
        path = configure(gate, text, name)
        refused = gate(*command)
        assert (refused.code, refused.out) == (2, "")
        assert refused.error.startswith(path + complaint)

    def test_a_file_that_is_no_text_is_named(self, gate):
        (gate.directory / "regress-gate.toml").write_bytes(b"\xff\xfe\0")
        assert "regress-gate.toml: is not UTF-8 text" in gate("config", "show").error

    def test_values_with_escape_sequences_are_shown_harmless(self, gate):
        configure(gate, '[defaults]\ntestbed = "\\u001b[31mred"\n[deployment.env]\n"A\\u009b" = "\\u202e"')
        assert gate("config", "show").out.replace("\n", "").isprintable()


class TestStore:
    @pytest.mark.parametrize(
        "name", ["plain.db", "with space.db", "100%20.db", "what?.db", "hash#1.db", "ünï.db", "a=b&c.db"]
    )
    def test_a_plain_path_is_that_file(self, gate, monkeypatch, name):
        monkeypatch.setenv("REGRESS_GATE_STORE", name)
        assert gate("baseline", "pin", "v0.19.0").code == 0
        assert (gate.directory / name).is_file()
        assert shown(gate)["store.url"] == (str(gate.directory / name), "REGRESS_GATE_STORE")

    def test_a_path_in_the_home_directory(self, gate):
        assert shown(gate, "--store", "~/x.db")["store.url"][0] == str(Path.home() / "x.db")

    def test_a_path_in_a_file_is_meant_from_that_file(self, gate, monkeypatch):
        monkeypatch.delenv("REGRESS_GATE_STORE")
        configure(gate, "[store]\nurl = 'data/gate.db'")
        below = gate.directory / "below"
        below.mkdir()
        monkeypatch.chdir(below)
        assert shown(gate)["store.url"][0] == str(gate.directory / "data/gate.db")

    def test_a_url_is_taken_as_it_is(self, gate, monkeypatch):
        path = gate.directory / "by-url.db"
        monkeypatch.setenv("REGRESS_GATE_STORE", f"sqlite:///{path}")
        assert gate("baseline", "pin", "v0.19.0").code == 0
        assert path.is_file()

    def test_the_default_store_is_made_when_something_is_stored(self, gate, monkeypatch):
        monkeypatch.delenv("REGRESS_GATE_STORE")
        write_starts(gate.directory / "results", starts=1)
        done = gate("import", "results", "--version", "v1.0", "--testbed", "lab", "--scenario", "chat")
        assert done.code == 0
        assert (Path.home() / ".local/share/regress-gate/store.db").is_file()

    def test_a_store_in_a_directory_that_is_not_there_is_an_error(self, gate):
        failed = gate("baseline", "pin", "v0.19.0", "--store", "nowhere/gate.db")
        assert failed.code == 4
        assert "nowhere/gate.db: the directory does not exist" in failed.error

    @pytest.mark.parametrize(
        "url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql+nothing://x/y", "http://x"]
    )
    def test_what_names_no_store_is_an_input_error(self, gate, url):
        assert gate("baseline", "list", "--store", url).code == 2

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:s3cret@127.0.0.1:1/gate",
            "postgresql://me:s3cr@et@127.0.0.1:1/gate",
            "postgresql://me@127.0.0.1:1/gate?password=s3cret",
            "mysql+nothing://me:s3cret@host/gate",
            "sqlite://me:s3cret@host/gate",
        ],
    )
    def test_a_password_is_never_shown(self, gate, url):
        for command in (["config", "show"], ["db", "info"], ["baseline", "list"], ["compare", "v0.19.0", "v0.19.1"]):
            for more in ([], ["-vv"] if command[0] == "compare" else []):
                done = gate(*command, "--store", url, *more)
                assert "s3cr" not in done.out + done.err.replace(f"'{url}'", "")
                if not more:
                    assert len(done.err.splitlines()) <= 1
