"""The secured cluster of docs/security.md works as it stands there; only paths and ports differ."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition, errors
from moldau.admin import NewTopic, ScramMechanism
from moldau.config.properties import parse_properties
from moldau.net.tls.authority import Authority
from moldau.testing.broker_process import HOST, BrokerProcess, free_ports
from tests.support.eventually import eventually
from tests.support.secured_zookeeper import CA, USERS, secured_zookeeper

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
ALL_LINES = re.DOTALL | re.MULTILINE
SECTION = re.search(r"^## A secured cluster\n(.*?)^## ", PAGE, ALL_LINES)
ZOOKEEPER = re.search(r"^## ZooKeeper\n(.*?)^## ", PAGE, ALL_LINES)
COUNT = 2
SECONDS_MAX = 60


def blocks(section: re.Match[str] | None, kind: str) -> list[str]:
    assert section is not None
    found = re.findall(r"^```(\w*)\n(.*?)^```$", section[1], ALL_LINES)
    return [text for each, text in found if each == kind]


def test_the_secured_cluster_of_the_page_works_as_it_stands_there(tmp_path: Path) -> None:
    server_text, client_text = blocks(SECTION, "properties")
    (acls_line,) = blocks(SECTION, "")
    authority = Authority.create("The page's CA", 1)
    (tmp_path / "ca.pem").write_text(authority.identity.certificate)
    (tmp_path / "broker.pem").write_text(authority.issue_broker("broker", [HOST], 1).together)
    (tmp_path / "zookeeper-ca.pem").write_text(CA.certificate_pem)
    CA.issue_user("kafka").write(tmp_path / "zookeeper-client.pem")
    (jaas,) = (text for text in blocks(ZOOKEEPER, "") if text.startswith("Client"))
    assert f'password="{USERS["kafka"]}"' in jaas
    (tmp_path / "jaas.conf").write_text(jaas)
    with secured_zookeeper(tmp_path / "zookeeper") as server, ExitStack() as running:
        brokers = []
        for number, port in enumerate(free_ports(COUNT)):
            text = server_text.replace(":2182", f":{server.secure_port}")
            settings = {
                "default.replication.factor": str(COUNT),
                **settings_of(text, tmp_path, port),
                "broker.id": str(number),
            }
            broker = BrokerProcess(tmp_path / f"broker-{number}", port=port, overrides=settings)
            running.callback(broker.kill)
            broker.spawn()
            brokers.append(broker)
        client = settings_of(client_text, tmp_path, brokers[0].port)
        operator = {
            **client,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admins-own",
        }
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        work(bootstrap, client, operator, acls_line, tmp_path)


def work(
    bootstrap: str, client: dict[str, str], operator: dict[str, str], acls_line: str, home: Path
) -> None:
    reach = {"bootstrap.servers": bootstrap}
    # Brokers may still be starting: a client that is refused a connection tries again.
    with Admin({**reach, **operator}) as admin:
        eventually(lambda: len(admin.describe_cluster().nodes) == COUNT, SECONDS_MAX)
        admin.create_topics([NewTopic("orders", 1, COUNT)])
        with pytest.raises(errors.SaslAuthenticationError), Admin({**reach, **client}) as alice:
            alice.list_topics()
        sha_512 = ScramMechanism.SCRAM_SHA_512
        admin.upsert_user_scram_credential("alice", "wonderland", mechanism=sha_512)
    eventually(lambda: is_known(reach, client), SECONDS_MAX)
    with pytest.raises(errors.TopicAuthorizationError):
        write(reach, client)
    file = home / "admin.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in operator.items()))
    words = acls_line.replace("127.0.0.1:9093", bootstrap).replace("admin.properties", str(file))
    command = [sys.executable, "-m", "moldau.main", *words.split()[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    eventually(lambda: may_write(reach, client), SECONDS_MAX)
    with Consumer({**reach, **operator}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning([TopicPartition("orders", 0)])
        assert [record.value for record in consumer.poll(SECONDS_MAX)] == [b"ahoj"]


def is_known(reach: dict[str, str], client: dict[str, str]) -> bool:
    """By all brokers: any of them may be asked first."""
    try:
        for bootstrap in reach["bootstrap.servers"].split(","):
            with Admin({"bootstrap.servers": bootstrap, **client}) as alice:
                alice.list_topics()
    except errors.SaslAuthenticationError:
        return False
    return True


def write(reach: dict[str, str], client: dict[str, str]) -> None:
    with Producer({**reach, **client}) as producer:
        producer.send("orders", b"ahoj").result(SECONDS_MAX)


def may_write(reach: dict[str, str], client: dict[str, str]) -> bool:
    try:
        write(reach, client)
    except errors.TopicAuthorizationError:
        return False
    return True


def settings_of(block: str, directory: Path, port: int) -> dict[str, str]:
    return parse_properties(
        block.replace("/etc/moldau", str(directory)).replace(":9093", f":{port}")
    )
