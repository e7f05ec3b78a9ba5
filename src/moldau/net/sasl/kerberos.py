"""Kerberos through the package `gssapi`, which speaks to the system's own library (MIT).

To accept needs a key table and no network; to log in asks the KDC, so it happens beside the loop.
Where the KDC is says the file of `java.security.krb5.conf`, or else the library's own configuration
(/etc/krb5.conf, or KRB5_CONFIG).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.config.java_options import KERBEROS_FILE
from moldau.config.setting_definition import HIDDEN, ConfigError
from moldau.security.jaas import KERBEROS_MODULE
from moldau.security.sasl.gssapi import GssapiClient
from moldau.security.sasl.sasl_failures import SaslFailure, SaslInterrupted
from moldau.security.sasl.sasl_login import Login
from moldau.security.sasl.sasl_mechanism import GSSAPI

KEY_TABLE = "/etc/krb5.keytab"
SERVICE_NAME = "sasl.kerberos.service.name"
_MEMORY = itertools.count()
_ERROR_BASE = -1765328384
_NOT_YET, _REPEATED = 33, 34
"""A clock that is ahead, a token that was seen: another try may do."""
_NO_REALM, _NO_KDC = 152, 156
"""Nobody answers for the realm: likewise."""
OPTIONS_MEANT = (
    "keyTab",
    "principal",
    "serviceName",
    "ticketCache",
    "useKeyTab",
    "useTicketCache",
)
OPTIONS_OF_THE_JVM = (
    "clearPass",
    "debug",
    "doNotPrompt",
    "isInitiator",
    "refreshKrb5Config",
    "renewTGT",
    "storeKey",
)
"""Say how a JVM keeps tickets; they change nothing in who logs in, and the library decides here."""


class KerberosOptions(NamedTuple):
    """Of the log-in module, and the settings beside it."""

    service: str
    principal: str | None
    key_table: str | None
    ticket_cache: str | None
    """Empty for the usual one."""
    file: str | None = None
    """Says where the KDC is; None if the library knows."""


def kerberos_options(
    key: str,
    options: Mapping[str, str],
    service_setting: str | None,
    file: str | None,
    *,
    service_key: str = SERVICE_NAME,
) -> KerberosOptions:
    """`key` is where the module stands; `file` says where the KDC is. Raises ConfigError."""
    for name in options:
        if name not in OPTIONS_MEANT and name not in OPTIONS_OF_THE_JVM:
            raise ConfigError(key, HIDDEN, f"{KERBEROS_MODULE} has no option {name} here")
    in_module = options.get("serviceName")
    if in_module and service_setting and in_module != service_setting:
        limit = f"conflicting serviceName values found in JAAS ({in_module}) and this setting"
        raise ConfigError(service_key, service_setting, limit)
    service = in_module or service_setting
    if not service:
        limit = "no serviceName defined in either JAAS or Kafka config"
        raise ConfigError(service_key, "", limit)
    key_table = ticket_cache = None
    if _is_true(options, "useKeyTab"):
        key_table = options.get("keyTab", KEY_TABLE).removeprefix("file:").removeprefix("FILE:")
    if _is_true(options, "useTicketCache"):
        ticket_cache = options.get("ticketCache", "")
    principal = options.get("principal") or None
    return KerberosOptions(service, principal, key_table, ticket_cache, file)


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def library(key: str, file: str | None = None) -> Any:
    """The package, which looks for KDCs as the file says: it has one such file for the whole
    process. Raises ConfigError."""
    if file:
        if not os.access(file, os.R_OK):
            raise ConfigError(KERBEROS_FILE, file, "the file cannot be read")
        os.environ["KRB5_CONFIG"] = file
    try:
        import gssapi
    except (ImportError, OSError):
        # OSError: the package is there and the system's library is not.
        limit = "Kerberos needs the package gssapi: pip install 'moldau[gssapi]'"
        raise ConfigError(key, HIDDEN, limit) from None
    return gssapi


class Acceptor:
    """A broker that clients log in to."""

    def __init__(self, key: str, options: KerberosOptions) -> None:
        """Raises ConfigError."""
        self._gssapi = gssapi = library(key, options.file)
        if options.key_table is None or options.principal is None:
            limit = "a broker needs a key table and a principal: useKeyTab, keyTab, principal"
            raise ConfigError(key, HIDDEN, limit)
        if not os.access(options.key_table, os.R_OK):
            raise ConfigError(key, HIDDEN, f"the key table {options.key_table} cannot be read")
        try:
            name = gssapi.Name(options.principal, gssapi.NameType.kerberos_principal)
            self._credentials = gssapi.Credentials(
                name=name,
                usage="accept",
                mechs=[gssapi.MechType.kerberos],
                store={"keytab": f"FILE:{options.key_table}"},
            )
        except gssapi.exceptions.GSSError as fault:
            limit = f"{options.principal} cannot accept log-ins by {options.key_table}: {fault}"
            raise ConfigError(key, HIDDEN, limit) from None

    def default_realm(self) -> str:
        """Empty if there is none."""
        gssapi = self._gssapi
        try:
            name = gssapi.Name("anybody", gssapi.NameType.kerberos_principal)
            told = str(name.canonicalize(gssapi.MechType.kerberos))
        except gssapi.exceptions.GSSError:
            return ""
        return told.partition("@")[2]

    def context(self) -> Context:
        gssapi = self._gssapi
        made = gssapi.SecurityContext(creds=self._credentials, usage="accept")
        return Context(gssapi, made)


class Initiator:
    """A client, or a broker that logs in to others."""

    def __init__(self, key: str, options: KerberosOptions) -> None:
        """Raises ConfigError."""
        self._gssapi = library(key, options.file)
        self._options = options
        if options.key_table is None and options.ticket_cache is None:
            limit = "a log-in needs a key table or tickets: useKeyTab or useTicketCache=true"
            raise ConfigError(key, HIDDEN, limit)
        if options.key_table is not None and options.principal is None:
            raise ConfigError(key, HIDDEN, "with a key table it must say the principal")
        self._cache = f"MEMORY:moldau-{os.getpid()}-{next(_MEMORY)}"

    def context(self, host: str) -> Context:
        """Blocks. Raises SaslFailure."""
        gssapi = self._gssapi
        try:
            target = gssapi.Name(
                f"{self._options.service}@{host}", gssapi.NameType.hostbased_service
            )
            made = gssapi.SecurityContext(
                name=target,
                creds=self._credentials(),
                mech=gssapi.MechType.kerberos,
                flags=(
                    gssapi.RequirementFlag.mutual_authentication,
                    gssapi.RequirementFlag.integrity,
                    gssapi.RequirementFlag.out_of_sequence_detection,
                ),
                usage="initiate",
            )
        except gssapi.exceptions.GSSError as fault:
            kind = SaslInterrupted if _number(fault) in (_NO_REALM, _NO_KDC) else SaslFailure
            raise kind(f"no Kerberos ticket: {fault}") from None
        return Context(gssapi, made)

    def _credentials(self) -> Any:
        """Asked for anew in each log-in: the library gets other tickets when the old ones end."""
        gssapi, options = self._gssapi, self._options
        store = {}
        if options.key_table is not None:
            store = {"client_keytab": f"FILE:{options.key_table}", "ccache": self._cache}
        elif options.ticket_cache:
            store = {"ccache": options.ticket_cache}
        name = None
        if options.principal is not None:
            name = gssapi.Name(options.principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(
            name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
        )


def kerberos_login(
    key: str, options: Mapping[str, str], service_setting: str | None, file: str | None
) -> Login:
    """By the options of the log-in module at `key`. Raises ConfigError."""
    initiator = Initiator(key, kerberos_options(key, options, service_setting, file))
    return Login(GSSAPI, lambda host: GssapiClient(initiator.context(host)), blocks=True)


class Context:
    """A KerberosContext on the library's."""

    def __init__(self, gssapi: Any, made: Any) -> None:
        self._fault_type = gssapi.exceptions.GSSError
        self._context = made

    @property
    def is_complete(self) -> bool:
        complete: bool = self._context.complete
        return complete

    def step(self, token: bytes | None) -> bytes | None:
        try:
            answer: bytes | None = self._context.step(token)
        except self._fault_type as fault:
            raise _failure(fault) from None
        return answer

    def peer(self) -> str:
        try:
            return str(self._context.initiator_name)
        except self._fault_type as fault:
            raise _failure(fault) from None

    def wrap(self, content: bytes) -> bytes:
        try:
            wrapped: bytes = self._context.wrap(content, False).message
        except self._fault_type as fault:
            raise _failure(fault) from None
        return wrapped

    def unwrap(self, token: bytes) -> bytes:
        try:
            content: bytes = self._context.unwrap(token).message
        except self._fault_type as fault:
            raise _failure(fault) from None
        return content


def _failure(fault: Any) -> SaslFailure:
    if _number(fault) in (_NOT_YET, _REPEATED):
        return SaslInterrupted(f"Kerberos: {fault}")
    return SaslFailure(f"Kerberos: {fault}")


def _number(fault: Any) -> int:
    """Of the error, as Kerberos numbers it: the library counts in 32 bits without a sign."""
    return (int(fault.min_code) - _ERROR_BASE) & 0xFFFFFFFF
