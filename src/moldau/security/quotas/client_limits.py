"""Which quota of one kind holds for a client, and with whom the client shares it.

Precedence and sharing are Apache Kafka's. Who shares a budget has the same tags: a user and a
client id, either of which may be empty. Where quotas of one form only are set, all clients are
told apart by that form; where several are, by the form of the most specific quota that is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.security.quotas.quota_entities import CLIENT_ID, USER, QuotaEntity


class Tags(NamedTuple):
    user: str
    client_id: str


class ClientLimits:
    """Never changes; another one takes its place."""

    __slots__ = ("_forms", "_limits")

    def __init__(self, limits: Mapping[QuotaEntity, float]) -> None:
        self._limits = limits
        self._forms = {tuple(kind for kind, _ in entity) for entity in limits}

    @property
    def is_empty(self) -> bool:
        """Then nobody's use is recorded either."""
        return not self._limits

    def limit_of(self, tags: Tags) -> float | None:
        user, client_id = tags
        if user and client_id:
            return self._first(
                ((USER, user), (CLIENT_ID, client_id)),
                ((USER, user), (CLIENT_ID, None)),
                ((USER, None), (CLIENT_ID, client_id)),
                ((USER, None), (CLIENT_ID, None)),
            )
        if user:
            return self._first(((USER, user),), ((USER, None),))
        if client_id:
            return self._first(((CLIENT_ID, client_id),), ((CLIENT_ID, None),))
        return None

    def _first(self, *entities: QuotaEntity) -> float | None:
        for entity in entities:
            limit = self._limits.get(entity)
            if limit is not None:
                return None if limit == float("inf") else limit
        return None

    def tags_of(self, user: str, client_id: str) -> Tags:
        if len(self._forms) <= 1:
            (form,) = self._forms or {(CLIENT_ID,)}
            return Tags(user if USER in form else "", client_id if CLIENT_ID in form else "")
        known = self._limits
        own, default, both = (USER, user), (USER, None), (CLIENT_ID, client_id)
        if (own, both) in known or (own, (CLIENT_ID, None)) in known:
            return Tags(user, client_id)
        if (own,) in known:
            return Tags(user, "")
        if (default, both) in known or (default, (CLIENT_ID, None)) in known:
            return Tags(user, client_id)
        if (default,) in known:
            return Tags(user, "")
        return Tags("", client_id)
