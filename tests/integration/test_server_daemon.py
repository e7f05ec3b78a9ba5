"""`server-start -daemon`, `server-stop`, and the scripts with Kafka's names."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moldau.cli.servers import run_files
from moldau.testing.broker_process import BrokerProcess, answers, free_port

BIN = Path(__file__).parents[2] / "bin"
MOLDAU = [sys.executable, "-m", "moldau.main"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    # Brokers of other tests on this machine stay out of sight.
    return {
        **os.environ,
        "MOLDAU_RUN_DIR": str(tmp_path / "run"),
        "LOG_DIR": str(tmp_path / "logs"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def run(
    command: list[str], environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=20
    )


def wait_until(is_so: bool, port: int) -> None:
    deadline = time.monotonic() + 20
    while answers(port) is not is_so:
        assert time.monotonic() < deadline, f"answering on port {port} never became {is_so}"
        time.sleep(0.01)


@pytest.mark.parametrize("named_as_kafka", [False, True], ids=["moldau", "kafka-*.sh"])
def test_a_daemon_starts_at_once_and_is_found_by_server_stop(
    tmp_path: Path, environment: dict[str, str], named_as_kafka: bool
) -> None:
    start = [str(BIN / "kafka-server-start.sh")] if named_as_kafka else [*MOLDAU, "server-start"]
    stop = [str(BIN / "kafka-server-stop.sh")] if named_as_kafka else [*MOLDAU, "server-stop"]
    port = free_port()
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"broker.id=4\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n"
    )
    started = run([*start, "-daemon", str(settings)], environment, tmp_path)
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    wait_until(True, port)
    missed = run([*stop, "--node-id=5"], environment, tmp_path)
    assert (missed.returncode, missed.stdout) == (1, "No kafka server to stop\n")
    stopped = run([*stop, "-daemon", str(settings)], environment, tmp_path)
    assert (stopped.returncode, stopped.stdout) == (0, "")
    assert "no effect" in stopped.stderr, "what is ignored is said"
    wait_until(False, port)
    console = tmp_path / "logs" / "kafkaServer.out"
    deadline = time.monotonic() + 20
    while "shut down completed" not in console.read_text() or list((tmp_path / "run").iterdir()):
        assert time.monotonic() < deadline, console.read_text()
        time.sleep(0.01)
    again = run(stop, environment, tmp_path)
    assert (again.returncode, again.stdout) == (1, "No kafka server to stop\n")


def test_a_daemon_with_a_bad_setting_fails_before_it_leaves(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    command = [*MOLDAU, "server-start", "-daemon", "--override", "num.io.threads=none"]
    failed = run(command, environment, tmp_path)
    assert failed.returncode == 1
    assert "num.io.threads" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_kafkas_script_wants_a_settings_file(tmp_path: Path, environment: dict[str, str]) -> None:
    refused = run([str(BIN / "kafka-server-start.sh")], environment, tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("USAGE:")


def test_a_broker_that_left_no_file_is_known_by_its_command_line(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert broker.pid in set(run_files.looking_like_brokers())
        assert os.getpid() not in set(run_files.looking_like_brokers())
