"""What a broker cannot do yet it does not pretend to do: it refuses to start, in one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import STOP_SECONDS_MAX, BrokerProcess, free_port

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_listener_that_should_be_secure_is_refused(tmp_path: Path, protocol: str) -> None:
    address = f"OUTSIDE://127.0.0.1:{free_port()}"
    said = refusal(
        tmp_path,
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,{address}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,OUTSIDE:{protocol}",
        },
    )
    assert said.count("\n") == 1
    assert f"Invalid value {address}" in said
    assert f"configuration listeners: {protocol} is not supported yet" in said
    assert "make it PLAINTEXT" in said


@pytest.mark.parametrize(
    "key, value",
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("ssl.client.auth", "required"),
        ("listener.name.plaintext.ssl.client.auth", "required"),
        ("create.topic.policy.class.name", "org.example.Policy"),
        ("client.quota.callback.class", "org.example.Quotas"),
        ("config.providers", "file"),
        ("zookeeper.connect", "127.0.0.1:1"),
    ],
)
def test_what_would_be_left_undone_is_refused(tmp_path: Path, key: str, value: str) -> None:
    settings = {key: value}
    if key == "zookeeper.connect":
        settings["broker.id"] = "-1"  # nobody hands out numbers yet
    said = refusal(tmp_path, settings)
    assert said.count("\n") == 1
    assert f"configuration {'broker.id' if 'broker.id' in settings else key}: " in said
    assert ("-1" if "broker.id" in settings else value) in said


def test_a_refused_secret_is_not_shown(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"delegation.token.secret.key": "swordfish"})
    assert "delegation.token.secret.key: there are no delegation tokens yet" in said
    assert "swordfish" not in said


def test_settings_that_nothing_needs_here_are_named_at_the_start(tmp_path: Path) -> None:
    settings = {"num.network.threads": "7", "quota.window.num": "5", "super.users": "User:me"}
    with BrokerProcess(tmp_path, overrides=settings) as broker:
        line = "accepted without effect: num.network.threads, quota.window.num, super.users"
        assert line in broker.log_text
