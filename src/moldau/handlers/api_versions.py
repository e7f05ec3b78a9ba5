"""ApiVersions: what is served, straight from the routing table, and the cluster's features.

Features name cluster-wide abilities that a client must not use unless all brokers have them. Here
these are the transactions of version 2 (KIP-890), in which every transaction has its own epoch.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.handlers.context import RequestContext
from moldau.handlers.routes import ROUTES
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

CLIENT_NAMED_SINCE: Final = 3
FEATURES_FROM_ZERO_SINCE: Final = 4
"""Older clients take a feature whose versions begin at 0 for an error."""
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTION_VERSION_LEVEL: Final = 2
FEATURES_EPOCH: Final = 0
"""Features are fixed, so that they have been changed no time yet."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def api_versions(
    request: ApiVersionsRequest, ctx: RequestContext, on: Services
) -> ApiVersionsResponse:
    if ctx.api_version >= CLIENT_NAMED_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=route.api_key,
                min_version=route.version_min,
                max_version=route.version_max,
            )
            for _, route in sorted(ROUTES.items())
        ],
        supported_features=[
            SupportedFeatureKey(
                name=TRANSACTION_VERSION, min_version=0, max_version=TRANSACTION_VERSION_LEVEL
            )
        ]
        if ctx.api_version >= FEATURES_FROM_ZERO_SINCE
        else [],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(
                name=TRANSACTION_VERSION,
                max_version_level=TRANSACTION_VERSION_LEVEL,
                min_version_level=TRANSACTION_VERSION_LEVEL,
            )
        ],
    )
