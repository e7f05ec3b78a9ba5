"""Which topics the consumers of a group read, as far as their own words can be understood.

The coordinator does not need to know what members tell each other, and for other protocol types it
does not. For consumers it looks, so that offsets in use are neither deleted nor expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from moldau.wire.primitives import DecodeError

if TYPE_CHECKING:
    from moldau.groups.classic.classic_group import ClassicGroup

CONSUMER_PROTOCOL_TYPE = "consumer"
VERSION_BYTES = 2
OLDEST_VERSION = 0
"""Every later version only adds fields at the end."""


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """None if it cannot be known."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        metadata = member.metadata(group.protocol)
        if metadata is None:
            return None
        try:
            subscription = ConsumerProtocolSubscription.decode(
                metadata, OLDEST_VERSION, VERSION_BYTES
            )
        except DecodeError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)


def is_subscribed(group: ClassicGroup, topic: str) -> bool:
    """In doubt, yes: for consumers whose words are not understood."""
    topics = subscribed_topics(group)
    return group.protocol_type == CONSUMER_PROTOCOL_TYPE if topics is None else topic in topics
