"""Delegation tokens at a real broker: the command makes them, clients log in with them."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau import Admin
from moldau.errors import AuthenticationError, KafkaError
from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess, free_ports
from tests.support.eventually import eventually

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "the-secret-of-all-brokers"


class Place(NamedTuple):
    plain: str
    sasl: str
    process: BrokerProcess
    config: Path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("tokens")
    port, sasl_port = free_ports(2)
    jaas = f'{PLAIN_MODULE} required user_alice="wonder" user_bob="builder";'
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "delegation.token.master.key": SECRET,
        "delegation.token.expiry.check.interval.ms": "200",
    }
    config = directory / "client.properties"
    lines = [f"{key}={value}" for key, value in by_password("alice", "wonder").items()]
    config.write_text("\n".join(lines))
    with BrokerProcess(directory, port=port, overrides=settings) as process:
        yield Place(process.bootstrap, f"127.0.0.1:{sasl_port}", process, config)


def by_password(name: str, password: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{name}" password="{password}";',
    }


def by_token(token_id: str, hmac: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
        ),
    }


def admin_of(broker: Place, settings: dict[str, Any]) -> Admin:
    return Admin({"bootstrap.servers": broker.sasl, **settings})


def command(broker: Place, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "moldau.main", "delegation-tokens"),
            *("--bootstrap-server", broker.sasl, "--command-config", str(broker.config)),
            *words,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_creates_renews_describes_and_expires(broker: Place) -> None:
    made = command(
        broker, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    assert made.returncode == 0, made.stderr
    first, second, empty, titles, gap, row = made.stdout.splitlines()
    assert first == (
        "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
    )
    token_id = row.split()[0]
    assert second == f"Created delegation token with tokenId : {token_id}"
    assert (empty, gap) == ("", "")
    assert titles.split() == [
        *("TOKENID", "HMAC", "OWNER", "REQUESTER"),
        *("RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE"),
    ]
    _, hmac, owner, requester, renewers, *_ = row.split()
    assert (owner, requester, renewers) == ("User:alice", "User:alice", "[User:bob]")

    seen = command(broker, "--describe").stdout
    assert seen.startswith("Calling describe token operation for current user.\nTotal number of ")
    assert row in seen.splitlines()
    renewed = command(broker, "--renew", "--hmac", hmac, "--renew-time-period", "60000")
    assert f"hmac :{hmac} , renew-time-period :60000\nCompleted renew operation." in renewed.stdout
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with admin_of(broker, by_token(token_id, hmac, mechanism)) as admin:
            assert admin.describe_cluster().nodes
    ended = command(broker, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    assert "Completed expire operation. New expiry date : " in ended.stdout
    with (
        pytest.raises(AuthenticationError, match="invalid credentials"),
        admin_of(broker, by_token(token_id, hmac)) as admin,
    ):
        admin.describe_cluster()
    again = command(broker, "--renew", "--hmac", hmac, "--renew-time-period", "-1")
    assert again.returncode == 1
    assert "DelegationTokenNotFoundException" in again.stderr


def test_whoever_logged_in_by_a_token_gets_none(broker: Place) -> None:
    with admin_of(broker, by_password("alice", "wonder")) as admin:
        token = admin.create_delegation_token()
    hmac = base64.b64encode(token.hmac).decode()
    with admin_of(broker, by_token(token.token_id, hmac)) as admin:
        for call in (admin.create_delegation_token, admin.describe_delegation_tokens):
            with pytest.raises(KafkaError) as refusal:
                call()
            assert refusal.value.code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with Admin({"bootstrap.servers": broker.plain}) as admin, pytest.raises(KafkaError) as refusal:
        admin.create_delegation_token()
    assert refusal.value.code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_token_ends_by_itself_and_is_taken_away(broker: Place) -> None:
    with admin_of(broker, by_password("bob", "builder")) as admin:
        token = admin.create_delegation_token(max_lifetime=0.3)
        eventually(lambda: token not in admin.describe_delegation_tokens())
    with (
        pytest.raises(AuthenticationError),
        admin_of(broker, by_token(token.token_id, base64.b64encode(token.hmac).decode())) as admin,
    ):
        admin.describe_cluster()


def test_tokens_outlive_a_restart_and_no_secret_is_in_the_log(broker: Place) -> None:
    with admin_of(broker, by_password("alice", "wonder")) as admin:
        token = admin.create_delegation_token()
    hmac = base64.b64encode(token.hmac).decode()
    broker.process.stop()
    broker.process.start()
    with admin_of(broker, by_token(token.token_id, hmac)) as admin:
        assert admin.describe_cluster().nodes
    eventually(lambda: token.token_id in broker.process.log_text)
    for secret in (SECRET, hmac, token.hmac.hex()):
        assert secret not in broker.process.log_text


def test_the_command_names_what_is_missing_or_too_much(broker: Place) -> None:
    nothing = command(broker)
    assert "exactly one action: --create, --renew, --expire or --describe" in nothing.stderr
    missing = command(broker, "--create")
    assert 'Missing required argument "[max-life-time-period]"' in missing.stderr
    much = command(broker, "--create", "--max-life-time-period", "1", "--hmac", "x")
    assert 'Option "[create]" can\'t be used with option "[hmac]"' in much.stderr
    assert [nothing.returncode, missing.returncode, much.returncode] == [1, 1, 1]
