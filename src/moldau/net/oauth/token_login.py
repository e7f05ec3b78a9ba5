"""A log-in by a token from a token server or a file, made from settings: of a client, and of a
broker that logs in to others. Nothing is asked before the first log-in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from moldau.config.java_options import ALLOWED_FILES, ALLOWED_URLS, listed
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.config.token_settings import (
    BROKER_VALIDATOR,
    DEFAULT_RETRIEVER,
    FILE,
    JWT_BEARER,
    LOGIN_HANDLERS,
    TokenLoginSettings,
)
from moldau.net.oauth.allowed_places import Place, place_of
from moldau.net.oauth.option_tls import PREFIX as TLS_PREFIX
from moldau.net.oauth.option_tls import context_by
from moldau.net.oauth.token_source import TokenPace, TokenSource
from moldau.net.oauth.web_fetch import (
    CONNECT_SECONDS,
    READ_SECONDS,
    FetchFault,
    Patience,
    Question,
    fetch,
)
from moldau.security.oauth.token_requests import (
    HeldToken,
    TokenRequest,
    by_assertion,
    by_client_assertion,
    by_secret,
    held_token,
    token_of_answer,
)
from moldau.security.sasl.oauthbearer import OAuthBearerClient
from moldau.security.sasl.sasl_login import Login
from moldau.security.sasl.sasl_mechanism import OAUTHBEARER

HANDLER = "sasl.login.callback.handler.class"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
JAAS = "sasl.jaas.config"
EXTENSION = "extension_"
OPTIONS = OPTION_ID, OPTION_SECRET, OPTION_SCOPE = "clientId", "clientSecret", "scope"


class Allowed(NamedTuple):
    urls: Collection[str]
    files: Collection[str]

    @classmethod
    def by(cls, environment: Mapping[str, str]) -> Allowed:
        return cls(listed(environment, ALLOWED_URLS), listed(environment, ALLOWED_FILES))


def is_asked_for(config: TokenLoginSettings, mechanism: str) -> bool:
    """Whether tokens come from elsewhere, and are not made up. Raises ConfigError."""
    handler = config.sasl_login_callback_handler_class
    if mechanism != OAUTHBEARER:
        if handler:
            raise ConfigError(HANDLER, handler, f"a log-in by {mechanism} has no such class")
        return False
    if handler and handler not in LOGIN_HANDLERS:
        limit = f"classes of the JVM cannot be loaded; {LOGIN_HANDLERS[0]} is known"
        raise ConfigError(HANDLER, handler, limit)
    return bool(handler or config.sasl_oauthbearer_token_endpoint_url)


def token_login(config: TokenLoginSettings, options: Mapping[str, str], allowed: Allowed) -> Login:
    """By the options of the log-in module. Raises ConfigError."""
    for name in options:
        if name not in OPTIONS and not name.startswith((EXTENSION, TLS_PREFIX)):
            raise ConfigError(JAAS, HIDDEN, f"a log-in by a fetched token has no option {name}")
    extensions = {
        name.removeprefix(EXTENSION): value
        for name, value in options.items()
        if name.startswith(EXTENSION)
    }
    try:
        OAuthBearerClient("", extensions)
    except ValueError as fault:
        raise ConfigError(JAAS, HIDDEN, str(fault)) from None
    source = _source(config, options, allowed)

    def start(host: str) -> OAuthBearerClient:
        return OAuthBearerClient(source.token(), extensions)

    return Login(OAUTHBEARER, start, blocks=True)


def _source(
    config: TokenLoginSettings, options: Mapping[str, str], allowed: Allowed
) -> TokenSource:
    if config.sasl_oauthbearer_jwt_validator_class == BROKER_VALIDATOR:
        limit = "a client does not check signatures: the broker does"
        raise ConfigError("sasl.oauthbearer.jwt.validator.class", BROKER_VALIDATOR, limit)
    url = config.sasl_oauthbearer_token_endpoint_url
    if not url:
        raise ConfigError(ENDPOINT, "", "a log-in by a fetched token needs it")
    place = place_of(ENDPOINT, url, allowed.urls)
    pace = TokenPace(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_min_period_seconds * 1000,
        config.sasl_login_refresh_buffer_seconds * 1000,
        config.sasl_login_retry_backoff_ms,
        config.sasl_login_retry_backoff_max_ms,
    )
    retriever = config.sasl_oauthbearer_jwt_retriever_class
    if place.scheme == "file" and retriever in (DEFAULT_RETRIEVER, FILE):
        # Read anew for every log-in.
        always = TokenPace(0.0, 0.0, 0, 0, 1, 0)
        name_claim = config.sasl_oauthbearer_sub_claim_name
        return TokenSource(lambda: _read(place, name_claim), always)
    if place.scheme == "file" or retriever == FILE:
        raise ConfigError(ENDPOINT, url, f"is not for {retriever}")
    return TokenSource(_Server(place, config, options, allowed).ask, pace)


class _Server:
    def __init__(
        self,
        place: Place,
        config: TokenLoginSettings,
        options: Mapping[str, str],
        allowed: Allowed,
    ) -> None:
        """Raises ConfigError."""
        self._place = place
        self._name_claim = config.sasl_oauthbearer_sub_claim_name
        self._request = _request_by(config, options, allowed)
        connect_ms = config.sasl_login_connect_timeout_ms
        read_ms = config.sasl_login_read_timeout_ms
        self._patience = Patience(
            connect_ms / 1000 if connect_ms else CONNECT_SECONDS,
            read_ms / 1000 if read_ms else READ_SECONDS,
        )
        # Read once: whoever replaces the trusted certificates starts the client anew.
        is_secure = place.scheme == "https"
        self._context = context_by(JAAS, options) if is_secure else None

    def ask(self) -> HeldToken:
        """Raises FetchFault."""
        request = self._request()
        answer = fetch(
            self._place,
            Question(request.headers, request.body),
            context=self._context,
            patience=self._patience,
        )
        try:
            return held_token(token_of_answer(answer), self._name_claim)
        except ValueError as fault:
            raise FetchFault(f"{self._place.shown}: {fault}", is_final=True) from None


def _read(place: Place, name_claim: str) -> HeldToken:
    try:
        return held_token(fetch(place).decode("ascii", "replace"), name_claim)
    except ValueError as fault:
        raise FetchFault(f"{place.shown}: {fault}", is_final=True) from None


def _request_by(
    config: TokenLoginSettings, options: Mapping[str, str], allowed: Allowed
) -> Callable[[], TokenRequest]:
    """What is said to the server, made anew for every question. Raises ConfigError."""
    scope = (config.sasl_oauthbearer_scope or options.get(OPTION_SCOPE, "")).strip()
    client_id = config.sasl_oauthbearer_client_credentials_client_id or options.get(OPTION_ID, "")
    retriever = config.sasl_oauthbearer_jwt_retriever_class
    has_assertion = bool(
        config.sasl_oauthbearer_assertion_file or config.sasl_oauthbearer_assertion_claim_iss
    )
    if has_assertion or retriever == JWT_BEARER:
        from moldau.net.oauth.assertion_source import assertion_source

        assertion = assertion_source(config, allowed)
        if retriever == JWT_BEARER:
            return lambda: by_assertion(assertion(), scope)
        return lambda: by_client_assertion(client_id.strip(), assertion(), scope)
    secret = config.sasl_oauthbearer_client_credentials_client_secret
    secret = secret or options.get(OPTION_SECRET, "")
    for key, option, value in (
        (CLIENT_ID, OPTION_ID, client_id),
        (CLIENT_SECRET, OPTION_SECRET, secret),
    ):
        if not value.strip():
            limit = f"a token server asks for it; it may also be the option {option} of {JAAS}"
            raise ConfigError(key, "", limit)
    is_encoded = config.sasl_oauthbearer_header_urlencode
    request = by_secret(client_id.strip(), secret.strip(), scope, is_encoded=is_encoded)
    return lambda: request
