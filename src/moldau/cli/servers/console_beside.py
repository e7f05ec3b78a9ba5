"""The web console beside a broker that somebody tries out: a process of its own that ends with it.

The broker's process binds the address, so a taken port is known before anything is started, and
whoever opens the page early waits until the console is up. The console ends when its standard
input does: also when the broker is killed. Run as a module it is that console.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

HOST = "127.0.0.1"
PACKAGES = ("jinja2", "starlette", "uvicorn")
MODULE = "moldau.cli.servers.console_beside"
END_SECONDS_MAX = 5
BACKLOG = 128


class Beside(NamedTuple):
    told: str
    """Where the console is, or why there is none."""
    process: subprocess.Popen[bytes] | None = None

    def end(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_beside(broker: Broker, log_files: str, port: int) -> Beside:
    """A console for `broker`, or the reason why there is none; never a failure."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return Beside(f"none: {missing[0]} is not installed (pip install 'moldau[console]')")
    if broker.config.bound_endpoints[0].security_protocol != "PLAINTEXT":
        return Beside("none: this listener is secured (moldau console --command-config FILE)")
    try:
        listener = socket.create_server((HOST, port), backlog=BACKLOG)
    except OSError as fault:
        reason = os.strerror(fault.errno or 0)
        return Beside(f"none: {HOST}:{port} cannot be listened on ({reason})")
    with listener:
        port = listener.getsockname()[1]
        settings: dict[str, Any] = {
            "bootstrap": broker.bootstrap, "port": port, "log_files": log_files
        }  # fmt: skip
        if broker.config.metrics_http_listener:
            settings["metrics"] = [f"http://{broker.config.metrics_http_listener}"]
        words = (json.dumps(settings), str(listener.fileno()))
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(listener.fileno(),),
                # Ctrl-C is for the broker, which ends this one.
                start_new_session=True,
            )
        except OSError as fault:
            return Beside(f"none: it cannot be started ({fault.strerror})")
    return Beside(f"http://{HOST}:{port}/", process)


def main(words: list[str]) -> None:
    from moldau.console.console_settings import ConsoleSettings
    from moldau.console.serving import serve

    told = json.loads(words[0])
    told["metrics"] = tuple(told.get("metrics", ()))
    listener = socket.socket(fileno=int(words[1]))
    threading.Thread(target=_end_with_broker, daemon=True).start()
    with listener:
        serve(ConsoleSettings(**told), listener, lambda address: None)


def _end_with_broker() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1:])
