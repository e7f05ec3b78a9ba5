"""Whom nodes belong to in a protected tree, as Apache Kafka 3.9 has it.

With `zookeeper.set.acl` only who made a node may change it, and everybody may read it, except what
holds secrets: credentials of users, settings of brokers, delegation tokens. Where old consumers
wrote is left open. Pure.
"""

from __future__ import annotations

from enum import Enum

CONTROLLER = "/controller"
CONSUMERS = "/consumers"
SECRET_PLACES = ("/config/users", "/config/brokers", "/delegation_token/tokens")
ROOTS = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    CONTROLLER,
    "/controller_epoch",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/delegation_token",
    "/kafka-acl-extended",
    "/migration",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended/prefixed",
    "/kafka-acl-extended-changes",
)
"""What a migration protects, with all that is below it."""


class Access(Enum):
    OPEN = "open"
    """Everybody may do everything."""
    READABLE = "readable"
    """Who made it may do everything, the others may read."""
    SECRET = "secret"
    """Nobody but who made it."""


def access_of(path: str, *, is_protected: bool) -> Access:
    """`path` as the brokers see it, below their chroot."""
    if not is_protected or path == CONSUMERS:
        return Access.OPEN
    return Access.SECRET if path.startswith(SECRET_PLACES) else Access.READABLE
