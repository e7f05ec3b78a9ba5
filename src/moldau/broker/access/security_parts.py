"""What a broker has for log-ins and access control, built from its settings and the tree."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from moldau.broker.access.address_quotas import AddressQuotas
from moldau.broker.access.dynamic_passwords import DynamicPasswords
from moldau.broker.access.list_authorizer import ListAuthorizer
from moldau.broker.access.quota_keeper import ClientQuotaKeeper
from moldau.broker.background_jobs import Background
from moldau.broker.machine_environment import Surroundings
from moldau.cluster.tree.access_control_lists import AccessLists
from moldau.cluster.tree.metadata_retries import patiently
from moldau.cluster.tree.stored_client_quotas import ClientQuotas
from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
from moldau.cluster.tree.stored_scram_credentials import UserCredentials
from moldau.config.broker_config import BrokerConfig
from moldau.config.broker_settings.security_settings import AUTHORIZERS
from moldau.config.setting_definition import ConfigError
from moldau.engine.timers import Timers
from moldau.handlers.authorization import OPEN_AUTHORIZER, Authorizer
from moldau.metadata.store import MetadataStore
from moldau.net.acceptor import Listener
from moldau.net.entrance import OPEN_ENTRANCE, Entrance
from moldau.net.host_lookup import HostLookup
from moldau.security.acl.authorizer import Authorizer as AclRules
from moldau.security.naming.principal import parse_super_users
from moldau.security.quotas.quota_filters import Quotas
from moldau.security.sasl.scram_keys import RANDOM_BYTES, random_text
from moldau.security.sasl.scram_server import ScramAccount, ScramLookup
from moldau.security.tokens.delegation_token import TokenRules

if TYPE_CHECKING:
    from moldau.broker.access.own_authorizer import OwnAuthorizer
    from moldau.net.oauth.token_keys import TokenKeys

SECRET_BYTES = 32
QUOTA_SWEEP_MS = 10 * 60 * 1000
DECOY_PURPOSE = b"salts of users that do not exist"
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")


class SecurityParts:
    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        store: MetadataStore,
        around: Surroundings,
        timers: Timers,
        *,
        is_alone: bool,
    ) -> None:
        """Raises ConfigError."""
        self._config = config
        self._around = around
        self._timers = timers
        clock = around.clock
        self._store = store
        self.passwords = DynamicPasswords(config(), around.random_bytes)
        self.user_credentials = UserCredentials(
            store, clock=clock, timers=timers, is_alone=is_alone
        )
        self.quotas = ClientQuotaKeeper(config(), clock)
        lookup = HostLookup()
        self.address_quotas = AddressQuotas(lookup)
        self.client_quotas = ClientQuotas(
            store,
            clock=clock,
            timers=timers,
            changed=self._follow_quotas,
            look_up=lookup.addresses,
            is_alone=is_alone,
        )
        token_secret = (config().delegation_token_secret_key or "").encode()
        self.delegation_tokens = (
            self._delegation_tokens(store, token_secret, is_alone) if token_secret else None
        )
        # From what all brokers know, if there is such a thing: they all make up the same salts.
        self._decoy_secret = (
            hmac.digest(token_secret, DECOY_PURPOSE, "sha256")
            if token_secret
            else around.random_bytes(SECRET_BYTES)
        )
        self._token_keys: TokenKeys | None = None
        self._is_open = False
        self.authorizer: Authorizer = OPEN_AUTHORIZER
        self.access_lists: AccessLists | None = None
        self._own_authorizer: OwnAuthorizer | None = None
        self._choose_authorizer(config(), is_alone)

    def _choose_authorizer(self, config: BrokerConfig, is_alone: bool) -> None:
        if config.authorizer_class_name not in ("", *AUTHORIZERS):
            self.authorizer = self._own_authorizer = _own_authorizer(config)
        elif config.authorizer_class_name:
            authorizer = self.authorizer = _list_authorizer(config)
            self.access_lists = AccessLists(
                self._store,
                clock=self._around.clock,
                timers=self._timers,
                changed=authorizer.follow,
                is_alone=is_alone,
            )

    def _follow_quotas(self, quotas: Quotas) -> None:
        self.quotas.follow(quotas)
        self.address_quotas.follow(quotas)

    def entrance(self, listener: Listener) -> Entrance:
        """What the listener asks of whoever comes in. Raises ConfigError and StoreFault."""
        transports = self._transports(listener)
        if listener.security_protocol not in SASL_PROTOCOLS:
            return transports
        from moldau.broker.access.sasl_entrance import SaslEntrance
        from moldau.broker.access.sasl_settings import LoginSources

        sources = LoginSources(
            self._scram_lookup, self._around.random_bytes, self._decoy_secret, self._all_token_keys
        )
        return SaslEntrance(transports, listener.name, self._config, sources, self._around.clock)

    def _all_token_keys(self) -> TokenKeys:
        if self._token_keys is None:
            from moldau.net.oauth.token_keys import TokenKeys

            self._token_keys = TokenKeys()
            if self._is_open:
                self._token_keys.start_late()
        return self._token_keys

    def _transports(self, listener: Listener) -> Entrance:
        if listener.security_protocol not in TLS_PROTOCOLS:
            return OPEN_ENTRANCE
        from moldau.net.tls.tls_entrance import TlsEntrance

        return TlsEntrance(listener.name, self._config)

    def _delegation_tokens(
        self, store: MetadataStore, secret: bytes, is_alone: bool
    ) -> DelegationTokens:
        random_bytes = self._around.random_bytes

        def rules() -> TokenRules:
            config = self._config()
            return TokenRules(
                config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
            )

        return DelegationTokens(
            store,
            secret,
            rules,
            clock=self._around.clock,
            timers=self._timers,
            random_bytes=random_bytes,
            new_salt=lambda: random_text(random_bytes(RANDOM_BYTES)).encode("ascii"),
            is_alone=is_alone,
        )

    def plan_jobs(self, background: Background) -> None:
        background.every("drop-idle-quotas", QUOTA_SWEEP_MS, self.quotas.drop_idle)
        tokens = self.delegation_tokens
        if tokens is not None:
            interval_ms = self._config().delegation_token_expiry_check_interval_ms
            background.every("delete-expired-tokens", interval_ms, tokens.sweep)

    def _scram_lookup(self, mechanism: str) -> ScramLookup:
        def look_up(name: str, is_token: bool) -> ScramAccount | None:
            if is_token:
                tokens = self.delegation_tokens
                return None if tokens is None else tokens.account(name, mechanism)
            credential = self.user_credentials.find(name, mechanism)
            return None if credential is None else ScramAccount(credential, name)

        return look_up

    async def before_settings(self) -> None:
        """Before anybody reads the settings in the tree. Raises StoreError."""
        await self._patiently(lambda: self.passwords.encode_anew(self._store))

    async def open(self) -> None:
        """Before clients are let in; waits for an ensemble that elects a leader just now. Raises
        StoreError and ConfigError."""
        self._is_open = True
        if self._token_keys is not None:
            await self._token_keys.open()
        await self._patiently(self.user_credentials.load)
        self.user_credentials.start()
        await self._patiently(self.client_quotas.load)
        self.client_quotas.start()
        if self.delegation_tokens is not None:
            await self._patiently(self.delegation_tokens.load)
            self.delegation_tokens.start()
        if self.access_lists is not None:
            await self._patiently(self.access_lists.load)
            self.access_lists.start()

    async def _patiently(self, load: Callable[[], Awaitable[None]]) -> None:
        await patiently(
            load,
            clock=self._around.clock,
            timers=self._timers,
            timeout_ms=self._config().zookeeper_connection_timeout_ms,
        )

    async def close(self) -> None:
        await self.user_credentials.stop()
        await self.client_quotas.stop()
        self.address_quotas.stop()
        if self._token_keys is not None:
            await self._token_keys.close()
        if self.delegation_tokens is not None:
            await self.delegation_tokens.stop()
        if self.access_lists is not None:
            await self.access_lists.stop()
        if self._own_authorizer is not None:
            self._own_authorizer.close()


def _super_users(config: BrokerConfig) -> frozenset[str]:
    try:
        return parse_super_users(config.super_users)
    except ValueError as fault:
        raise ConfigError("super.users", config.super_users, str(fault)) from None


def _own_authorizer(config: BrokerConfig) -> OwnAuthorizer:
    from moldau.broker.access.own_authorizer import OwnAuthorizer, loaded

    super_users = _super_users(config)
    return OwnAuthorizer(loaded(config), config.authorizer_class_name, super_users)


def _list_authorizer(config: BrokerConfig) -> ListAuthorizer:
    return ListAuthorizer(
        AclRules(
            super_users=_super_users(config),
            is_open_without_acls=config.allow_everyone_if_no_acl_found,
        )
    )
