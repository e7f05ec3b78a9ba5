"""How a listener lets clients in by Kerberos, read from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.net.sasl.kerberos import Acceptor, kerberos_options
from moldau.net.sasl.login_modules import JAAS, listener_key
from moldau.security.naming.kerberos_names import kerberos_user, parse_kerberos_rules
from moldau.security.sasl.gssapi import GssapiServer
from moldau.security.sasl.sasl_mechanism import GSSAPI

RULES = "sasl.kerberos.principal.to.local.rules"


def kerberos_start(
    config: BrokerConfig, listener: str, options: Mapping[str, str] | None
) -> Callable[[], GssapiServer]:
    """By the options of the log-in module, if there is one. Raises ConfigError."""
    key = listener_key(listener, GSSAPI, JAAS)
    if options is None:
        limit = "the key table of GSSAPI stands here, or in a JAAS file; without it nobody gets in"
        raise ConfigError(key, "", limit)
    own_config = config.for_mechanism(listener, GSSAPI)
    texts = own_config.sasl_kerberos_principal_to_local_rules
    try:
        rules = parse_kerberos_rules(texts)
    except ValueError as fault:
        raise ConfigError(RULES, ",".join(texts), str(fault)) from None
    service, file = own_config.sasl_kerberos_service_name, config.java_security_krb5_conf
    acceptor = Acceptor(key, kerberos_options(key, options, service, file))
    realm = acceptor.default_realm()

    def user_of(name: str) -> str:
        return kerberos_user(name, rules, realm)

    return lambda: GssapiServer(acceptor.context(), user_of)
