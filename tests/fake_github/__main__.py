"""`python -m tests.fake_github --port 0 --state FILE`: serves until SIGTERM; the first line is the API's address.

FILE is JSON, as `State` holds it: read at the start, replaced after each request. Without it `--repository` and
`--token` make a repository and a token that may write.
"""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.fake_github.server import GitHub, bind
from tests.fake_github.state import State


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.fake_github")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--prefix", default="", help="/api/v3, as an Enterprise Server has it")
    parser.add_argument("--repository", default="team/serving")
    parser.add_argument("--token", default="ghs_fake")
    options = parser.parse_args()
    state = State.load(options.state) if options.state.exists() else State()
    if not state.repositories:
        state.add_repository(options.repository)
        state.add_token(options.token, options.repository)

    def save() -> None:
        draft = options.state.with_suffix(".draft")
        draft.write_text(state.dump(), encoding="utf-8")
        draft.replace(options.state)

    save()
    server = bind(github := GitHub(state=state, prefix=options.prefix, after_change=save), options.port)
    signal.signal(signal.SIGTERM, _stop)
    sys.stdout.write(github.url + "\n")
    sys.stdout.flush()
    server.serve_forever(poll_interval=0.1)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
    sys.exit(0)


if __name__ == "__main__":
    main()
