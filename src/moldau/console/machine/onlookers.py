"""Who may see what the operator has named: Kafka's own rule for who may look at a cluster."""

from __future__ import annotations

from moldau.admin import AclOperation
from moldau.console.page import Asked, PageFault

REFUSAL = (
    "This page is for those who may describe the cluster: an access list has to allow you the"
    " operation describe on the cluster."
)


async def may_look(asked: Asked) -> bool:
    """Without a log-in everybody who reaches the console acts as the operator. Asked anew for
    every page: who has lost the right sees nothing from then on."""
    if not asked.settings.asks_for_login:
        return True
    cluster = await asked.link.admin.describe_cluster(include_authorized_operations=True)
    return AclOperation.DESCRIBE in (cluster.authorized_operations or ())


async def check_onlooker(asked: Asked) -> None:
    if not await may_look(asked):
        raise PageFault(403, REFUSAL)
