"""What tests make to order: runs, results, records, result files. One module a kind, each named after what it makes.

| module | makes |
| --- | --- |
| `runs` | runs and sides of a comparison, findings |
| `stored_runs` | runs with samples and sources, as the store keeps them; strategies for all that a run may be |
| `series` | run-level values with a known spread, for the statistics |
| `results` | results of the gate, for reports |
| `records` | known-issue records |
| `joining_world` | losses with known causes |
| `serve_results` | result files of `vllm bench serve`, in every dialect |
| `server_starts` | folders of such files, one a server start |
| `tables` | tables of nightly results |
| `released_signals` | log lines and metrics as each release of vLLM prints and creates them |
"""
