"""Where the assertions come from that a client shows to a token server: a file with one, or a key
to sign them with. Files are read anew for every question, in its thread."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from moldau.config.setting_definition import ConfigError
from moldau.config.token_settings import TokenLoginSettings
from moldau.net.oauth.allowed_places import Place, file_of
from moldau.net.oauth.web_fetch import FetchFault, fetch
from moldau.security.oauth.web_tokens import read_web_token
from moldau.security.sasl.oauthbearer import IllegalToken

if TYPE_CHECKING:
    from moldau.net.oauth.token_login import Allowed

FILE = "sasl.oauthbearer.assertion.file"
KEY = "sasl.oauthbearer.assertion.private.key.file"
TEMPLATE = "sasl.oauthbearer.assertion.template.file"


def assertion_source(config: TokenLoginSettings, allowed: Allowed) -> Callable[[], str]:
    """Raises ConfigError; what it gives raises FetchFault."""
    path = config.sasl_oauthbearer_assertion_file
    if path:
        place = file_of(FILE, path, allowed.files)
        return lambda: _from_file(place)
    key_path = config.sasl_oauthbearer_assertion_private_key_file
    if not key_path:
        raise ConfigError(KEY, "", f"an assertion needs it, or {FILE}")
    template_path = config.sasl_oauthbearer_assertion_template_file
    template = file_of(TEMPLATE, template_path, allowed.files) if template_path else None
    return _signed(config, file_of(KEY, key_path, allowed.files), template)


def _from_file(place: Place) -> str:
    try:
        text = fetch(place).decode("ascii", "replace").strip()
        read_web_token(text)
    except IllegalToken as fault:
        raise FetchFault(f"{place.path}: {fault}", is_final=True) from None
    return text


def _signed(
    config: TokenLoginSettings, key_place: Place, template_place: Place | None
) -> Callable[[], str]:
    try:
        from moldau.security.oauth.assertions import (
            AssertionRules,
            make_assertion,
            read_signing_key,
            read_template,
        )
    except ImportError:
        limit = "to sign needs the package cryptography: pip install 'moldau[security]'"
        raise ConfigError(KEY, key_place.path, limit) from None
    named = {
        "aud": config.sasl_oauthbearer_assertion_claim_aud,
        "iss": config.sasl_oauthbearer_assertion_claim_iss,
        "sub": config.sasl_oauthbearer_assertion_claim_sub,
    }
    rules = AssertionRules(
        config.sasl_oauthbearer_assertion_algorithm.upper(),
        {claim: value for claim, value in named.items() if value},
        config.sasl_oauthbearer_assertion_claim_exp_seconds,
        config.sasl_oauthbearer_assertion_claim_nbf_seconds,
    )
    passphrase = config.sasl_oauthbearer_assertion_private_key_passphrase
    has_id = config.sasl_oauthbearer_assertion_claim_jti_include

    def sign() -> str:
        template: Mapping[str, Mapping[str, Any]] = {}
        place = key_place
        try:
            key = read_signing_key(fetch(place), passphrase, rules.algorithm)
            if template_place is not None:
                place = template_place
                template = read_template(fetch(place))
        except ValueError as fault:
            raise FetchFault(f"{place.path}: {fault}", is_final=True) from None
        now_ms = time.time_ns() // 1_000_000
        return make_assertion(key, rules, template, now_ms, str(uuid.uuid4()) if has_id else None)

    return sign
