"""Whether a broker is to be watched; what that needs is imported only then."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig
from moldau.config.value_checks import JMX_REPORTER
from moldau.handlers.services import Services

if TYPE_CHECKING:
    from moldau.broker.machine_environment import Surroundings
    from moldau.broker.monitoring.client_telemetry import ClientTelemetry
    from moldau.broker.monitoring.monitoring import Monitoring


def wants_reporters(config: BrokerConfig) -> bool:
    return bool(
        is_csv_on(config)
        or config.metrics_json_file is not None
        or config.metrics_otlp_endpoint is not None
        or own_reporters(config)
    )


def is_csv_on(config: BrokerConfig) -> bool:
    """As in Apache Kafka: the class is named, and it is switched on."""
    return bool(config.kafka_metrics_reporters) and config.kafka_csv_metrics_reporter_enabled


def own_reporters(config: BrokerConfig) -> list[str]:
    return [path for path in config.metric_reporters if path != JMX_REPORTER]


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
