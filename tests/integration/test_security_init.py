"""`moldau security init`: what it makes works at once, for commands and for foreign clients."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.config.properties import parse_properties
from moldau.security.jaas import parse_login_module
from moldau.testing.broker_process import BrokerProcess, free_port

SECONDS_MAX = 60


def moldau(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moldau.main", *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )


class Started(BrokerProcess):
    """Started as the command says."""

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory.parent / "process", port=port)
        self.file = directory / "server.properties"

    def command(self) -> list[str]:
        return [sys.executable, "-m", self.main, "server-start", str(self.file)]

    def wait_until_it_answers(self) -> None:
        import ssl

        context = ssl.create_default_context(cafile=str(self.file.parent / "ca.pem"))
        admin = self.file.parent / "admin.pem"
        if admin.exists():
            context.load_cert_chain(admin)
        self.probe_context = context
        super().wait_until_it_answers()


@pytest.fixture(params=[(), ("--mutual-tls",)], ids=["passwords", "certificates"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    directory, port = tmp_path / "secured", free_port()
    words = ("--port", str(port), "--user", "alice", "--prefix", "wonder.", *request.param)
    made = moldau("security", "init", "--directory", directory, *words)
    assert made.returncode == 0, made.stderr
    assert f"bootstrap.servers=localhost:{port}" in made.stdout
    with Started(directory, port):
        yield directory, f"localhost:{port}"


def test_a_broker_made_by_it_serves_its_users_and_nobody_else(secured: tuple[Path, str]) -> None:
    directory, bootstrap = secured
    at = ("--bootstrap-server", bootstrap)
    alice = directory / "alice.properties"
    topic = ("--topic", "wonder.land")
    sent = moldau("console-producer", *at, *topic, "--producer.config", alice, stdin="ahoj\n")
    assert sent.returncode == 0, sent.stderr
    by_librdkafka(directory, bootstrap, "wonder.land")
    words = ("--from-beginning", "--max-messages", "2", "--group", "wonder.readers")
    read = moldau("console-consumer", *at, *topic, *words, "--consumer.config", alice)
    assert (read.returncode, read.stdout) == (0, "ahoj\nby librdkafka\n"), read.stderr
    create = ("topics", *at, "--create", "--topic")
    refused = moldau(*create, "elsewhere", "--command-config", alice)
    assert (refused.returncode, "uthorization" in refused.stdout + refused.stderr) == (1, True)
    admin = directory / "admin.properties"
    assert moldau(*create, "elsewhere", "--command-config", admin).returncode == 0
    listed = moldau("topics", *at, "--list", "--command-config", alice)
    assert "elsewhere" not in listed.stdout.split()


def by_librdkafka(directory: Path, bootstrap: str, topic: str) -> None:
    ours = parse_properties((directory / "alice.properties").read_text())
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": ours["security.protocol"],
        "ssl.ca.location": ours["ssl.truststore.location"],
    }
    if "sasl.mechanism" in ours:
        options = parse_login_module(ours["sasl.jaas.config"]).options
        settings["sasl.mechanism"] = ours["sasl.mechanism"]
        settings["sasl.username"] = options["username"]
        settings["sasl.password"] = options["password"]
    else:
        settings["ssl.certificate.location"] = ours["ssl.keystore.location"]
        settings["ssl.key.location"] = ours["ssl.keystore.location"]
    told: list[object] = []
    producer = Producer(settings)
    producer.produce(topic, b"by librdkafka", on_delivery=lambda fault, _: told.append(fault))
    assert producer.flush(SECONDS_MAX) == 0
    assert told == [None]


def test_its_files_are_for_their_owner_and_its_words_hold_no_secret(tmp_path: Path) -> None:
    directory = tmp_path / "secured"
    made = moldau("security", "init", "--directory", directory, "--json")
    assert made.returncode == 0, made.stderr
    answer = json.loads(made.stdout)
    files = [Path(each) for each in answer["files"]]
    assert {*directory.iterdir()} == {*files, directory / "data"}
    for path in (*files, directory / "data" / "moldau.metadata"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for name in answer["users"]:
        settings = parse_properties((directory / f"{name}.properties").read_text())
        password = parse_login_module(settings["sasl.jaas.config"]).options["password"]
        assert len(password) >= 32
        assert password not in made.stdout + made.stderr
        assert password.encode() not in (directory / "data" / "moldau.metadata").read_bytes()


def test_nothing_is_overwritten_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    directory, data = tmp_path / "secured", tmp_path / "used"
    words = ("security", "init", "--directory", directory)
    assert moldau(*words, "--log-dir", data).returncode == 0
    before = {path: path.read_bytes() for path in directory.iterdir()}
    again = moldau(*words, "--log-dir", tmp_path / "other")
    assert (again.returncode, "File exists" in again.stderr) == (1, True), again.stderr
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
    elsewhere = tmp_path / "elsewhere"
    used = moldau("security", "init", "--directory", elsewhere, "--log-dir", data)
    assert (used.returncode, "it was used before" in used.stderr) == (1, True), used.stderr
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--user", "a b"), "--user 'a b' must be made of letters, digits"),
        (("--user", "admin"), "none of broker, admin, ca, server"),
        (("--user", "a", "--user", "a"), "twice"),
        (("--host", "a/b"), "--host 'a/b'"),
        (("--port", "70000"), "--port 70000 must be between 1 and 65535"),
    ],
)
def test_words_that_do_not_do_are_refused(
    words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    refused = moldau("security", "init", "--directory", tmp_path / "x", *words)
    assert refused.returncode == 1
    assert sentence in refused.stderr
    assert not (tmp_path / "x").exists()
