"""ListConfigResources: the names of all things that have settings, by kind (KIP-1142)."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.config.config_changes import ResourceType
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.cluster import ClusterImage
from moldau.model.errors import Error
from moldau.wire.messages.configs import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_SINCE = 1
"""Before that the request was about client metrics alone."""
LISTED = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


async def list_config_resources(
    request: ListConfigResourcesRequest, ctx: RequestContext, on: Services
) -> ListConfigResourcesResponse:
    asked = set(request.resource_types or LISTED)
    if ctx.api_version < TYPES_SINCE:
        asked = {ResourceType.CLIENT_METRICS}
    if not asked <= set(LISTED):
        return ListConfigResourcesResponse(error_code=Error.UNSUPPORTED_VERSION)
    image = on.image()
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTED
            if kind in asked
            for name in _names(kind, image)
        ]
    )


def _names(kind: ResourceType, image: ClusterImage) -> Iterable[str]:
    if kind is ResourceType.TOPIC:
        return image.topics
    if kind is ResourceType.GROUP:
        return image.group_configs
    if kind is ResourceType.CLIENT_METRICS:
        return image.client_metrics
    return map(str, image.brokers)
