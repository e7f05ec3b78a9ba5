"""How the connections of one client are secured: its TLS, and the log-ins that it makes.

Read from the settings when the client is made, so that what is wrong with them is said there. No
secret is in what an object here shows of itself, nor in an error.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.client.shared.client_errors import ConfigError
from moldau.config.client_settings.security_settings import (
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    SecuritySettings,
)
from moldau.config.setting_definition import HIDDEN

if TYPE_CHECKING:
    import ssl

    from moldau.security.sasl.sasl_mechanism import SaslClient

JAAS = "sasl.jaas.config"
NONCE_BYTES = 24


class Login:
    """Who the client is; `start` begins one log-in."""

    def __init__(self, mechanism: str, start: Callable[[], SaslClient]) -> None:
        self.mechanism = mechanism
        self.start = start

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {HIDDEN})"


class ConnectionSecurity:
    def __init__(self, protocol: str, context: ssl.SSLContext | None, login: Login | None) -> None:
        self.protocol = protocol
        self.context = context
        self.login = login

    def __repr__(self) -> str:
        return f"ConnectionSecurity({self.protocol})"

    @classmethod
    def of(cls, config: SecuritySettings) -> ConnectionSecurity | None:
        """None for plain text without a log-in; ConfigError if the settings do not do."""
        protocol = config.security_protocol
        context = _context(config) if protocol in TLS_PROTOCOLS else None
        login = _login(config) if protocol in SASL_PROTOCOLS else None
        return None if context is None and login is None else cls(protocol, context, login)


def _context(config: SecuritySettings) -> ssl.SSLContext:
    from moldau.net.tls.contexts import client_context
    from moldau.net.tls.pem_blocks import StoreFault

    try:
        return client_context(config)
    except StoreFault as fault:
        raise ConfigError("security.protocol", config.security_protocol, str(fault)) from None


def _login(config: SecuritySettings) -> Login:
    from moldau.security.sasl.sasl_mechanism import GSSAPI, MECHANISMS, OAUTHBEARER

    mechanism = config.sasl_mechanism
    if mechanism not in MECHANISMS:
        also = " (its default, Kerberos, is not built)" if mechanism == GSSAPI else ""
        limit = f"must be one of {', '.join(MECHANISMS)}{also}"
        raise ConfigError("sasl.mechanism", mechanism, limit)
    options = _options(config, mechanism)
    if mechanism == OAUTHBEARER:
        return Login(mechanism, _bearer(options))
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        raise ConfigError(JAAS, HIDDEN, f"{mechanism} needs a username and a password")
    return Login(mechanism, _by_password(mechanism, name, password, options))


def _options(config: SecuritySettings, mechanism: str) -> Mapping[str, str]:
    """Of the log-in module; `sasl.username` and `sasl.password` stand for one."""
    from moldau.security.jaas import JaasError, parse_login_module

    name, password = config.sasl_username, config.sasl_password
    if config.sasl_jaas_config is None:
        if name is None or password is None:
            limit = f"a log-in by {mechanism} needs it, or sasl.username and sasl.password"
            raise ConfigError(JAAS, "none", limit)
        return {"username": name, "password": password}
    if name is not None or password is not None:
        raise ConfigError(JAAS, HIDDEN, "excludes sasl.username and sasl.password")
    try:
        module = parse_login_module(config.sasl_jaas_config)
    except JaasError as fault:
        raise ConfigError(JAAS, HIDDEN, str(fault)) from None
    if not module.serves(mechanism):
        limit = f"{module.class_name} is not for sasl.mechanism={mechanism}"
        raise ConfigError(JAAS, HIDDEN, limit)
    return module.options


def _by_password(
    mechanism: str, name: str, password: str, options: Mapping[str, str]
) -> Callable[[], SaslClient]:
    from moldau.security.sasl.plain import PlainClient
    from moldau.security.sasl.sasl_mechanism import PLAIN
    from moldau.security.sasl.scram_client import ScramClient

    if mechanism == PLAIN:
        return lambda: PlainClient(name, password)
    is_token = options.get("tokenauth", "").lower() == "true"

    def start() -> ScramClient:
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return ScramClient(mechanism, name, password, nonce, is_token=is_token)

    return start


def _bearer(options: Mapping[str, str]) -> Callable[[], SaslClient]:
    from moldau.security.sasl.oauthbearer import OAuthBearerClient
    from moldau.security.sasl.unsecured_login import extensions, unsecured_token

    def start() -> OAuthBearerClient:
        # A token of its own for each log-in: it cannot have expired meanwhile.
        token = unsecured_token(options, int(time.time() * 1000))
        return OAuthBearerClient(token, extensions(options))

    try:
        start()
    except ValueError as fault:
        raise ConfigError(JAAS, HIDDEN, str(fault)) from None
    return start


def tls_refusal(fault: Exception | None) -> str | None:
    """Why a TLS handshake failed for good; None if it only broke off, or was none."""
    import ssl

    if not isinstance(fault, ssl.SSLError):
        return None
    if isinstance(fault, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return None
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted: {fault.verify_message}"
    reason = (fault.reason or str(fault)).replace("_", " ").lower()
    if reason == "wrong version number" or reason == "record layer failure":
        return f"the broker does not speak TLS there ({reason})"
    return reason
