"""Certificates of a running broker are replaced by a change of its settings, without a restart."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from moldau.model.errors import Error
from moldau.net.tls.authority import Authority
from moldau.testing.broker_process import BrokerProcess, free_port

CA = Authority.create("Renewals", 2)
HOST = "127.0.0.1"
PREFIX = "listener.name.outside.ssl."


class Place(NamedTuple):
    broker: BrokerProcess
    port: int
    folder: Path

    def alter(self, **settings: str) -> None:
        entries = [
            ConfigEntry(
                PREFIX + key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET
            )
            for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=entries)
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.incremental_alter_configs([resource])[resource].result(20)

    def refusal(self, **settings: str) -> str:
        with pytest.raises(KafkaException) as refused:
            self.alter(**settings)
        assert refused.value.args[0].code() == Error.INVALID_REQUEST
        return str(refused.value.args[0].str())

    def shown(self) -> bytes:
        """The certificate that the listener shows to whoever comes now."""
        with contextlib.closing(connected(self.port)) as client:
            return client.getpeercert(binary_form=True) or b""


def connected(port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=CA.identity.certificate)
    return context.wrap_socket(socket.create_connection((HOST, port), 10), server_hostname=HOST)


def issued(path: Path) -> bytes:
    """A new certificate in that file; as a client sees it."""
    made = CA.issue_broker("broker", (HOST,), 2)
    path.write_text(made.together)
    return ssl.PEM_cert_to_DER_cert(made.certificate)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    port = free_port()
    issued(tmp_path / "first.pem")
    plain = free_port()
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{plain},OUTSIDE://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL",
        PREFIX + "keystore.type": "PEM",
        PREFIX + "keystore.location": str(tmp_path / "first.pem"),
    }
    with BrokerProcess(tmp_path, port=plain, overrides=settings) as broker:
        yield Place(broker, port, tmp_path)


def test_another_store_and_another_content_of_the_same(place: Place) -> None:
    before = connected(place.port)
    second = issued(place.folder / "second.pem")
    assert place.shown() != second
    location = str(place.folder / "second.pem")
    place.alter(keystore_location=location)
    assert place.shown() == second
    # The same path again: that is how somebody says that what stands there is new.
    third = issued(place.folder / "second.pem")
    assert place.shown() == second
    place.alter(keystore_location=location)
    assert place.shown() == third
    # Who was there before goes on.
    before.settimeout(10)
    before.sendall(bytes.fromhex("0000000a 0012 0000 00000007 0000".replace(" ", "")))
    assert before.recv(8)[4:8] == bytes.fromhex("00000007")
    before.close()


def test_a_store_that_will_not_do_is_refused(place: Place) -> None:
    good = place.shown()
    nowhere = str(place.folder / "nowhere.pem")
    assert "nowhere.pem" in place.refusal(keystore_location=nowhere)
    (place.folder / "bad.pem").write_text("nothing of the kind")
    place.refusal(keystore_location=str(place.folder / "bad.pem"))
    # Not even what is there is touched.
    assert place.shown() == good
    assert "goes on as it was" not in place.broker.log_text
