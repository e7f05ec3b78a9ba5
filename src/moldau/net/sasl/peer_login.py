"""Who this broker is when it logs in to others, by the settings of the listener among brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.net.sasl.login_exchange import SOURCES
from moldau.net.sasl.login_modules import JAAS, listener_key, login_module
from moldau.security.sasl.sasl_login import Login, login_by
from moldau.security.sasl.sasl_mechanism import GSSAPI, MECHANISMS, OAUTHBEARER

log = logging.getLogger("kafka.server.KafkaServer")

MECHANISM = "sasl.mechanism.inter.broker.protocol"


class PeerLogin:
    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """Raises ConfigError."""
        self._config = config
        self._read = config()
        self._login = peer_login(self._read)

    def login(self) -> Login:
        """As the settings are now: a password that was changed is shown at the next log-in."""
        config = self._config()
        if config is not self._read:
            self._read = config
            try:
                self._login = peer_login(config)
            except ConfigError as fault:
                log.error("Log-ins to other brokers go on as they were: %s", fault)
        return self._login


def peer_login(config: BrokerConfig) -> Login:
    """Raises ConfigError."""
    listener = config.inter_broker_listener
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism not in MECHANISMS:
        limit = f"brokers log in to one another by one of {', '.join(MECHANISMS)}"
        raise ConfigError(MECHANISM, mechanism, limit)
    if mechanism not in config.for_listener(listener).sasl_enabled_mechanisms:
        limit = (
            "must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
            "communication"
        )
        raise ConfigError(MECHANISM, mechanism, limit)
    key = listener_key(listener, mechanism, JAAS)
    module = login_module(config, listener, mechanism)
    own_config = config.for_mechanism(listener, mechanism)
    if mechanism == OAUTHBEARER or own_config.sasl_login_callback_handler_class:
        from moldau.net.oauth.token_login import Allowed, is_asked_for, token_login

        if is_asked_for(own_config, mechanism):
            allowed = Allowed(
                config.org_apache_kafka_sasl_oauthbearer_allowed_urls,
                config.org_apache_kafka_sasl_oauthbearer_allowed_files,
            )
            return token_login(own_config, module.options if module else {}, allowed)
    if module is None:
        limit = f"brokers log in to one another by {mechanism}, so it must say as whom"
        raise ConfigError(key, "", limit)
    if mechanism == GSSAPI:
        from moldau.net.sasl.kerberos import kerberos_login

        service, file = own_config.sasl_kerberos_service_name, config.java_security_krb5_conf
        return kerberos_login(key, module.options, service, file)
    try:
        return login_by(mechanism, module.options, SOURCES)
    except ValueError as fault:
        raise ConfigError(key, HIDDEN, f"{fault}: brokers log in to one another by it") from None
