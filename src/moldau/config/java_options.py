"""What the options of a JVM say that also holds here: Kafka's scripts take them from KAFKA_OPTS."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

OPTIONS = "KAFKA_OPTS"
JAAS_FILE = "java.security.auth.login.config"
KERBEROS_FILE = "java.security.krb5.conf"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
FLAGS = (
    JAAS_FILE,
    KERBEROS_FILE,
    ALLOWED_URLS,
    ALLOWED_FILES,
    "zookeeper.sasl.client",
    "zookeeper.sasl.clientconfig",
    "zookeeper.sasl.client.username",
)
"""Each is a setting too, of the same name."""


def java_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among the flags; of several the last, as in Java."""
    found = {}
    text = environment.get(OPTIONS, "")
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in words:
        name, equals, value = word.removeprefix("-D").partition("=")
        if not word.startswith("-D") or not equals or name not in FLAGS:
            continue
        if name == JAAS_FILE:
            # A second = would keep a JVM from looking elsewhere too.
            value = value.removeprefix("=").removeprefix("file:")
        if value:
            found[name] = value
    return found


def listed(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A flag that is a list with commas."""
    text = java_settings(environment).get(name, "")
    return tuple(word for part in text.split(",") if (word := part.strip()))
