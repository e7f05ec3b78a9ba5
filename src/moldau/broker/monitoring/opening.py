"""Whether a broker is to be watched; what that needs is imported only then."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.monitoring.reporting.reporter_settings import wants_reporters
from moldau.config.broker_config import BrokerConfig
from moldau.handlers.services import Services

if TYPE_CHECKING:
    from moldau.broker.machine_environment import Surroundings
    from moldau.broker.monitoring.client_telemetry import ClientTelemetry
    from moldau.broker.monitoring.monitoring import Monitoring


async def monitoring_of(config: BrokerConfig, state: Callable[[], str]) -> Monitoring | None:
    """Raises BindFault if the address cannot be had, ConfigError if a reporter cannot."""
    address = config.metrics_http_listener
    has_reporters = wants_reporters(config)
    if address is None and not has_reporters:
        return None
    from moldau.broker.monitoring.monitoring import Monitoring

    reporters = None
    if has_reporters:
        from moldau.broker.monitoring.reporting.reporters import Reporters

        reporters = Reporters(config)
    own = (endpoint.host for endpoint in config.advertised_endpoints)
    names = (*config.metrics_http_hosts, *own, socket.gethostname())
    dialect = config.metrics_http_dialect
    monitoring = Monitoring(address, names, state, lambda: dialect, reporters)
    await monitoring.start()
    return monitoring


def telemetry_of(
    monitoring: Monitoring | None, services: Services, around: Surroundings
) -> ClientTelemetry | None:
    """Where clients may push their metrics to; None if nobody would see them."""
    return None if monitoring is None else monitoring.take_telemetry(services, around)
