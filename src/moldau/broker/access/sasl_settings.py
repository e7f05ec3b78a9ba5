"""What a listener asks at a log-in, read from its settings.

Settings of one listener and mechanism stand behind `listener.name.<listener>.<mechanism>.`, both
in lower case. What cannot be honoured stops the start with one sentence; secrets are never quoted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.access.token_checks import CALLBACK_HANDLER, token_check
from moldau.config.broker_config import LISTENER_PREFIX, BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.net.sasl.login_modules import JAAS, listener_key, login_module
from moldau.security.jaas import LoginModule
from moldau.security.sasl.oauthbearer import OAuthBearerServer
from moldau.security.sasl.plain import PlainServer, check_against
from moldau.security.sasl.sasl_connection import SaslRules
from moldau.security.sasl.sasl_mechanism import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, SaslServer
from moldau.security.sasl.scram_keys import HASHES, RANDOM_BYTES, random_text
from moldau.security.sasl.scram_server import ScramLookup, ScramServer

if TYPE_CHECKING:
    from moldau.net.oauth.token_keys import TokenKeys

REAUTHENTICATION = "connections.max.reauth.ms"


class LoginSources(NamedTuple):
    """What log-ins need besides settings."""

    scram_lookup: Callable[[str], ScramLookup]
    """By mechanism."""
    random_bytes: Callable[[int], bytes]
    secret: bytes
    """Makes up what stands for users that do not exist."""
    token_keys: Callable[[], TokenKeys]
    """Made when the first listener needs them."""


def sasl_rules(config: BrokerConfig, listener: str, sources: LoginSources) -> SaslRules:
    """Raises ConfigError."""
    own_config = config.for_listener(listener)
    if not own_config.sasl_enabled_mechanisms:
        limit = f"listener {listener} asks for a log-in, so it must name a mechanism"
        raise ConfigError("sasl.enabled.mechanisms", "", limit)
    starts: dict[str, Callable[[], SaslServer]] = {}
    limits_ms: dict[str, int] = {}
    for mechanism in own_config.sasl_enabled_mechanisms:
        starts[mechanism] = _start(config, listener, mechanism, sources)
        limits_ms[mechanism] = _reauthentication_ms(config, own_config, listener, mechanism)
    return SaslRules(tuple(starts), lambda asked: starts[asked](), lambda m: limits_ms[m])


def _start(
    config: BrokerConfig, listener: str, mechanism: str, sources: LoginSources
) -> Callable[[], SaslServer]:
    if mechanism not in MECHANISMS:
        limit = f"{mechanism} is not supported; name some of {', '.join(MECHANISMS)}"
        raise ConfigError("sasl.enabled.mechanisms", mechanism, limit)
    if mechanism == OAUTHBEARER:
        module = login_module(config, listener, mechanism)
        options = module.options if module else {}
        validate = token_check(config, listener, options, sources.token_keys)
        return lambda: OAuthBearerServer(validate)
    key, handler = _value(config, listener, mechanism, CALLBACK_HANDLER)
    if handler:
        limit = "classes of the JVM cannot be loaded, and without this one others would get in"
        raise ConfigError(key, handler, limit)
    module = _login_module(config, listener, mechanism)
    if mechanism == GSSAPI:
        from moldau.broker.access.kerberos_checks import kerberos_start

        return kerberos_start(config, listener, module.options if module else None)
    if mechanism == PLAIN:
        check = check_against(module.options if module else {}, sources.secret)
        return lambda: PlainServer(check)
    assert mechanism in HASHES
    lookup = sources.scram_lookup(mechanism)
    return lambda: ScramServer(
        mechanism, lookup, random_text(sources.random_bytes(RANDOM_BYTES)), sources.secret
    )


def _login_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    module = login_module(config, listener, mechanism)
    if module is None and mechanism == PLAIN:
        limit = "users and passwords of PLAIN stand here; without them nobody could log in"
        raise ConfigError(listener_key(listener, mechanism, JAAS), "", limit)
    return module


def _reauthentication_ms(
    config: BrokerConfig, own_config: BrokerConfig, listener: str, mechanism: str
) -> int:
    text = {**config.given, **config.overrides}.get(
        listener_key(listener, mechanism, REAUTHENTICATION)
    )
    if text is None:
        return own_config.connections_max_reauth_ms
    parsed: int = BrokerConfig.rows[REAUTHENTICATION].parse(text)
    return parsed


def _value(
    config: BrokerConfig, listener: str, mechanism: str, name: str
) -> tuple[str, str | None]:
    """The most special of the keys that are set, and its value."""
    texts = {**config.given, **config.overrides}
    for key in (
        listener_key(listener, mechanism, name),
        f"{LISTENER_PREFIX}{listener.lower()}.{name}",
    ):
        if key in texts:
            return key, texts[key]
    return name, texts.get(name)
