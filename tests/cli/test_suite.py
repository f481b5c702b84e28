"""`suite`: what can be measured, as people read it, and help with writing one."""

import pytest

from regress_gate.suites import shipped_suites


def written(gate, text):
    (gate.directory / "mine.yaml").write_text(text, encoding="utf-8")
    return "mine.yaml"


class TestList:
    def test_every_shipped_suite_is_there_with_what_it_is_for_in_80_columns(self, gate):
        done = gate("suite", "list")
        assert (done.code, done.err) == (0, "")
        assert max(map(len, done.out.splitlines())) <= 80
        for name, suite in shipped_suites().items():
            assert name in done.out
            assert suite.description in " ".join(done.out.split())

    def test_scripts_get_json(self, gate):
        found = {suite["name"]: suite for suite in gate("suite", "list", "--format", "json").json["suites"]}
        assert found["cpu-tiny"]["scenarios"] == 7
        assert found["h200-deepseek-r1-ep"]["accelerator"] == "H200"


class TestShow:
    @pytest.mark.parametrize("name", list(shipped_suites()))
    def test_a_suite_is_shown_whole_in_80_columns(self, gate, name):
        done = gate("suite", "show", name)
        assert done.code == 0
        text = " ".join(done.out.split())
        for scenario in shipped_suites()[name].scenarios:
            assert " ".join(f"{scenario.name}: {scenario.why}".split()) in text
            assert all(issue in text for issue in scenario.sees)
        assert scenario.server.model in text
        assert max(map(len, done.out.splitlines())) <= 80

    def test_what_a_table_has_no_column_for_stands_below(self, gate):
        shown = gate("suite", "show", "l4-rerank").out + gate("suite", "show", "h100-lora").out
        for text in (
            "10 documents x 256 words",
            "api rerank",
            "objective e2el=0.5 s",
            "LoRA adapters sql",
            "10/s poisson",
        ):
            assert text in shown
        assert "up to 128" in gate("suite", "show", "h100-structured-output").out
        photos = gate("suite", "show", "h100-qwen3-vl-8b").out
        assert "1 image of 1024 x 1024 pixels" in photos
        assert "4 images of 1024 x 1440 pixels" in photos
        assert "shared prefix 576 tokens" in gate("suite", "show", "cpu-tiny").out

    def test_recorded_traffic_is_shown_by_what_it_asks_for(self, gate):
        lines = (f'{{"time": {at}, "input_tokens": 100, "output_tokens": 20}}\n' for at in range(0, 400, 4))
        (gate.directory / "traffic.jsonl").write_text("".join(lines))
        text = "name: x\nversion: 1\ndescription: d\nscenarios:\n" + "".join(
            f"  - name: {name}\n    server: {{model: m}}\n"
            f"    workload: {{num_requests: 100, trace: {{file: {name}.jsonl, scale: 0.5}}}}\n"
            for name in ("traffic", "none")
        )
        outcome = gate("suite", "show", written(gate, text))
        shown = " ".join(outcome.out.split())
        assert "traffic recorded -> recorded trace, times x 0.5 100" in shown
        assert (
            "regress-gate trace: 100 requests in 3 min (0.5/s, at most 1 within a second); prompts of 100 tokens "
            "(median; p95 100, at most 100); answers of 20 tokens (median; p95 20, at most 20)"
        ) in shown
        assert "none.jsonl: cannot be read (No such file or directory)" in shown
        assert outcome.code == 2
        traces = gate("suite", "show", "mine.yaml", "--format", "json").json["traces"]
        assert (traces["traffic"]["seconds"], traces["traffic"]["output_tokens"]) == (198.0, [20.0, 20.0, 20.0])
        assert "cannot be read" in traces["none"]["error"]

    def test_bursts_are_shown_by_what_makes_them(self, gate):
        text = "name: x\nversion: 1\ndescription: d\nscenarios:\n" + "".join(
            f"  - {{name: s{number}, server: {{model: m}}, workload: {{request_rate: 4.0, {how}}}}}\n"
            for number, how in enumerate(
                ("arrival: gamma, burstiness: 0.5", "arrival: on-off, phases: {on: 2.0, off: 8.0}")
            )
        )
        shown = gate("suite", "show", written(gate, text)).out
        assert "4/s gamma 0.5" in shown
        assert "4/s 2 s on, 8 s off" in shown

    def test_scenarios_with_servers_of_their_own_show_them(self, gate):
        text = "name: x\nversion: 1\ndescription: d\nscenarios:\n" + "".join(
            f"  - {{name: {name}, server: {{model: {name}-model}}, workload: {{}}}}\n" for name in ("a", "b")
        )
        shown = gate("suite", "show", written(gate, text)).out
        assert "a: no why\n  -  model a-model\n" in shown
        assert "b: no why\n  -  model b-model\n" in shown

    def test_a_file_cannot_steer_the_terminal(self, gate):
        scenario = '{name: a, server: {model: "\\em"}, workload: {}}'
        text = f'name: x\nversion: 1\ndescription: "a\\e[31mb"\nscenarios: [{scenario}]\n'
        assert "\x1b" not in gate("suite", "show", written(gate, text)).out

    def test_scripts_get_json(self, gate):
        suite = gate("suite", "show", "cpu-tiny", "--format", "json").json["suite"]
        assert suite["scenarios"][0]["workload"]["num_requests"] == 24

    def test_an_unknown_name_is_answered_with_the_nearest(self, gate):
        done = gate("suite", "show", "cpu-tinny")
        assert (done.code, "did you mean 'cpu-tiny'?" in done.error) == (2, True)


class TestNew:
    def test_what_it_writes_lints_clean_and_is_named_by_its_file(self, gate):
        done = gate("suite", "new", "our chat.yaml")
        assert (done.code, done.err) == (0, "")
        checked = gate("suite", "lint", "our chat.yaml")
        assert (checked.code, checked.out, checked.err) == (0, "", "1 suite, 0 errors, 0 warnings\n")
        assert gate("suite", "show", "our chat.yaml").out.startswith("our-chat@1\n")

    def test_it_never_overwrites(self, gate):
        name = written(gate, "mine")
        done = gate("suite", "new", name)
        assert (done.code, "left as it is" in done.error) == (2, True)
        assert (gate.directory / name).read_text() == "mine"

    @pytest.mark.parametrize(
        ("file", "says"), [("chat", "a suite is a YAML file"), ("no/chat.yaml", "cannot be written")]
    )
    def test_a_file_that_cannot_be_a_suite_is_refused(self, gate, file, says):
        done = gate("suite", "new", file)
        assert (done.code, says in done.error) == (2, True)


class TestLint:
    def test_errors_and_warnings_are_reported_by_line_and_errors_exit_2(self, gate):
        gate("suite", "new", "chat.yaml")
        text = (gate.directory / "chat.yaml").read_text()
        text = text.replace("num_requests: 100", "num_requests: 9").replace("concurrency: 32", "concurency: 32")
        done = gate("suite", "lint", written(gate, text))
        first, second = done.out.splitlines()
        assert first.startswith("mine.yaml:28: warning: scenario c1: ttft_p99, tpot_p99, itl_p99 cannot gate with 9")
        assert "error: unknown key 'concurency' in scenarios.1.workload" in second
        assert (done.code, done.err) == (2, "1 suite, 1 error, 1 warning\n")

    def test_warnings_alone_do_not_fail(self, gate):
        gate("suite", "new", "chat.yaml")
        text = (gate.directory / "chat.yaml").read_text().replace("sees: []", "sees: [VLLM-1]", 1)
        done = gate("suite", "lint", written(gate, text))
        assert (done.code, "VLLM-1 is not a known issue" in done.out) == (0, True)

    def test_several_files_are_checked_and_one_that_is_not_there_is_an_error(self, gate):
        gate("suite", "new", "chat.yaml")
        done = gate("suite", "lint", "chat.yaml", "none.yaml")
        assert (done.code, done.out) == (2, "none.yaml: error: cannot be read (No such file or directory)\n")
