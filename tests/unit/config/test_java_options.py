"""The JAAS file that Kafka's scripts hand to a JVM is found where they have it from."""

from __future__ import annotations

import pytest

from moldau.config.java_options import JAAS_FILE, java_settings


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", None),
        ("-Xmx1g -Dother=1", None),
        ("-Djava.security.auth.login.config=/etc/kafka/jaas.conf", "/etc/kafka/jaas.conf"),
        ("-Xmx1g -Djava.security.auth.login.config==/a -Dx=y", "/a"),
        ("-Djava.security.auth.login.config=file:/a", "/a"),
        ('-Djava.security.auth.login.config="/with a space"', "/with a space"),
        ("-Djava.security.auth.login.config=/a -Djava.security.auth.login.config=/b", "/b"),
        ("-Djava.security.auth.login.config=", None),
        ("-Djava.security.auth.login.config=/a 'unended", "/a"),
    ],
)
def test_the_file_is_found_among_the_options(options: str, expected: str | None) -> None:
    assert java_settings({"KAFKA_OPTS": options}).get(JAAS_FILE) == expected


def test_without_options_there_is_no_file() -> None:
    assert java_settings({}) == {}


def test_what_kerberos_and_zookeepers_client_are_told_is_a_setting_too() -> None:
    options = (
        "-Dzookeeper.sasl.client=false -Dzookeeper.sasl.clientconfig=Ours -Dother=1 "
        "-Djava.security.krb5.conf=/k -Dzookeeper.sasl.client.username=zk"
    )
    assert java_settings({"KAFKA_OPTS": options}) == {
        "zookeeper.sasl.client": "false",
        "zookeeper.sasl.clientconfig": "Ours",
        "java.security.krb5.conf": "/k",
        "zookeeper.sasl.client.username": "zk",
    }
