"""Settings of log-ins by token (OAUTHBEARER): the same for clients and for brokers.

How a token is got is for both, for a broker logs in to others; how one is checked is for brokers.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.config.java_options import ALLOWED_FILES, ALLOWED_URLS
from moldau.config.setting_definition import (
    HOUR,
    SECOND,
    ClassName,
    Long,
    Names,
    Password,
    Scope,
    Settings,
    Short,
    setting,
)

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
RETRIEVERS = DEFAULT_RETRIEVER, CLIENT_CREDENTIALS, FILE, JWT_BEARER = (
    _PACKAGE + "DefaultJwtRetriever",
    _PACKAGE + "ClientCredentialsJwtRetriever",
    _PACKAGE + "FileJwtRetriever",
    _PACKAGE + "JwtBearerJwtRetriever",
)
VALIDATORS = DEFAULT_VALIDATOR, BROKER_VALIDATOR, CLIENT_VALIDATOR = (
    _PACKAGE + "DefaultJwtValidator",
    _PACKAGE + "BrokerJwtValidator",
    _PACKAGE + "ClientJwtValidator",
)
LOGIN_HANDLERS = (
    _PACKAGE + "OAuthBearerLoginCallbackHandler",
    _PACKAGE + "secured.OAuthBearerLoginCallbackHandler",
)
VALIDATOR_HANDLERS = (
    _PACKAGE + "OAuthBearerValidatorCallbackHandler",
    _PACKAGE + "secured.OAuthBearerValidatorCallbackHandler",
)
"""Each has an older name."""
NO_CLASSES = "classes of the JVM cannot be loaded"


def _known(*names: str) -> Callable[[str], str | None]:
    def fault(name: str) -> str | None:
        short = ", ".join(each.removeprefix(_PACKAGE) for each in names)
        return None if name in names else f"{NO_CLASSES}; only {short} of {_PACKAGE[:-1]} are known"

    return fault


# Rows stay compact, so that the table can be read as one.
# fmt: off


class TokenLoginSettings(Settings):
    sasl_login_callback_handler_class: ClassName | None = setting(
        "sasl.login.callback.handler.class",
        doc="Where a token of OAUTHBEARER comes from: Kafka's OAuthBearerLoginCallbackHandler asks "
            "a token server; without it tokens are made up, unsigned.")
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        "sasl.oauthbearer.token.endpoint.url",
        doc="Where tokens come from: a token server (https or http), or a file that holds one.")
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        "sasl.oauthbearer.client.credentials.client.id",
        doc="Client id to show to the token server.")
    sasl_oauthbearer_client_credentials_client_secret: Password | None = setting(
        "sasl.oauthbearer.client.credentials.client.secret",
        doc="Client secret to show to the token server.")
    sasl_oauthbearer_header_urlencode: bool = setting(
        "sasl.oauthbearer.header.urlencode", False, hidden=True,
        doc="Whether the client's id and secret are URL-encoded for the token server.")
    sasl_oauthbearer_scope: str | None = setting(
        "sasl.oauthbearer.scope",
        doc="Scope to ask for.")
    sasl_oauthbearer_scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name", "scope",
        doc="Claim of a token that holds its scope.")
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name", "sub",
        doc="Claim of a token that names the user.")
    sasl_oauthbearer_jwt_retriever_class: ClassName = setting(
        "sasl.oauthbearer.jwt.retriever.class", DEFAULT_RETRIEVER, check=_known(*RETRIEVERS),
        doc="How to ask for tokens, by Kafka's names: with the client's secret, from a file, or "
            "with an assertion.")
    sasl_oauthbearer_jwt_validator_class: ClassName = setting(
        "sasl.oauthbearer.jwt.validator.class", DEFAULT_VALIDATOR, check=_known(*VALIDATORS),
        doc="How to check tokens, by Kafka's names.")
    sasl_oauthbearer_assertion_algorithm: str = setting(
        "sasl.oauthbearer.assertion.algorithm", "RS256", one_of=("ES256", "RS256"),
        ignore_case=True,
        doc="Algorithm that signs an assertion.")
    sasl_oauthbearer_assertion_claim_aud: str | None = setting(
        "sasl.oauthbearer.assertion.claim.aud",
        doc="Audience of an assertion.")
    sasl_oauthbearer_assertion_claim_iss: str | None = setting(
        "sasl.oauthbearer.assertion.claim.iss",
        doc="Issuer of an assertion; with it the client shows one in the place of its secret.")
    sasl_oauthbearer_assertion_claim_sub: str | None = setting(
        "sasl.oauthbearer.assertion.claim.sub",
        doc="Subject of an assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = setting(
        "sasl.oauthbearer.assertion.claim.exp.seconds", 300, at_least=0, at_most=86400,
        doc="How long an assertion is good.")
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = setting(
        "sasl.oauthbearer.assertion.claim.nbf.seconds", 60, at_least=0, at_most=3600,
        doc="How far back an assertion begins.")
    sasl_oauthbearer_assertion_claim_jti_include: bool = setting(
        "sasl.oauthbearer.assertion.claim.jti.include", False,
        doc="Whether an assertion carries an id of its own.")
    sasl_oauthbearer_assertion_file: str | None = setting(
        "sasl.oauthbearer.assertion.file",
        doc="File with an assertion that somebody else has signed.")
    sasl_oauthbearer_assertion_template_file: str | None = setting(
        "sasl.oauthbearer.assertion.template.file",
        doc="File with more headers and claims of an assertion, in JSON.")
    sasl_oauthbearer_assertion_private_key_file: str | None = setting(
        "sasl.oauthbearer.assertion.private.key.file",
        doc="File with the key that signs assertions, in PEM form.")
    sasl_oauthbearer_assertion_private_key_passphrase: Password | None = setting(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        doc="Password of that key.")
    sasl_login_refresh_window_factor: float = setting(
        "sasl.login.refresh.window.factor", 0.8, at_least=0.5, at_most=1.0, scope=Scope.PER_BROKER,
        doc="Share of a token's life after which another one is asked for.")
    sasl_login_refresh_window_jitter: float = setting(
        "sasl.login.refresh.window.jitter", 0.05, at_least=0.0, at_most=0.25,
        scope=Scope.PER_BROKER,
        doc="Random share of its life that is added.")
    sasl_login_refresh_min_period_seconds: Short = setting(
        "sasl.login.refresh.min.period.seconds", 60, at_least=0, at_most=900,
        scope=Scope.PER_BROKER,
        doc="Shortest time before another token is asked for.")
    sasl_login_refresh_buffer_seconds: Short = setting(
        "sasl.login.refresh.buffer.seconds", 300, at_least=0, at_most=3600,
        scope=Scope.PER_BROKER,
        doc="Another token is asked for this long before the old one expires.")
    sasl_login_connect_timeout_ms: int | None = setting(
        "sasl.login.connect.timeout.ms",
        doc="Time to connect to the token server; 10 seconds if it is not set.")
    sasl_login_read_timeout_ms: int | None = setting(
        "sasl.login.read.timeout.ms",
        doc="Time to wait for the token server's answer; 10 seconds if it is not set.")
    sasl_login_retry_backoff_ms: Long = setting(
        "sasl.login.retry.backoff.ms", 100,
        doc="First pause between two tries at the token server; it doubles.")
    sasl_login_retry_backoff_max_ms: Long = setting(
        "sasl.login.retry.backoff.max.ms", 10 * SECOND,
        doc="Longest such pause, and how long it is tried altogether.")


class TokenCheckSettings(Settings):
    sasl_oauthbearer_expected_audience: Names = setting(
        "sasl.oauthbearer.expected.audience", (),
        doc="Audiences of which a token must name one. Without any, only tokens without an "
            "audience are accepted.")
    sasl_oauthbearer_expected_issuer: str | None = setting(
        "sasl.oauthbearer.expected.issuer",
        doc="Issuer that a token must name.")
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds", 30,
        doc="Difference of clocks that is tolerated.")
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        doc="Where the keys are that sign tokens: https, http or file.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Long = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", 1 * HOUR,
        doc="How often those keys are fetched.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Long = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100,
        doc="First pause between two tries to fetch them; it doubles.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Long = setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10 * SECOND,
        doc="Longest such pause.")
    org_apache_kafka_sasl_oauthbearer_allowed_urls: Names = setting(
        ALLOWED_URLS, (),
        doc="Addresses of token servers and keys that may be used, as they stand in the other "
            "settings. Moldau's own key: for a JVM it is a flag of this name, and without the "
            "setting KAFKA_OPTS is looked at.")
    org_apache_kafka_sasl_oauthbearer_allowed_files: Names = setting(
        ALLOWED_FILES, (),
        doc="Files that log-ins by token may use, likewise: assertions, their keys and "
            "templates.")
