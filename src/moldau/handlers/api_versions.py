"""ApiVersions: what is served, straight from the routing table, and the cluster's features.

Features name cluster-wide abilities that a client must not use unless all brokers have them: the
table of `controller/rules/feature_rules.py`, at the levels that the cluster is at.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.controller.rules.feature_rules import FEATURES, level_of
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import routes_of
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.wire.apis import OWN_FROM
from moldau.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

CLIENT_NAMED_SINCE: Final = 3
OWN_SOFTWARE: Final = "moldau"
FEATURES_FROM_ZERO_SINCE: Final = 4
"""Older clients take a feature whose versions begin at 0 for an error."""
SOFTWARE_LENGTH_MAX: Final = 256
"""Of what is kept of them: metrics name them for as long as the connection lasts, and longer. One
more than subscriptions look at: what is longer still matches none."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def is_acceptable(request: ApiVersionsRequest, version: int) -> bool:
    """Whether the client says properly what it is."""
    return version < CLIENT_NAMED_SINCE or bool(
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    )


async def api_versions(
    request: ApiVersionsRequest, ctx: RequestContext, on: Services
) -> ApiVersionsResponse:
    if not is_acceptable(request, ctx.api_version):
        return ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    if ctx.connection is not None:
        name, version = request.client_software_name, request.client_software_version
        software = (name[:SOFTWARE_LENGTH_MAX], version[:SOFTWARE_LENGTH_MAX])
        ctx.connection.client_software = software
    image = on.image()
    levels = {feature.name: level_of(feature, image.features) for feature in FEATURES}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=route.api_key,
                min_version=route.version_min,
                max_version=route.version_max,
            )
            for _, route in sorted(routes_of(on).items())
            if route.api_key < OWN_FROM or request.client_software_name == OWN_SOFTWARE
        ],
        supported_features=[
            SupportedFeatureKey(
                name=feature.name, min_version=feature.level_min, max_version=feature.level_max
            )
            for feature in FEATURES
            if feature.level_min or ctx.api_version >= FEATURES_FROM_ZERO_SINCE
        ],
        finalized_features_epoch=image.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
            # A feature at level 0 is off, which clients read from its absence.
            if level
        ],
    )
