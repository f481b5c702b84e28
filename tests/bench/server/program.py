"""A server with the manners that the tests need: it is run as a program, by the very start line that vLLM has.

`python program.py MANNER,MANNER… PORT`. It answers /health, /version and /metrics, and ends when asked, unless:
die, hang, deaf (ignores being asked), runaway (a child leaves the session and its parent dies), family (children in
the session, one with a blank environment, one deaf), scatter (grandchildren leave the session, again and again: with
our environment, with an empty one, with an empty one and deaf), mute (unhealthy from /break to /mend), crash (dies at
/break), elsewhere (serves on no port at all, but lives), daemon (what serves goes into the background), quiet (closes
its outputs and dies), chatty (tells the secret in its environment, writes more than can be read, and dies).
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
if sys.argv[1:] == ["deaf"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
"""Forks twice and leaves the session, as a daemon does: nobody's child, in nobody's session."""


class Handler(BaseHTTPRequestHandler):
    broken = False
    manners: frozenset[str] = frozenset()

    def do_GET(self) -> None:
        if self.path == "/break":
            if "crash" in self.manners:
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


def be_deaf() -> None:
    """Ignore being asked to end: from the first moment of a child, which inherits it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def scatter() -> None:
    """Five times three grandchildren, a few milliseconds apart."""
    for _ in range(5):
        for environment, manner in ((None, "well"), ({}, "well"), ({}, "deaf")):
            subprocess.run([sys.executable, "-S", "-c", LEAVE, manner], env=environment, check=True)
        time.sleep(0.02)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    manners, port = frozenset(sys.argv[1].split(",")), int(sys.argv[2])
    Handler.manners = manners
    if "quiet" in manners:
        for number in (0, 1, 2):
            os.close(number)
        os._exit(3)
    say("(APIServer pid=1) INFO 11-21 02:16:28 [model.py:549] Resolved architecture: LlamaForCausalLM")
    if "deaf" in manners:
        be_deaf()
    if "family" in manners:
        subprocess.Popen([sys.executable, "-c", SLEEP])
        subprocess.Popen([sys.executable, "-c", SLEEP], env={})
        subprocess.Popen([sys.executable, "-c", SLEEP], preexec_fn=be_deaf)
    if "runaway" in manners:
        # The child between dies at once, so that what it started is nobody's child and in a session of its own.
        code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
        subprocess.run([sys.executable, "-c", code], check=True)
    if "scatter" in manners:
        threading.Thread(target=scatter, daemon=True).start()
    if "die" in manners:
        time.sleep(0.2)
        raise ValueError("There is no module or parameter named 'lm_head' in TinyForCausalLM")
    if "daemon" in manners:
        subprocess.Popen([sys.executable, __file__, "well", str(port)], start_new_session=True)
        os._exit(0)
    if "chatty" in manners:
        say("non-default args: {'hf_token': '" + os.environ["HF_TOKEN"] + "'}")
        os.ftruncate(1, 2**29)  # sparse: it takes no room on the disk
        os.lseek(1, 0, os.SEEK_END)
        say(f"\x1b]0;owned\x07\nValueError: cannot log in with {os.environ['HF_TOKEN']}\x1b[2J")
        os._exit(1)
    if "hang" in manners or "elsewhere" in manners:
        time.sleep(600)
    server = HTTPServer(("127.0.0.1", port), Handler)
    if "deaf" not in manners:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.02)


if __name__ == "__main__":
    main()
