"""Moldau as a service: units of systemd, the start script, process 1 of a container."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.cli.catalogue import COMMANDS
from moldau.testing.broker_process import BrokerProcess, answers, free_port
from tests.support.eventually import eventually

PROJECT = Path(__file__).parents[2]
UNITS = PROJECT / "services" / "systemd"
SCRIPT = PROJECT / "services" / "kafka-service.sh"
PID_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def wait_for(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_units_pass_systemds_own_check(tmp_path: Path) -> None:
    for unit in UNITS.iterdir():
        # An installation stands elsewhere on each machine; the check wants one that is there.
        text = unit.read_text().replace("/opt/moldau/bin/moldau", sys.executable)
        (tmp_path / unit.name).write_text(text.replace("User=kafka", "User=root"))
    names = [path.name.replace("@.", "@console.") for path in UNITS.iterdir()]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_units_say_what_operators_rely_on() -> None:
    broker = (UNITS / "kafka.service").read_text().splitlines()
    assert {
        "Requires=zookeeper.service",
        "After=zookeeper.service",
        "Type=simple",
        "User=kafka",
        "Restart=on-abnormal",
        "WantedBy=multi-user.target",
    } <= set(broker)
    assert "User=kafka" in (UNITS / "zookeeper.service").read_text().splitlines()


class Installation:
    """A folder with bin/ and config/, as the start script expects it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.logs = folder / "logs"
        (folder / "config").mkdir()
        (folder / "bin").symlink_to(PROJECT / "bin")
        (folder / "config" / "server.properties").write_text(
            f"broker.id=3\nlisteners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={folder}/data\n"
        )
        self.folder = folder
        self.environment = {
            **os.environ,
            "KAFKA_HOME": str(folder),
            "MOLDAU_RUN_DIR": str(folder / "run"),
            "LOG_DIR": str(self.logs),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.mark.parametrize(("start", "stop"), [("--start", "--kill"), ("-b", "-k")])
def test_the_script_starts_and_stops_a_broker(tmp_path: Path, start: str, stop: str) -> None:
    here = Installation(tmp_path)
    started = here.run(start)
    assert (started.returncode, started.stdout) == (0, "Starting kafka service...\n")
    wait_for(lambda: answers(here.port), "the broker answers")
    stopped = here.run(stop)
    assert (stopped.returncode, stopped.stdout) == (0, "Stopping kafka service...\n")
    wait_for(lambda: not list((tmp_path / "run").iterdir()), "the broker has ended")
    assert "shut down completed" in (here.logs / "server.log").read_text()
    nothing = here.run(stop)
    assert nothing.returncode == 99, "there is no broker to stop"


def test_the_script_explains_itself(tmp_path: Path) -> None:
    here = Installation(tmp_path)
    unknown = here.run("--restart")
    assert unknown.returncode == 1
    assert unknown.stdout.startswith("Unknown option: --restart\n\nUsage:\n")
    without = here.run()
    assert without.returncode == 1 and without.stdout.startswith("Usage:\n")
    (tmp_path / "config" / "server.properties").write_text("num.io.threads=none\n")
    assert here.run("--start").returncode == 99


def needs_namespaces() -> None:
    if subprocess.run([*PID_NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("a namespace of processes cannot be made here")


def test_as_process_1_it_stops_in_order_and_takes_orphans(tmp_path: Path) -> None:
    needs_namespaces()
    broker = BrokerProcess(tmp_path, prefix=PID_NAMESPACE)
    with broker:
        first = int(children(broker.pid)[0])
        (server,) = children(first)
        # An orphan of this namespace: its parent ends at once, process 1 gets it.
        enter = ["nsenter", "--target", str(first), "--pid", "sh", "-c", "(sleep 0.1 &)"]
        subprocess.run(enter, check=True, timeout=30)
        wait_for(lambda: children(first) == [server], "the orphan is gone, and not a zombie")
        os.kill(first, signal.SIGTERM)
        assert broker.wait() == 0
    eventually(lambda: "Terminating process due to signal SIGTERM" in broker.log_text)
    eventually(lambda: "shut down completed" in broker.log_text)


def test_as_process_1_it_ends_with_the_code_of_its_command(tmp_path: Path) -> None:
    needs_namespaces()
    command = [*PID_NAMESPACE, sys.executable, "-m", "moldau.main", "server-start", "no-such-file"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode == 1
    assert "cannot read no-such-file" in ended.stderr


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_the_clients_have_names_for_windows() -> None:
    scripts = {path.stem for path in (PROJECT / "bin").glob("kafka-*.sh")}
    files = {path.stem: path.read_bytes() for path in (PROJECT / "bin" / "windows").glob("*.bat")}
    assert scripts - files.keys() == {"kafka-server-start", "kafka-server-stop", "kafka-run-class"}
    for name, text in files.items():
        command = name.removeprefix("kafka-")
        assert command in COMMANDS
        assert text.endswith(f"\r\nmoldau {command} %*\r\n".encode())


def test_the_clients_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:

        def run(command: str, *words: str, sent: str = "") -> str:
            program = [sys.executable, "-m", "tests.support.without_posix", command]
            done = subprocess.run(
                [*program, "--bootstrap-server", broker.bootstrap, *words],
                input=sent,
                capture_output=True,
                text=True,
                timeout=60,
                cwd=PROJECT,
            )
            assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
            return done.stdout

        assert run("topics", "--create", "--topic", "w") == "Created topic w.\n"
        run("console-producer", "--topic", "w", sent="a\nb\n")
        reading = ("--topic", "w", "--from-beginning", "--max-messages", "2", "--group", "g")
        assert run("console-consumer", *reading) == "a\nb\n"
        assert " w " in run("consumer-groups", "--describe", "--group", "g")


def test_the_container_file_names_what_is_there() -> None:
    lines = (PROJECT / "Containerfile").read_text().splitlines()
    copied = [
        line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line
    ]
    for path in (path for paths in copied for path in paths):
        assert (PROJECT / path).exists()
    assert "USER moldau" in lines
    # What the build of the package takes from beside it has to be there too.
    (beside,) = re.findall(
        r"^LAID_OUT = \((.*)\)$", (PROJECT / "setup.py").read_text(), re.MULTILINE
    )
    assert set(re.findall(r'"(\w+)"', beside)) <= {path for paths in copied for path in paths}
