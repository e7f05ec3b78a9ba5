"""UpdateFeatures: the levels of the cluster's features, changed together or not at all."""

from __future__ import annotations

from moldau.controller.rules.feature_rules import FeatureUpdate, UpgradeType
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError
from moldau.wire.messages.brokers import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPE_SINCE = 1


async def update_features(
    request: UpdateFeaturesRequest, ctx: RequestContext, on: Services
) -> UpdateFeaturesResponse:
    updates = [_update(row, ctx.api_version) for row in request.feature_updates]
    try:
        await on.controller.update_features(updates, validate_only=request.validate_only)
    except ApiError as refusal:
        return UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message)
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=update.name) for update in updates]
    )


def _update(row: FeatureUpdateKey, version: int) -> FeatureUpdate:
    upgrade_type = row.upgrade_type
    if version < UPGRADE_TYPE_SINCE:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if row.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(row.feature, row.max_version_level, upgrade_type)
