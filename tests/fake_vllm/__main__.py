"""Starts the fake server: bind, print the port, wait as long as a start takes, serve until killed."""

import asyncio
import signal
import socket
import sys

from tests.fake_vllm import log
from tests.fake_vllm.options import Options, parse
from tests.fake_vllm.server import Server


async def serve(options: Options) -> None:
    # Named as TCP, because asyncio turns Nagle's algorithm off only then: it would hold back chunks for 40 ms.
    # Bound but not listening, the port is known and connections are refused, as while vLLM loads its model.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((options.host, options.port))
    port = bound.getsockname()[1]
    sys.stdout.write(f"port={port}\n")
    sys.stdout.flush()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    log.starting(options)
    await asyncio.sleep(options.startup_delay)
    if options.die_at_start:
        log.died()
        sys.exit(1)
    await asyncio.start_server(Server(options).serve_connection, sock=bound, backlog=4096, limit=2**20)
    log.started(options, port)
    await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(parse(sys.argv[1:])))
