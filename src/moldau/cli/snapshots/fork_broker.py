"""The broker of a fork: its settings file, and starting it as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from moldau.cli.command_faults import CommandFault
from moldau.storage.snapshots.forking import Fork
from moldau.storage.snapshots.snapshot_files import Manifest

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.005
LOG_LINES_SHOWN = 5
SETTINGS_FILE = "server.properties"
LOG_FILE = "broker.log"


class ForkedBroker:
    def __init__(self, target: Path, manifest: Manifest, fork: Fork, base: str | None) -> None:
        """`base` is a settings file to begin with, instead of what the snapshot knows."""
        self.target = target.absolute()
        self.settings_path = self.target / SETTINGS_FILE
        self.pid: int | None = None
        self.port = 0
        self.is_encrypted = False
        self._manifest = manifest
        self._fork = fork
        self._base = base

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def write_settings(self, port: int | None) -> None:
        """The last of the files: with it the fork is whole."""
        from moldau.testing.broker_process import free_port

        self.port = port or free_port()
        self.settings_path.write_text(self._settings_text())

    def _settings_text(self) -> str:
        from moldau.config.properties import format_properties, parse_properties

        manifest, fork = self._manifest, self._fork
        settings = dict(manifest.settings)
        protocol = "PLAINTEXT"
        if self._base is not None:
            settings = parse_properties(Path(self._base).read_text())
            protocol = _first_protocol(settings)
            self.is_encrypted = protocol.endswith("SSL")
        for key in ("advertised.listeners", "broker.id", "node.id", "log.dir", "process.roles"):
            settings.pop(key, None)
        settings |= {
            "broker.id": str(manifest.node_id),
            "listeners": f"{protocol}://{self.bootstrap}",
            "log.dirs": ",".join(fork.directories),
        }
        opening = f"# A fork of cluster {manifest.cluster_id}, from its snapshot {manifest.name}\n"
        return opening + format_properties(settings)

    def start(self) -> None:
        """Returns when it serves."""
        from moldau.testing.broker_process import answers

        log_path = self.target / LOG_FILE
        command = [sys.executable, "-m", "moldau.main", "server-start", str(self.settings_path)]
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.target,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "MAKELEVEL": ""},
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not (accepts(self.port) if self.is_encrypted else answers(self.port)):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                last = "\n".join(log_path.read_text().splitlines()[-LOG_LINES_SHOWN:])
                raise CommandFault(f"the fork did not start; its log ends with:\n{last}")
            time.sleep(POLL_SECONDS)
        self.pid = process.pid

    def as_row(self) -> dict[str, object]:
        return {
            "directory": str(self.target),
            "settings": str(self.settings_path),
            "bootstrap": self.bootstrap,
            "pid": self.pid,
            "clusterId": self._fork.cluster_id,
            "snapshot": self._manifest.name,
            "partitions": len(self._manifest.partitions),
            "sizeBytes": self._manifest.size_bytes,
            "copiedBytes": self._fork.copied_bytes,
        }


def _first_protocol(settings: dict[str, str]) -> str:
    first = settings.get("listeners", "PLAINTEXT://").split(",")[0]
    return first.partition("://")[0].strip() or "PLAINTEXT"


def accepts(port: int) -> bool:
    """Whether somebody listens."""
    try:
        socket.create_connection((HOST, port), 1.0).close()
    except OSError:
        return False
    return True
