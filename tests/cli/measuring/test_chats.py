"""Chats from end to end: a server with two adapters, and images for some requests."""

SUITE = """\
name: mine
version: 1
description: Chats.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
scenarios:
  - name: adapters
    server: {model: fake, engine_args: {lora_modules: sql=org/a chat=/models/b}}
    workload: {api: chat, input_len: 40, output_len: 4, concurrency: 2, num_requests: 12, lora_adapters: [sql, chat]}
  - name: photos
    server: {model: fake, engine_args: {lora_modules: sql=org/a chat=/models/b}}
    workload:
      {api: chat, input_len: 20, output_len: 4, concurrency: 2, num_requests: 12, images: {width: 64, height: 48}}
"""


def test_chats_of_two_adapters_and_with_images_are_measured_and_stored(lab):
    lab.suite.write_text(SUITE)
    lab.simulate_load()
    outcome = lab("run", "v0.19.1", "--runs", 1)
    assert outcome.code == 0, outcome
    ((adapters, photos),) = [run.trials for run in lab.runs()]
    assert (adapters.completed, photos.completed) == (12, 12)
    assert adapters.workload["lora_adapters"] == ["sql", "chat"]
    assert (adapters.workload["api"], adapters.workload["mean_input_tokens"]) == ("chat", 40)
    assert photos.workload["images"] == {"count": 1, "width": 64, "height": 48, "repeat": False}
    assert photos.workload["mean_input_tokens"] == 20 + 64
