"""Whether a broker is to be watched; what that needs is imported only then."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig

if TYPE_CHECKING:
    from moldau.broker.monitoring.monitoring import Monitoring


async def monitoring_of(config: BrokerConfig, state: Callable[[], str]) -> Monitoring | None:
    """Raises BindFault if the address cannot be had."""
    address = config.metrics_http_listener
    if address is None:
        return None
    from moldau.broker.monitoring.monitoring import Monitoring

    own = (endpoint.host for endpoint in config.advertised_endpoints)
    names = (*config.metrics_http_hosts, *own, socket.gethostname())
    monitoring = Monitoring(address, names, state)
    await monitoring.start()
    return monitoring
