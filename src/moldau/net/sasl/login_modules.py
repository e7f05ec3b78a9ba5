"""Which log-in module the settings mean: one of a listener's own keys, or a section of a file.

The file is the one that a JVM is told of by -Djava.security.auth.login.config. Apache Kafka looks
for the section `<listener in lower case>.KafkaServer`, then `KafkaServer`; ZooKeeper's client for
`Client`. What cannot be honoured is a ConfigError of one sentence; secrets are never quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from moldau.config.broker_config import LISTENER_PREFIX, BrokerConfig
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.security.jaas import JaasError, LoginModule, parse_login_module, parse_sections

JAAS = "sasl.jaas.config"
JAAS_FILE = "java.security.auth.login.config"
BROKER_SECTION = "KafkaServer"
FILE_BYTES_MAX = 1_000_000

Sections = Mapping[str, tuple[LoginModule, ...]]


class NamesJaasFile(Protocol):
    @property
    def java_security_auth_login_config(self) -> str | None: ...


def listener_key(listener: str, mechanism: str, name: str) -> str:
    """Of a setting for one listener and mechanism."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{name}"


def login_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    """None if nothing is said about the mechanism. Raises ConfigError."""
    key = listener_key(listener, mechanism, JAAS)
    text = {**config.given, **config.overrides}.get(key, "").strip()
    if not text:
        return _from_file(config, listener, mechanism)
    try:
        module = parse_login_module(text)
    except JaasError as fault:
        raise ConfigError(key, HIDDEN, str(fault)) from None
    if not module.serves(mechanism):
        limit = f"{module.class_name} is not the login module of {mechanism}"
        raise ConfigError(key, HIDDEN, limit)
    return module


def sections_of(config: NamesJaasFile) -> Sections:
    """Of the file, empty if none is named. Raises ConfigError."""
    path = config.java_security_auth_login_config
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not in UTF-8"
        raise ConfigError(JAAS_FILE, path, f"the file cannot be read: {reason}") from None
    try:
        return parse_sections(text)
    except JaasError as fault:
        raise ConfigError(JAAS_FILE, path, str(fault)) from None


def _from_file(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    sections = sections_of(config)
    modules = sections.get(f"{listener.lower()}.{BROKER_SECTION}")
    if modules is None:
        modules = sections.get(BROKER_SECTION, ())
    serving = [module for module in modules if module.serves(mechanism)]
    if len(serving) > 1:
        limit = f"a section of it has more than one login module for {mechanism}"
        raise ConfigError(JAAS_FILE, config.java_security_auth_login_config, limit)
    return serving[0] if serving else None
