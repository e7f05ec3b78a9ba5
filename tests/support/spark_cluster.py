"""A Spark standalone cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from moldau.testing.broker_process import free_ports

START_SECONDS_MAX = 120
JARS = Path(pyspark.__file__).parent / "jars" / "*"


def spark_process(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
    }
    command = ["java", "-Xmx256m", "-cp", str(JARS), f"org.apache.spark.deploy.{name}", *words]
    with open(folder / f"{name}-{words[-1].rpartition(':')[2]}.log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The master's address."""
    port, page, *pages = free_ports(2 + workers)
    address = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1"]
    processes = [
        spark_process(
            folder, "master.Master", *here, "--webui-port", str(page), "--port", str(port)
        )
    ]
    try:
        wait_for(port)
        for number, worker_page in enumerate(pages):
            home = folder / f"worker-{number}"
            home.mkdir()
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(home)]
            words = [*here, *size, "--webui-port", str(worker_page), address]
            processes.append(spark_process(folder, "worker.Worker", *words))
        for worker_page in pages:
            wait_for(worker_page)
        yield address
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port} after {START_SECONDS_MAX} s")
