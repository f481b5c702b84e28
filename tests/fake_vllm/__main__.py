"""Starts the fake server: bind, print the port, wait as long as a start takes, serve until SIGTERM."""

import asyncio
import signal
import socket
import sys

from tests.fake_vllm import faults, log
from tests.fake_vllm.options import Options, parse
from tests.fake_vllm.server import Server


async def serve(options: Options) -> None:
    faults.refuse_arguments(options)
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
        asyncio.get_running_loop().add_signal_handler(number, (lambda: None) if options.ignore_sigterm else stop.set)
    log.starting(options)
    if options.child:
        faults.start_child(options.child)
    held = bytearray(b"x") * int(options.memory_mb * 2**20)  # written, so that it is resident
    await asyncio.sleep(options.startup_delay)
    if options.die_at_start:
        faults.die(options.die_at_start)
    if options.never_ready:
        await stop.wait()
        return
    server = Server(options, stop)
    await asyncio.start_server(server.serve_connection, sock=bound, backlog=4096, limit=2**20)
    log.started(options, port)
    await stop.wait()
    del held


if __name__ == "__main__":
    asyncio.run(serve(parse(sys.argv[1:])))
