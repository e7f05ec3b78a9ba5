"""The entrance of a listener that speaks TLS; a client's certificate says who it is.

The stores are read at the start and again after a change of the settings: whoever comes next is met
by the new certificate, and connections keep the one they began with.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Sequence

from moldau.config.broker_config import LISTENER_PREFIX, BrokerConfig
from moldau.model.cluster import Endpoint
from moldau.net.entrance import LoginStep
from moldau.net.tls.contexts import client_context, server_context
from moldau.net.tls.distinguished_names import BadCertificate, subject_of
from moldau.net.tls.pem_blocks import StoreFault
from moldau.net.tls.tls_transport import TlsTransport
from moldau.net.transport import HandshakeFault, Transport
from moldau.security.naming.certificate_names import (
    CertificateRule,
    certificate_user,
    parse_certificate_rules,
)
from moldau.security.naming.kerberos_names import NoRuleApplies
from moldau.security.naming.principal import ANONYMOUS, USER, Principal

log = logging.getLogger("kafka.server.KafkaServer")

CLIENT_AUTH_KEY = "ssl.client.auth"
TLS, TLS_WITH_LOGIN = "SSL", "SASL_SSL"


class CertificateLogin:
    """Content as soon as the handshake is over: there is nothing to say besides."""

    __slots__ = ("_rules", "_transport")

    stays = False
    frame_bytes_max = 512 * 1024

    def __init__(self, transport: TlsTransport, rules: Sequence[CertificateRule]) -> None:
        self._transport = transport
        self._rules = rules

    def greet(self) -> LoginStep:
        try:
            certificate = self._transport.peer_certificate()
        except HandshakeFault as fault:
            return LoginStep(refusal=str(fault))
        if certificate is None:
            return LoginStep(principal=ANONYMOUS)
        try:
            user = certificate_user(subject_of(certificate), self._rules)
        except (BadCertificate, NoRuleApplies) as fault:
            return LoginStep(refusal=str(fault))
        return LoginStep(principal=Principal(USER, user))

    def take(self, frame: memoryview) -> LoginStep:
        raise AssertionError("greeted before the first frame")


class TlsEntrance:
    def __init__(self, listener: str, config: Callable[[], BrokerConfig]) -> None:
        """Raises StoreFault."""
        self._listener = listener
        self._config = config
        self._read = config()
        self._context, self._rules = self._built(self._read)

    def transport(self, client: socket.socket) -> Transport:
        if self._config() is not self._read:
            self._renew()
        return TlsTransport(client, self._context)

    def authenticator(self, transport: Transport) -> CertificateLogin:
        assert isinstance(transport, TlsTransport)
        return CertificateLogin(transport, self._rules)

    def check(self, config: BrokerConfig) -> None:
        """Reads the stores that these settings name. Raises StoreFault if they will not do."""
        self._built(config)

    def _renew(self) -> None:
        self._read = self._config()
        try:
            self._context, self._rules = self._built(self._read)
        except StoreFault as fault:
            log.error("TLS at %s goes on as it was: %s", self._listener, fault)

    def _built(self, config: BrokerConfig) -> tuple[ssl.SSLContext, Sequence[CertificateRule]]:
        own_config = config.for_listener(self._listener)
        try:
            context = server_context(own_config, _client_auth(config, own_config, self._listener))
            return context, parse_certificate_rules(own_config.ssl_principal_mapping_rules)
        except ValueError as fault:
            text = own_config.ssl_principal_mapping_rules
            raise StoreFault(f"ssl.principal.mapping.rules {text}: {fault}") from None


def _client_auth(config: BrokerConfig, own_config: BrokerConfig, listener: str) -> str:
    """Where clients log in, a certificate is asked for only if the listener's own setting says so:
    it would not say who they are."""
    protocol = _endpoint(config, listener).security_protocol
    own_key = f"{LISTENER_PREFIX}{listener.lower()}.{CLIENT_AUTH_KEY}"
    is_own = own_key in config.given or own_key in config.overrides
    return own_config.ssl_client_auth if protocol == TLS or is_own else "none"


def _endpoint(config: BrokerConfig, listener: str) -> Endpoint:
    return next(each for each in config.bound_endpoints if each.listener == listener)


class PeerTls:
    """How this broker speaks to others: as the listener says that brokers use among themselves."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """Raises StoreFault."""
        self._config = config
        self._read = config()
        self._context = self._built(self._read)

    def context(self) -> ssl.SSLContext | None:
        """None for plain text."""
        config = self._config()
        if config is not self._read:
            self._read = config
            try:
                self._context = self._built(config)
            except StoreFault as fault:
                log.error("TLS among brokers goes on as it was: %s", fault)
        return self._context

    @staticmethod
    def _built(config: BrokerConfig) -> ssl.SSLContext | None:
        listener = config.inter_broker_listener
        if _endpoint(config, listener).security_protocol not in (TLS, TLS_WITH_LOGIN):
            return None
        return client_context(config.for_listener(listener))
