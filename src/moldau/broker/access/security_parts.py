"""What a broker has for log-ins and access control, built from its settings and the tree.

What nobody has configured is not imported. A broker that stands alone looks whether its tree holds
users or quotas, and loads what keeps them only then, or when a client makes the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from moldau.broker.access.dynamic_passwords import DynamicPasswords
from moldau.broker.background_jobs import Background
from moldau.broker.machine_environment import Surroundings
from moldau.cluster.tree.metadata_retries import patiently
from moldau.config.broker_config import BrokerConfig
from moldau.config.broker_settings.security_settings import AUTHORIZERS
from moldau.config.setting_definition import ConfigError
from moldau.engine.timers import Timers
from moldau.handlers.authorization import OPEN_AUTHORIZER, Authorizer
from moldau.metadata.store import MetadataStore
from moldau.model.errors import ApiError, Error
from moldau.net.acceptor import BindFault, Listener
from moldau.net.entrance import OPEN_ENTRANCE, Entrance
from moldau.security.naming.principal import parse_super_users

if TYPE_CHECKING:
    from moldau.broker.access.address_quotas import AddressQuotas
    from moldau.broker.access.list_authorizer import ListAuthorizer
    from moldau.broker.access.own_authorizer import OwnAuthorizer
    from moldau.broker.access.quota_keeper import ClientQuotaKeeper
    from moldau.broker.dispatch import Dispatch
    from moldau.cluster.tree.access_control_lists import AccessLists
    from moldau.cluster.tree.stored_client_quotas import ClientQuotas
    from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
    from moldau.cluster.tree.stored_scram_credentials import UserCredentials
    from moldau.handlers.services import Services
    from moldau.net.oauth.token_keys import TokenKeys
    from moldau.net.server import Server
    from moldau.net.tls.tls_entrance import TlsEntrance
    from moldau.security.quotas.quota_filters import Quotas
    from moldau.security.sasl.scram_server import ScramAccount, ScramLookup
    from moldau.security.tokens.delegation_token import TokenRules

SECRET_BYTES = 32
QUOTA_SWEEP_MS = 10 * 60 * 1000
DECOY_PURPOSE = b"salts of users that do not exist"
KEPT_BY_CLIENTS = ("/config/users", "/config/clients", "/config/ips")
"""Where clients' changes keep credentials and quotas."""
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
        self._store = store
        self._is_alone = is_alone
        self.passwords = DynamicPasswords(config(), around.random_bytes)
        self._user_credentials: UserCredentials | None = None
        self._client_quotas: ClientQuotas | None = None
        self._quotas: ClientQuotaKeeper | None = None
        self._address_quotas: AddressQuotas | None = None
        self._kept_by: tuple[Server, Dispatch, Services] | None = None
        """Those who ask the keeper of quotas."""
        token_secret = (config().delegation_token_secret_key or "").encode()
        self.delegation_tokens = (
            self._delegation_tokens(store, token_secret, is_alone) if token_secret else None
        )
        self._decoy_secret = _decoy_secret(token_secret, around)
        self._token_keys: TokenKeys | None = None
        self._tls: list[TlsEntrance] = []
        self._is_open = False
        self.authorizer: Authorizer = OPEN_AUTHORIZER
        self.access_lists: AccessLists | None = None
        self.follow_log_levels: Callable[[], None] = lambda: None
        """Called when one has changed."""
        self._own_authorizer: OwnAuthorizer | None = None
        self._choose_authorizer(config(), is_alone)

    def _choose_authorizer(self, config: BrokerConfig, is_alone: bool) -> None:
        if config.authorizer_class_name not in ("", *AUTHORIZERS):
            self.authorizer = self._own_authorizer = _own_authorizer(config)
        elif config.authorizer_class_name:
            from moldau.cluster.tree.access_control_lists import AccessLists

            authorizer = self.authorizer = _list_authorizer(config)
            self.follow_log_levels = authorizer.follow_log_levels
            self.access_lists = AccessLists(
                self._store,
                clock=self._around.clock,
                timers=self._timers,
                changed=authorizer.follow,
                is_alone=is_alone,
            )

    # Users and quotas

    def user_credentials(self) -> UserCredentials:
        if self._user_credentials is None:
            from moldau.cluster.tree.stored_scram_credentials import UserCredentials

            self._user_credentials = UserCredentials(
                self._store, clock=self._around.clock, timers=self._timers, is_alone=self._is_alone
            )
        return self._user_credentials

    def client_quotas(self) -> ClientQuotas:
        if self._client_quotas is None:
            from moldau.cluster.tree.stored_client_quotas import ClientQuotas
            from moldau.net.host_lookup import HostLookup

            self._client_quotas = ClientQuotas(
                self._store,
                clock=self._around.clock,
                timers=self._timers,
                changed=self._follow_quotas,
                look_up=HostLookup().addresses,
                is_alone=self._is_alone,
            )
        return self._client_quotas

    def keep_quotas(self, server: Server, dispatch: Dispatch, services: Services) -> None:
        """From now on clients of this server are held to quotas, as soon as there are any."""
        self._kept_by = server, dispatch, services

    # Stores of listeners

    async def check_stores(self, stored: Mapping[str, str]) -> None:
        """Whether listeners can go on with the stores that dynamic settings name. Raises ApiError
        (INVALID_REQUEST)."""
        from moldau.net.tls.pem_blocks import StoreFault

        try:
            config = self._config().with_overrides(self.passwords.decoded(stored))
            for entrance in self._tls:
                await asyncio.get_running_loop().run_in_executor(None, entrance.check, config)
        except (ConfigError, StoreFault) as fault:
            raise ApiError(
                Error.INVALID_REQUEST, f"Invalid dynamic configuration: {fault}"
            ) from None

    def _follow_quotas(self, quotas: Quotas) -> None:
        keeper = self._quotas
        if self._kept_by is None or (keeper is None and not quotas):
            return
        server, dispatch, services = self._kept_by
        if keeper is None:
            from moldau.broker.access.quota_keeper import ClientQuotaKeeper

            keeper = self._quotas = ClientQuotaKeeper(self._config(), self._around.clock)
        keeper.follow(quotas)
        dispatch.quotas = services.quotas = keeper
        server.forget_callers()
        server.take_loop_time(keeper.counts_time)
        self._quotas_of_addresses(server).follow(quotas)

    def _quotas_of_addresses(self, server: Server) -> AddressQuotas:
        if self._address_quotas is None:
            from moldau.broker.access.address_quotas import AddressQuotas
            from moldau.net.host_lookup import HostLookup

            self._address_quotas = AddressQuotas(HostLookup())
            self._address_quotas.keep(server.connection_rates)
        return self._address_quotas

    # Listeners

    def entrance(self, listener: Listener) -> Entrance:
        """What the listener asks of whoever comes in. Raises ConfigError and BindFault."""
        if listener.security_protocol not in (*TLS_PROTOCOLS, *SASL_PROTOCOLS):
            return OPEN_ENTRANCE
        from moldau.net.tls.pem_blocks import StoreFault

        try:
            return self._secured_entrance(listener)
        except StoreFault as fault:
            raise BindFault(str(fault)) from fault

    def _secured_entrance(self, listener: Listener) -> Entrance:
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

        entrance = TlsEntrance(listener.name, self._config)
        self._tls.append(entrance)
        return entrance

    def _delegation_tokens(
        self, store: MetadataStore, secret: bytes, is_alone: bool
    ) -> DelegationTokens:
        from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
        from moldau.security.sasl.scram_keys import RANDOM_BYTES, random_text
        from moldau.security.tokens.delegation_token import TokenRules

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
        background.every("drop-idle-quotas", QUOTA_SWEEP_MS, self._drop_idle)
        tokens = self.delegation_tokens
        if tokens is not None:
            interval_ms = self._config().delegation_token_expiry_check_interval_ms
            background.every("delete-expired-tokens", interval_ms, tokens.sweep)

    def _drop_idle(self) -> None:
        if self._quotas is not None:
            self._quotas.drop_idle()

    def _scram_lookup(self, mechanism: str) -> ScramLookup:
        from moldau.security.sasl.scram_server import ScramAccount

        def look_up(name: str, is_token: bool) -> ScramAccount | None:
            if is_token:
                tokens = self.delegation_tokens
                return None if tokens is None else tokens.account(name, mechanism)
            credential = self.user_credentials().find(name, mechanism)
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
        if not self._is_alone or await self._keeps_something():
            users, quotas = self.user_credentials(), self.client_quotas()
            await self._patiently(users.load)
            users.start()
            await self._patiently(quotas.load)
            quotas.start()
        if self.delegation_tokens is not None:
            await self._patiently(self.delegation_tokens.load)
            self.delegation_tokens.start()
        if self.access_lists is not None:
            await self._patiently(self.access_lists.load)
            self.access_lists.start()

    async def _keeps_something(self) -> bool:
        """Whether there are users or quotas in the tree of a broker that stands alone."""
        for folder in KEPT_BY_CLIENTS:
            if await self._store.exists(folder) and await self._store.children(folder):
                return True
        return False

    async def _patiently(self, load: Callable[[], Awaitable[None]]) -> None:
        await patiently(
            load,
            clock=self._around.clock,
            timers=self._timers,
            timeout_ms=self._config().zookeeper_connection_timeout_ms,
        )

    async def close(self) -> None:
        if self._user_credentials is not None:
            await self._user_credentials.stop()
        if self._client_quotas is not None:
            await self._client_quotas.stop()
        if self._address_quotas is not None:
            self._address_quotas.stop()
        if self._token_keys is not None:
            await self._token_keys.close()
        if self.delegation_tokens is not None:
            await self.delegation_tokens.stop()
        if self.access_lists is not None:
            await self.access_lists.stop()
        if self._own_authorizer is not None:
            self._own_authorizer.close()


def _decoy_secret(token_secret: bytes, around: Surroundings) -> bytes:
    """From what all brokers know, if there is such a thing: they all make up the same salts."""
    if not token_secret:
        return around.random_bytes(SECRET_BYTES)
    import hmac

    return hmac.digest(token_secret, DECOY_PURPOSE, "sha256")


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
    from moldau.broker.access.list_authorizer import ListAuthorizer
    from moldau.security.acl.authorizer import Authorizer as AclRules

    return ListAuthorizer(
        AclRules(
            super_users=_super_users(config),
            is_open_without_acls=config.allow_everyone_if_no_acl_found,
        )
    )
