"""A server with the behaviour that a test needs. It is run as a program, with the start line that vLLM prints.

`python program.py BEHAVIOUR,BEHAVIOUR… PORT`. It answers /health, /version and /metrics, and ends on SIGTERM, unless:

- die, hang: at the start;
- stubborn: ignores SIGTERM;
- runaway: a child leaves the session and its parent dies;
- family: children in the session, one with an empty environment, one stubborn;
- scatter: grandchildren leave the session, with our environment, with an empty one, and with an empty one and stubborn;
- mute: unhealthy from /break to /mend;
- crash: dies at /break;
- elsewhere: runs and listens on no port;
- daemon: the server goes into the background;
- quiet: closes its outputs and dies;
- chatty: prints the secret in its environment, writes more than can be read, and dies.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SLEEP = "import time; time.sleep(600)"
LEAVE = """
import os, signal, sys, time
if os.fork() or os.setsid() or os.fork():
    os._exit(0)
if sys.argv[1:] == ["stubborn"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
"""Forks twice and leaves the session, as a daemon does: nobody's child, in nobody's session."""


class Handler(BaseHTTPRequestHandler):
    broken = False
    behaviours: frozenset[str] = frozenset()

    def do_GET(self) -> None:
        if self.path == "/break":
            if "crash" in self.behaviours:
                say("Traceback (most recent call last):\nRuntimeError: CUDA error: an illegal access")
                os.kill(os.getpid(), signal.SIGSEGV)
            type(self).broken = True
        if self.path == "/mend":
            type(self).broken = False
        self.send_response(503 if self.broken else 200)
        self.end_headers()
        if self.path == "/version":
            self.wfile.write(json.dumps({"version": "0.19.1"}).encode())
        if self.path == "/metrics":
            self.wfile.write(b'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0\n')

    def log_message(self, *_: object) -> None:
        return


def ignore_sigterm() -> None:
    """For a child, which inherits it: set before the child can receive a signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def scatter() -> None:
    """Five times three grandchildren, a few milliseconds apart."""
    for _ in range(5):
        for environment, kind in ((None, "well"), ({}, "well"), ({}, "stubborn")):
            subprocess.run([sys.executable, "-S", "-c", LEAVE, kind], env=environment, check=True)
        time.sleep(0.02)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    behaviours, port = frozenset(sys.argv[1].split(",")), int(sys.argv[2])
    Handler.behaviours = behaviours
    if "quiet" in behaviours:
        for number in (0, 1, 2):
            os.close(number)
        os._exit(3)
    say("(APIServer pid=1) INFO 11-21 02:16:28 [model.py:549] Resolved architecture: LlamaForCausalLM")
    if "stubborn" in behaviours:
        ignore_sigterm()
    if "family" in behaviours:
        subprocess.Popen([sys.executable, "-c", SLEEP])
        subprocess.Popen([sys.executable, "-c", SLEEP], env={})
        subprocess.Popen([sys.executable, "-c", SLEEP], preexec_fn=ignore_sigterm)
    if "runaway" in behaviours:
        # The child between dies at once, so that what it started is nobody's child and in a session of its own.
        code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
        subprocess.run([sys.executable, "-c", code], check=True)
    if "scatter" in behaviours:
        threading.Thread(target=scatter, daemon=True).start()
    if "die" in behaviours:
        time.sleep(0.2)
        raise ValueError("There is no module or parameter named 'lm_head' in TinyForCausalLM")
    if "daemon" in behaviours:
        subprocess.Popen([sys.executable, __file__, "well", str(port)], start_new_session=True)
        os._exit(0)
    if "chatty" in behaviours:
        say("non-default args: {'hf_token': '" + os.environ["HF_TOKEN"] + "'}")
        os.ftruncate(1, 2**29)  # sparse: it takes no room on the disk
        os.lseek(1, 0, os.SEEK_END)
        say(f"\x1b]0;owned\x07\nValueError: cannot log in with {os.environ['HF_TOKEN']}\x1b[2J")
        os._exit(1)
    if "hang" in behaviours or "elsewhere" in behaviours:
        time.sleep(600)
    server = HTTPServer(("127.0.0.1", port), Handler)
    if "stubborn" not in behaviours:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.02)


if __name__ == "__main__":
    main()
