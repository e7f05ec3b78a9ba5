"""What the options of a JVM say that also holds here: Kafka's scripts take them from KAFKA_OPTS."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

OPTIONS = "KAFKA_OPTS"
JAAS_FILE = "java.security.auth.login.config"
_FLAG = f"-D{JAAS_FILE}="


def jaas_file_of(environment: Mapping[str, str]) -> str | None:
    """The file with log-in modules; of several the last, as in Java."""
    found = None
    text = environment.get(OPTIONS, "")
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in words:
        if word.startswith(_FLAG):
            # A second = would keep a JVM from looking elsewhere too.
            found = word.removeprefix(_FLAG).removeprefix("=").removeprefix("file:") or None
    return found
