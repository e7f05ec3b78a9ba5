"""What the options of a JVM say that also holds here: Kafka's scripts take them from KAFKA_OPTS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

OPTIONS = "KAFKA_OPTS"
LOG_OPTIONS = "KAFKA_LOG4J_OPTS"
LOG_FLAGS = ("kafka.logs.dir",)
"""May also stand among the options for log4j, which Kafka's scripts put first."""
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
    *LOG_FLAGS,
)
"""Each is a setting too, of the same name."""


def java_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among the flags; of several the last, as in Java."""
    found = {}
    own = [each for each in _flags(environment.get(LOG_OPTIONS, "")) if each[0] in LOG_FLAGS]
    for name, value in (*own, *_flags(environment.get(OPTIONS, ""))):
        if name not in FLAGS:
            continue
        if name == JAAS_FILE:
            # A second = would keep a JVM from looking elsewhere too.
            value = value.removeprefix("=").removeprefix("file:")
        if value:
            found[name] = value
    return found


def log_flags(environment: Mapping[str, str]) -> dict[str, str]:
    """All that the JVM of a Kafka broker would be told, for what reads log4j's files."""
    texts = (environment.get(LOG_OPTIONS, ""), environment.get(OPTIONS, ""))
    return {name: value for text in texts for name, value in _flags(text)}


def _flags(text: str) -> Iterator[tuple[str, str]]:
    """Those that have a value, as -Dname=value."""
    if not text:
        return
    import shlex

    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in words:
        name, equals, value = word.removeprefix("-D").partition("=")
        if word.startswith("-D") and equals:
            yield name, value


def listed(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A flag that is a list with commas."""
    text = java_settings(environment).get(name, "")
    return tuple(word for part in text.split(",") if (word := part.strip()))
