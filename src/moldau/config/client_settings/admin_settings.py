"""Settings of the admin client."""

from __future__ import annotations

from moldau.config.client_settings.common_settings import ClientSettings
from moldau.config.setting_definition import INT_MAX, MINUTE, Long, Names, setting


class AdminConfig(ClientSettings):
    """The settings of `Admin`, with Kafka's constants for their keys."""

    connections_max_idle_ms: Long = setting(
        "connections.max.idle.ms",
        5 * MINUTE,
        at_least=-1,
        doc="Close a connection that was not used for so long; -1 keeps it.",
    )
    retries: int = setting(
        "retries",
        INT_MAX,
        at_least=0,
        at_most=INT_MAX,
        doc="How often a failed request is sent again within its time-out.",
    )
    bootstrap_controllers: Names = setting(
        "bootstrap.controllers",
        (),
        no_effect="requests go through brokers",
        doc="Controllers to ask instead of brokers.",
    )
