"""kafka-python's settings of TLS and log-ins, which are not called as in Kafka, as Moldau's.

It takes the key and the certificate from two files in PEM form; here both are read and handed on
as texts. What it has beyond that is refused where it would be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from moldau.errors import ConfigError

TLS_REFUSED = ("ssl_ciphers", "ssl_context", "ssl_crlfile")
SASL_REFUSED = (
    "sasl_kerberos_domain_name",
    "sasl_kerberos_name",
    "sasl_kerberos_service_name",
    "sasl_oauth_token_provider",
)
TLS_OWN = ("ssl_cafile", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile", "ssl_password")
SASL_OWN = ("sasl_plain_username", "sasl_plain_password")
OWN = frozenset((*TLS_REFUSED, *SASL_REFUSED, *TLS_OWN, *SASL_OWN))


def security_settings(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Empty for plain text; ConfigError for what Moldau's client cannot do, or cannot read."""
    protocol = str(configs.get("security_protocol") or "").upper()
    settings: dict[str, Any] = {}
    if protocol.endswith("SSL"):
        _refuse(configs, TLS_REFUSED)
        settings |= _tls(configs.get)
    if protocol.startswith("SASL"):
        _refuse(configs, SASL_REFUSED)
        settings["sasl.username"] = configs.get("sasl_plain_username")
        settings["sasl.password"] = configs.get("sasl_plain_password")
    return {key: value for key, value in settings.items() if value is not None}


def _refuse(configs: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if configs.get(name) is not None:
            raise ConfigError(name, "[hidden]", "Moldau's client cannot use it")


def _tls(given: Callable[[str], Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"ssl.key.password": given("ssl_password")}
    if given("ssl_check_hostname") is False:
        settings["ssl.endpoint.identification.algorithm"] = ""
    if given("ssl_cafile") is not None:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.location"] = str(given("ssl_cafile"))
    if given("ssl_certfile") is not None:
        chain = _text("ssl_certfile", given("ssl_certfile"))
        key = given("ssl_keyfile")
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.certificate.chain"] = chain
        settings["ssl.keystore.key"] = chain if key is None else _text("ssl_keyfile", key)
    return settings


def _text(name: str, path: Any) -> str:
    try:
        return Path(path).read_text(encoding="latin-1")
    except OSError as fault:
        raise ConfigError(name, path, f"it cannot be read: {fault.strerror}") from None
