"""How long the GitHub Action takes where nothing is measured, on a local runner, against a GitHub on loopback.

    python benchmarks/action.py [--rounds N]

Needs the extra `workflows`. The tool is installed first, timed by itself: the bound is on a runner that has it already.
A hosted runner adds what it takes to start, to fetch the action, and to get the installation from GitHub's cache.
"""

import argparse
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from measure import Row, report

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.workflows.conftest import CHANGES, Team
from tests.workflows.runner import Runner, export_action, link_action

MOST_SECONDS = 15.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "github-cache").mkdir()
        action = link_action(export_action(base / "files"), base / "action")
        runner = Runner(base, action, base / "github-cache")
        whole, *_ = timed(base / "first", runner, "no pin moved")
        rows.append(Row("a job that installs the tool and finds no moved pin", seconds(whole)))
        for answer in ("no pin moved", "pass", "fail"):
            runs = [timed(base / f"{answer}-{number}", runner, answer) for number in range(arguments.rounds)]
            whole, own, processor = (statistics.median(run[place] for run in runs) for place in (0, 1, 2))
            bound = f"{MOST_SECONDS:g} s"
            rows.append(Row(f"the whole job, {answer}", seconds(whole), bound, whole / MOST_SECONDS, 1.0))
            rows.append(Row("of it the gate and its answer", seconds(own)))
            rows.append(Row("processor time of the whole job", seconds(processor)))
    return report(rows)


def timed(directory: Path, runner: Runner, answer: str) -> tuple[float, float, float]:
    """Seconds of a run of the workflow that ci/README.md shows, of the gate's own step in it, and of processor time.

    The last says more on a machine that others use, too.
    """
    directory.mkdir()
    team = Team(directory, runner)
    team.open_pull_request(*CHANGES[answer])
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = team.run("shown.yml", write=True)
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.code != (answer == "fail"):
        raise RuntimeError(run.text)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, next(step.seconds for ids, step in run.steps.items() if ids[2:] == ("gate",)), processor


def seconds(value: float) -> str:
    return f"{value:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
