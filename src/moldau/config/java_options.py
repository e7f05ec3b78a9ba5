"""What the options of a JVM say that also holds here: Kafka's scripts take them from KAFKA_OPTS."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

OPTIONS = "KAFKA_OPTS"
JAAS_FILE = "java.security.auth.login.config"
FLAGS = (JAAS_FILE, "zookeeper.sasl.client", "zookeeper.sasl.clientconfig")
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
