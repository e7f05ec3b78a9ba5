"""What a broker cannot do yet it does not pretend to do: it refuses to start, in one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moldau.testing.broker_process import STOP_SECONDS_MAX, BrokerProcess
from tests.support.eventually import eventually


def refusal(directory: Path, settings: dict[str, str]) -> str:
    """What the broker says at a start that fails."""
    broker = BrokerProcess(directory, overrides=settings)
    broker.spawn()
    assert broker.process is not None
    try:
        code = broker.process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        broker.kill()
        pytest.fail(f"the broker runs with {settings}")
    assert code == 1
    return broker.log_text


@pytest.mark.parametrize(
    "key, value",
    [
        ("authorizer.class.name", "org.example.Authorizer"),
        ("create.topic.policy.class.name", "org.example.Policy"),
        ("client.quota.callback.class", "org.example.Quotas"),
        ("config.providers", "file"),
    ],
)
def test_what_would_be_left_undone_is_refused(tmp_path: Path, key: str, value: str) -> None:
    said = refusal(tmp_path, {key: value})
    assert said.count("\n") == 1
    assert f"configuration {key}: " in said
    assert value in said


def test_a_refused_secret_is_not_shown(tmp_path: Path) -> None:
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    listener = {"listeners": listeners, "sasl.enabled.mechanisms": "PLAIN"}
    said = refusal(tmp_path, {**listener, jaas: "swordfish required;"})
    assert jaas in said
    assert "swordfish" not in said


def test_settings_that_nothing_needs_here_are_named_at_the_start(tmp_path: Path) -> None:
    settings = {"num.network.threads": "7", "ssl.provider": "x"}
    with BrokerProcess(tmp_path, overrides=settings) as broker:
        line = "accepted without effect: num.network.threads, ssl.provider"
        eventually(lambda: line in broker.log_text)
