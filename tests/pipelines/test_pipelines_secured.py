"""Pipelines on a secured broker: they work by the connector's names, and their secrets stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.broker_security import Security
from tests.pipelines.conftest import SETTINGS

TOPICS = ("in", "out-exactly", "out-least", "out-plain")
WORDS = ["one", "two", "three"]
SECRET = "w0nder-land-of-spark"
KEY_MARK = "-----BEGIN PRIVATE KEY-----"
RUN_SECONDS_MAX = 600


@pytest.mark.timeout(RUN_SECONDS_MAX + 60)
def test_a_pipeline_works_on_a_secured_broker_and_keeps_its_secrets(tmp_path: Path) -> None:
    security = Security("SASL_SSL", users={"alice": SECRET}, client_auth="required")
    with BrokerProcess(tmp_path / "broker", security=security, overrides=SETTINGS) as broker:
        settings = {"bootstrap.servers": broker.bootstrap, **security.client_settings()}
        # The key in the settings themselves, as well as in a file.
        pair = Path(settings.pop("ssl.keystore.location")).read_text()
        key, chain = pair[pair.index(KEY_MARK) :], pair[: pair.index(KEY_MARK)]
        if not chain.strip():
            end = key.index("-----END PRIVATE KEY-----") + len("-----END PRIVATE KEY-----")
            key, chain = key[:end], key[end:]
        settings["ssl.keystore.key"] = key.strip()
        settings["ssl.keystore.certificate.chain"] = chain.strip()
        with Admin(settings) as admin:
            admin.create_topics([NewTopic(name, 1) for name in TOPICS]).check()
        with Producer(settings) as producer:
            for word in WORDS:
                producer.send("in", word.encode(), key=b"k")
        place = tmp_path / "settings.json"
        place.write_text(json.dumps(settings))
        work = tmp_path / "work"
        work.mkdir()
        ran = subprocess.run(
            [sys.executable, "-m", "tests.support.secured_pipeline", str(place), str(work)],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
        )
        assert ran.returncode == 0, ran.stderr[ran.stderr.rfind("Traceback") :][:6000]
        assert json.loads(ran.stdout.splitlines()[-1]) == {"read": sorted(WORDS)}
        for topic in TOPICS[1:]:
            assert values(settings, topic) == WORDS
        written = {f"event log {path.name}": path.read_text() for path in files(work)}
    assert any(name.startswith("event log") for name in written)
    said = {"stdout": ran.stdout, "stderr": ran.stderr, "broker": broker.log_text, **written}
    secrets = {SECRET, *(line for line in key.splitlines()[1:-1] if len(line) > 20)}
    found = {
        (where, line[:200])
        for where, text in said.items()
        for line in text.splitlines()
        for secret in secrets
        if secret in line
    }
    assert not found


def files(directory: Path) -> list[Path]:
    """Everything that was left behind and can be read as text."""
    return [
        path
        for path in directory.rglob("*")
        if path.is_file() and b"\0" not in path.read_bytes()[:1000]
    ]


def values(settings: dict[str, str], topic: str) -> list[str]:
    place = TopicPartition(topic, 0)
    found: list[str] = []
    with Consumer({**settings, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        for _ in range(60):
            found += [bytes(record.value or b"").decode() for record in consumer.poll(timeout=1.0)]
            if len(found) >= len(WORDS):
                break
    return found
