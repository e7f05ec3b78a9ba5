"""Quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.client.admin.admin_requests import AdminRequests, value_or_error
from moldau.client.admin.admin_results import Outcomes
from moldau.wire.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)

Entity = tuple[tuple[str, str | None], ...]
"""`(("user", "alice"), ("client-id", None))`; None is the default of its type."""


class QuotaMatch(IntEnum):
    """Which entities a filter means."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """Entities whose part of `entity_type` ("user", "client-id", "ip") is `name`, the default,
    or anything."""

    entity_type: str
    match: QuotaMatch = QuotaMatch.ANY
    name: str | None = None


class QuotasAdmin(AdminRequests):
    async def describe_client_quotas(
        self,
        filters: Iterable[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[Entity, dict[str, float]]:
        """Quotas by whom they limit. `strict` leaves out entities with further parts.

        admin.describe_client_quotas([QuotaFilter("user", QuotaMatch.EXACT, "alice")])
        """
        request = DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=each.entity_type, match_type=each.match, match=each.name)
                for each in filters
            ],
            strict=strict,
        )
        response = await self._from_any(request, timeout_ms)
        return {
            _entity(row): {value.key: value.value for value in row.values}
            for row in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        changes: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[Entity, None]:
        """Set quotas; None removes one.

        admin.alter_client_quotas({(("user", "alice"),): {"producer_byte_rate": 1e6}}).check()
        """
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntry(
                    entity=[
                        EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                    ],
                    ops=[
                        OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in values.items()
                    ],
                )
                for entity, values in changes.items()
            ],
            validate_only=validate_only,
        )
        response = await self._from_controller(
            request, timeout_ms, lambda r: (row.error_code for row in r.entries)
        )
        return {_entity(row): value_or_error(row, None) for row in response.entries}


def _entity(row: Any) -> Entity:
    return tuple((part.entity_type, part.entity_name) for part in row.entity)
