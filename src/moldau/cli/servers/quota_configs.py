"""`moldau configs` for users, clients and addresses: their quotas and users' SCRAM credentials.

The lines are those of kafka-configs.sh, but a credential that is not well formed is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.command_faults import UsageFault
from moldau.cli.files.java_hash_order import hash_order
from moldau.cli.output import Output
from moldau.model.errors import Error
from moldau.security.quotas.quota_entities import CLIENT_KEYS, IP_KEYS

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin
    from moldau.client.admin.quotas_admin import QuotaFilter

USERS, CLIENTS, IPS = "users", "clients", "ips"
QUOTA_TYPES = (USERS, CLIENTS, IPS)
KINDS = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS = 4096
CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
ONLY = "using --bootstrap-server. Unexpected config names:"

Named = Sequence[tuple[str, str | None]]
"""Types and names: None for all of a type, "" for its default."""
Changes = Mapping[str, str | None]
"""None takes a setting back."""


def check_types(entities: Named) -> None:
    kinds = [kind for kind, _ in entities]
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise UsageFault(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if len(kinds) > 1 and set(kinds) != {USERS, CLIENTS}:
        raise UsageFault(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    for kind, name in entities:
        if kind == IPS and name and not _is_host(name):
            raise UsageFault(
                f"The entity name for {kind} must be a valid IP or resolvable host,"
                f" but it is: {name}"
            )


def _is_host(name: str) -> bool:
    import socket

    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


# Changing


def alter_entities(admin: Admin, entities: Named, changes: Changes) -> None:
    if all(name is None for _, name in entities):
        raise UsageFault(
            "An entity-name or default entity must be specified with --alter of users, clients,"
            " brokers or ips"
        )
    if any(name is None for _, name in entities):
        raise UsageFault("An entity name must be specified for every entity type")
    added = {key: value for key, value in changes.items() if value is not None}
    deleted = [key for key, value in changes.items() if value is None]
    kind = entities[0][0]
    if kind == IPS:
        unknown = [key for key in (*added, *deleted) if key not in IP_KEYS]
        if unknown:
            names = ",".join(unknown)
            sentence = f"Only connection quota configs can be added for '{IPS}'"
            raise UsageFault(f"{sentence} {ONLY} {names}")
    elif kind == CLIENTS or len(entities) == 2:
        _check(added, "added", "Set", CLIENTS, "quota", CLIENT_KEYS)
        _check(deleted, "deleted", "ArrayBuffer", CLIENTS, "quota", CLIENT_KEYS)
    else:
        known = (*CLIENT_KEYS, *MECHANISMS)
        _check(added, "added", "Set", USERS, "quota and SCRAM credential", known)
        _check(deleted, "deleted", "ArrayBuffer", USERS, "quota and SCRAM credential", known)
        if any(key in MECHANISMS for key in changes):
            _alter_credentials(admin, entities[0][1] or "", added, deleted)
            return
    _alter_quotas(admin, entities, added, deleted)


def _check(
    names: Iterable[str], done: str, listed: str, kind: str, what: str, known: Iterable[str]
) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        shown = f"{listed}({', '.join(unknown)})"
        raise UsageFault(f"Only {what} configs can be {done} for '{kind}' {ONLY} {shown}")


def _alter_quotas(
    admin: Admin, entities: Named, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    known: dict[str, float] = {}
    for values in admin.describe_client_quotas(filters_of(entities), strict=True).values():
        known.update(values)
    invalid = [key for key in deleted if key not in known]
    if invalid:
        raise UsageFault(f"Invalid config(s): {','.join(invalid)}")
    changed: dict[str, float | None] = {key: _number(key, text) for key, text in added.items()}
    entity = tuple((KINDS[kind], name or None) for kind, name in entities)
    admin.alter_client_quotas({entity: changed | dict.fromkeys(deleted)}).check()


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageFault(f"Cannot parse quota configuration value for {key}: {text}") from None


def _alter_credentials(
    admin: Admin, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    from moldau.client.admin.security_admin import ScramMechanism

    if not user:
        raise UsageFault(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM"
            " Credentials using --bootstrap-server."
        )
    if any(key in CLIENT_KEYS for key in (*added, *deleted)):
        raise UsageFault(
            "Cannot alter both quota and SCRAM credential configs simultaneously for"
            f" '{USERS}' using --bootstrap-server."
        )
    parsed = {name: _credential(name, text) for name, text in added.items()}
    for name in deleted:
        admin.delete_user_scram_credential(user, ScramMechanism[name.replace("-", "_")])
    for name, (iterations, password) in parsed.items():
        mechanism = ScramMechanism[name.replace("-", "_")]
        admin.upsert_user_scram_credential(
            user, password, mechanism=mechanism, iterations=iterations
        )


def _credential(mechanism: str, text: str) -> tuple[int, str]:
    found = CREDENTIAL.fullmatch(text)
    if found is None:
        raise UsageFault(
            f"Invalid credential property {mechanism.replace('-', '_')}: it is to be"
            " [iterations=N,password=WORD] or [password=WORD]"
        )
    iterations = int(found[1]) if found[1] not in (None, "", "-", "-1") else ITERATIONS
    if iterations < ITERATIONS:
        raise UsageFault(
            f"Iterations {iterations} is less than the minimum {ITERATIONS} required for"
            f" {mechanism}"
        )
    return iterations, found[2]


# Showing


def describe_entities(admin: Admin, entities: Named, out: Output, *, as_json: bool) -> None:
    rows = [
        (dict(entity), values)
        for entity, values in sorted(
            admin.describe_client_quotas(filters_of(entities), strict=True).items(),
            key=lambda row: [(kind, name or "") for kind, name in row[0]],
        )
    ]
    users = _credentials(admin, entities)
    if as_json:
        shown = [
            {
                "entity": [{"type": kind, "name": name} for kind, name in entity.items()],
                "configs": dict(values),
            }
            for entity, values in rows
        ]
        out.json([*shown, *users])
        return
    for entity, values in rows:
        out.line(_quota_line(entity, values))
    for user in users:
        found = ", ".join(f"{name}=iterations={count}" for name, count in user["scram"].items())
        out.line(f"SCRAM credential configs for user-principal '{user['user']}' are {found}")


def _quota_line(entity: Mapping[str, str | None], values: Mapping[str, float]) -> str:
    whom = ", ".join(
        f"the default {WORDS[kind]}" if name is None else f"{WORDS[kind]} '{name}'"
        for kind, name in ((kind, entity[kind]) for kind in WORDS if kind in entity)
    )
    # As Apache Kafka's broker sends them, and then as its tool keeps them.
    keys = hash_order(hash_order(values), buckets=_table_size(len(values)))
    return (
        f"Quota configs for {whom} are {', '.join(f'{k}={java_double(values[k])}' for k in keys)}"
    )


def _credentials(admin: Admin, entities: Named) -> list[dict[str, Any]]:
    from moldau.client.shared.client_errors import KafkaError

    names = [name for _, name in entities if name is not None]
    if "" in names or entities[0][0] == IPS or any(kind == CLIENTS for kind, _ in entities):
        return []
    found = admin.describe_user_scram_credentials(names or None, raise_errors=False)
    rows = []
    for user in sorted(found):
        outcome = found[user]
        if isinstance(outcome, Exception):
            if isinstance(outcome, KafkaError) and outcome.code is Error.RESOURCE_NOT_FOUND:
                continue
            raise outcome
        mechanisms = {row.mechanism.name.replace("_", "-"): row.iterations for row in outcome}
        rows.append({"user": user, "scram": mechanisms})
    return rows


def filters_of(entities: Named) -> list[QuotaFilter]:
    from moldau.client.admin.quotas_admin import QuotaFilter, QuotaMatch

    def one(kind: str, name: str | None) -> QuotaFilter:
        if name is None:
            return QuotaFilter(KINDS[kind], QuotaMatch.ANY)
        if not name:
            return QuotaFilter(KINDS[kind], QuotaMatch.DEFAULT)
        return QuotaFilter(KINDS[kind], QuotaMatch.EXACT, name)

    return [one(kind, name) for kind, name in entities]


def _table_size(count: int) -> int:
    """Of Java's hash map that is made for so many."""
    return 1 << max(0, count - 1).bit_length()


def java_double(value: float) -> str:
    """As Java writes a double: digits from a thousandth to ten million, powers of ten beyond."""
    if value == 0 or value != value or value in (float("inf"), float("-inf")):
        return {0.0: "0.0", float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, "NaN")
    if 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(
        text for places in range(1, 18) if float(text := f"{value:.{places}e}") == value
    )
    digits, _, exponent = shortest.partition("e")
    return f"{digits}E{int(exponent)}"
