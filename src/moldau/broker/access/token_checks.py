"""How a listener checks OAUTHBEARER tokens, read from its settings: signed ones by the keys of an
identity provider, or, as in Kafka when nothing else is asked for, unsigned ones for development."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.config.token_settings import CLIENT_VALIDATOR, VALIDATOR_HANDLERS
from moldau.net.sasl.login_modules import JAAS, listener_key
from moldau.security.sasl.oauthbearer import TokenValidator
from moldau.security.sasl.sasl_mechanism import OAUTHBEARER
from moldau.security.sasl.unsecured_token import unsecured_validator

if TYPE_CHECKING:
    from moldau.net.oauth.token_keys import TokenKeys

log = logging.getLogger("kafka.server.KafkaServer")

CALLBACK_HANDLER = "sasl.server.callback.handler.class"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
VALIDATOR = "sasl.oauthbearer.jwt.validator.class"


def token_check(
    config: BrokerConfig,
    listener: str,
    options: Mapping[str, str],
    token_keys: Callable[[], TokenKeys],
) -> TokenValidator:
    """By the options of the log-in module. Raises ConfigError."""
    own_config = config.for_mechanism(listener, OAUTHBEARER)
    handler = own_config.sasl_server_callback_handler_class
    if not handler:
        return _unsecured(own_config, listener, options)
    if handler not in VALIDATOR_HANDLERS:
        limit = (
            "classes of the JVM cannot be loaded, and without this one others would get in; "
            f"{VALIDATOR_HANDLERS[0]} is known"
        )
        raise ConfigError(CALLBACK_HANDLER, handler, limit)
    return _signed(config, own_config, listener, options, token_keys)


def _unsecured(
    own_config: BrokerConfig, listener: str, options: Mapping[str, str]
) -> TokenValidator:
    url = own_config.sasl_oauthbearer_jwks_endpoint_url
    if url:
        key = listener_key(listener, OAUTHBEARER, CALLBACK_HANDLER)
        limit = (
            f"with {JWKS_URL} it must be {VALIDATOR_HANDLERS[0]}: without it unsigned tokens are "
            "accepted, and everybody could be anybody"
        )
        raise ConfigError(key, "", limit)
    try:
        validate = unsecured_validator(options)
    except ValueError as fault:
        raise ConfigError(listener_key(listener, OAUTHBEARER, JAAS), HIDDEN, str(fault)) from None
    log.warning(
        "Listener %s accepts unsigned tokens (OAUTHBEARER): everybody can be anybody, which is for "
        "development only",
        listener,
    )
    return validate


def _signed(
    config: BrokerConfig,
    own_config: BrokerConfig,
    listener: str,
    options: Mapping[str, str],
    token_keys: Callable[[], TokenKeys],
) -> TokenValidator:
    key = listener_key(listener, OAUTHBEARER, JWKS_URL)
    url = own_config.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        limit = "signatures of tokens cannot be checked without the address of the keys"
        raise ConfigError(key, "", limit)
    if own_config.sasl_oauthbearer_jwt_validator_class == CLIENT_VALIDATOR:
        limit = "it checks no signatures, so that everybody could be anybody"
        raise ConfigError(VALIDATOR, CLIENT_VALIDATOR, limit)
    try:
        from moldau.security.oauth.signed_tokens import PublishedKeys, SignedTokens, TokenRules
    except ImportError:
        limit = "signed tokens need the package cryptography: pip install 'moldau[security]'"
        raise ConfigError(key, url, limit) from None
    from moldau.net.oauth.allowed_places import place_of
    from moldau.net.oauth.key_source import KeyPace
    from moldau.net.oauth.option_tls import tls_options
    from moldau.net.oauth.token_keys import KeyPlace

    source = token_keys().source(
        KeyPlace(
            key,
            place_of(key, url, config.org_apache_kafka_sasl_oauthbearer_allowed_urls),
            KeyPace(
                own_config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
                own_config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
                own_config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
            ),
            tls_options(options),
        )
    )
    rules = TokenRules(
        own_config.sasl_oauthbearer_expected_issuer or None,
        frozenset(own_config.sasl_oauthbearer_expected_audience),
        own_config.sasl_oauthbearer_clock_skew_seconds * 1000,
        own_config.sasl_oauthbearer_sub_claim_name,
        own_config.sasl_oauthbearer_scope_claim_name,
    )
    _warn(listener, rules.issuer, rules.audiences)
    return SignedTokens(rules, PublishedKeys(lambda: source.keys, source.missed)).validate


def _warn(listener: str, issuer: str | None, audiences: frozenset[str]) -> None:
    """As Kafka does."""
    if not audiences:
        log.warning(
            "Listener %s accepts tokens that are for nobody in particular: set "
            "sasl.oauthbearer.expected.audience",
            listener,
        )
    if issuer is None:
        log.warning(
            "Listener %s accepts tokens of any issuer whose keys are known: set "
            "sasl.oauthbearer.expected.issuer",
            listener,
        )
