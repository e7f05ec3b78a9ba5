"""How the connections of one client are secured: its TLS, and the log-ins that it makes.

Read from the settings when the client is made, so that what is wrong with them is said there. No
secret is in what an object here shows of itself, nor in an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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

    from moldau.security.sasl.sasl_login import Login

JAAS = "sasl.jaas.config"


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
    from moldau.net.sasl.login_exchange import SOURCES
    from moldau.security.sasl.sasl_login import login_by
    from moldau.security.sasl.sasl_mechanism import GSSAPI, MECHANISMS, OAUTHBEARER

    mechanism = config.sasl_mechanism
    if mechanism not in MECHANISMS:
        limit = f"must be one of {', '.join(MECHANISMS)}"
        raise ConfigError("sasl.mechanism", mechanism, limit)
    if mechanism == OAUTHBEARER or config.sasl_login_callback_handler_class:
        from moldau.net.oauth.token_login import Allowed, is_asked_for, token_login

        if is_asked_for(config, mechanism):
            return token_login(config, _token_options(config), Allowed.by(os.environ))
    options = _options(config, mechanism)
    if mechanism == GSSAPI:
        from moldau.config.java_options import KERBEROS_FILE, java_settings
        from moldau.net.sasl.kerberos import kerberos_login

        file = java_settings(os.environ).get(KERBEROS_FILE)
        return kerberos_login(JAAS, options, config.sasl_kerberos_service_name, file)
    try:
        return login_by(mechanism, options, SOURCES)
    except ValueError as fault:
        raise ConfigError(JAAS, HIDDEN, str(fault)) from None


def _token_options(config: SecuritySettings) -> Mapping[str, str]:
    """Nothing need be in a log-in module if the settings say it all."""
    is_named = config.sasl_username is not None or config.sasl_password is not None
    from moldau.security.sasl.sasl_mechanism import OAUTHBEARER

    return _options(config, OAUTHBEARER) if is_named or config.sasl_jaas_config else {}


def _options(config: SecuritySettings, mechanism: str) -> Mapping[str, str]:
    """Of the log-in module; `sasl.username` and `sasl.password` stand for one."""
    from moldau.security.jaas import JaasError, parse_login_module
    from moldau.security.sasl.sasl_mechanism import GSSAPI, OAUTHBEARER

    name, password = config.sasl_username, config.sasl_password
    is_named = name is not None or password is not None
    if is_named and mechanism in (OAUTHBEARER, GSSAPI):
        limit = f"a log-in by {mechanism} has no sasl.username and sasl.password"
        raise ConfigError("sasl.username", name, limit)
    if config.sasl_jaas_config is None:
        if name is None or password is None:
            limit = f"a log-in by {mechanism} needs it"
            if mechanism == GSSAPI:
                limit += " (it is Kerberos, and the default of sasl.mechanism)"
            elif mechanism != OAUTHBEARER:
                limit += ", or sasl.username and sasl.password"
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
