"""ApiVersions: what is served, straight from the routing table.

There are no features to tell of: they name cluster-wide abilities (transactions of the second
kind, group protocols) that a client must not use unless the broker has them.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.handlers.context import RequestContext
from moldau.handlers.routes import ROUTES
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

CLIENT_NAMED_SINCE: Final = 3
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
        ]
    )
