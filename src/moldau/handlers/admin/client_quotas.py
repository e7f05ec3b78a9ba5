"""DescribeClientQuotas, AlterClientQuotas: what users and clients may have (KIP-546)."""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError
from moldau.security.quotas.quota_changes import AskedChange, AskedEntity, hosts_of, judged
from moldau.security.quotas.quota_filters import Component, described
from moldau.wire.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntry,
    EntityData,
    ValueData,
)


async def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: RequestContext, on: Services
) -> DescribeClientQuotasResponse:
    asked = [Component(row.entity_type, row.match_type, row.match) for row in request.components]
    try:
        found = described(on.client_quotas().quotas, asked, is_strict=request.strict)
    except ApiError as refusal:
        return DescribeClientQuotasResponse(
            error_code=refusal.error, error_message=refusal.message, entries=None
        )
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            DescribeClientQuotasResponseEntry(
                entity=_rows_of(entity),
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found
        ],
    )


async def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: RequestContext, on: Services
) -> AlterClientQuotasResponse:
    asked = [
        AskedChange(
            tuple({row.entity_type: row.entity_name for row in entry.entity}.items()),
            [(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    rows = judged(asked, await on.client_quotas().unknown_hosts(hosts_of(asked)))
    outcomes: dict[AskedEntity, ApiError | None] = {
        tuple(sorted(entity)): refusal for entity, refusal in rows.refused.items()
    }
    if not request.validate_only:
        made = await on.client_quotas().alter(rows.good)
        for change, outcome in zip(rows.good, made, strict=True):
            outcomes.setdefault(tuple(sorted(change.entity)), outcome)
    named = dict.fromkeys(change.entity for change in asked)
    seen: set[AskedEntity] = set()
    response = AlterClientQuotasResponse(entries=[])
    for entity in named:
        key = tuple(sorted(entity))
        if key not in seen:
            seen.add(key)
            response.entries.append(_altered(entity, outcomes.get(key)))
    return response


def _altered(entity: AskedEntity, refusal: ApiError | None) -> AlterClientQuotasResponseEntry:
    row = AlterClientQuotasResponseEntry(entity=_rows_of(entity))
    if refusal is not None:
        row.error_code = refusal.error
        row.error_message = refusal.message
    return row


def _rows_of(entity: AskedEntity) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
