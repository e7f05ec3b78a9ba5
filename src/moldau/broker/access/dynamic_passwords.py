"""Passwords that are set while the broker runs: encrypted for ZooKeeper, and read again.

Each broker encrypts its own with its own secret, so only itself can take such a change. A broker
that stands alone keeps them as they are in its metadata file, which nobody else may read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import DEFAULT_BROKER
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.metadata import paths
from moldau.metadata.store import BadVersion, Create, MetadataStore, NoNode, Write
from moldau.metadata.unreadable_nodes import readable
from moldau.model.errors import ApiError, Error

if TYPE_CHECKING:
    from moldau.security.password_encoding import PasswordEncoder

log = logging.getLogger("kafka.server.DynamicBrokerConfig")

SECRET, OLD_SECRET = "password.encoder.secret", "password.encoder.old.secret"
NO_SECRET = "Password encoder secret not configured"
ATTEMPTS = 10

Overrides = Mapping[str, str]


def is_password(key: str) -> bool:
    row = BrokerConfig.row_of(key)
    return row is not None and row.is_sensitive


class DynamicPasswords:
    def __init__(self, config: BrokerConfig, random_bytes: Callable[[int], bytes]) -> None:
        """Raises ConfigError."""
        self._node_id = config.node_id
        self._is_alone = config.zookeeper_connect is None

        def encoder(key: str, secret: str | None) -> PasswordEncoder | None:
            if not secret or self._is_alone:
                return None
            from moldau.security.password_encoding import (
                Encryption,
                PasswordEncoder,
                PasswordFault,
            )

            encryption = Encryption(
                config.password_encoder_keyfactory_algorithm or Encryption().key_factory,
                config.password_encoder_cipher_algorithm,
                config.password_encoder_key_length,
                config.password_encoder_iterations,
            )
            try:
                return PasswordEncoder(secret, random_bytes, encryption)
            except PasswordFault as fault:
                raise ConfigError(key, HIDDEN, str(fault)) from None

        self._encoder = encoder(SECRET, config.password_encoder_secret)
        self._old_encoder = encoder(OLD_SECRET, config.password_encoder_old_secret)
        self._known: dict[str, str] = {}
        """Of the settings that hold now, by what stands in the tree: decoding takes its time."""

    def encoded(self, broker: str, overrides: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Raises ApiError."""
        secret = [key for key, value in overrides.items() if value is not None and is_password(key)]
        if not secret or self._is_alone or broker == DEFAULT_BROKER:
            return overrides
        if broker != str(self._node_id):
            text = f"Unexpected broker id, expected {self._node_id} or empty string, but received "
            raise ApiError(Error.INVALID_REQUEST, text + broker)
        if self._encoder is None:
            raise ApiError(Error.INVALID_REQUEST, NO_SECRET)
        changed = dict(overrides)
        for key in secret:
            changed[key] = self._encoder.encode(overrides[key] or "")
        return changed

    def decoded(self, overrides: Overrides) -> dict[str, str]:
        """Without those that cannot be read: what the file says of them holds."""
        if self._is_alone:
            return dict(overrides)
        found: dict[str, str] = {}
        known: dict[str, str] = {}
        for key, text in overrides.items():
            if not is_password(key):
                found[key] = text
                continue
            password = self._known.get(text)
            if password is None:
                password = self._decode(key, text)
            if password is not None:
                found[key] = known[text] = password
        self._known = known
        return found

    def _decode(self, key: str, text: str) -> str | None:
        from moldau.security.password_encoding import PasswordFault

        try:
            if self._encoder is None:
                raise PasswordFault(NO_SECRET)
            return self._encoder.decode(text)
        except PasswordFault as fault:
            log.error("Dynamic password config %s could not be decoded, ignoring: %s", key, fault)
            return None

    async def encode_anew(self, store: MetadataStore) -> None:
        """At the start, if there is an old secret: what it encrypted is encrypted by the new one.
        Raises StoreError."""
        if self._old_encoder is None or self._encoder is None:
            return
        path = paths.config_path(f"brokers/{self._node_id}")
        for _ in range(ATTEMPTS):
            node = await store.exists(path)
            if node is None:
                return
            before = readable(path, node.data, paths.decode_config)
            if before is None:
                return
            after = {key: self._anew(key, text) for key, text in before.items()}
            if after == before:
                return
            note = paths.encode_config_change(f"brokers/{self._node_id}")
            try:
                await store.multi(
                    [
                        Write(path, paths.encode_config(after), node.version),
                        Create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True),
                    ]
                )
            except (BadVersion, NoNode):
                continue
            log.info("Passwords of this broker are encrypted by %s now", SECRET)
            return

    def _anew(self, key: str, text: str) -> str:
        from moldau.security.password_encoding import PasswordFault

        assert self._encoder is not None and self._old_encoder is not None
        if not is_password(key):
            return text
        try:
            return self._encoder.encode(self._old_encoder.decode(text))
        except PasswordFault:
            # By the new secret already, if the old one was left in the settings.
            return text
