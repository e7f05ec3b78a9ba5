"""Group settings. What a group does not override it takes from the broker key beside it, whose
`min` and `max` companions bound what a group may be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.config.broker_settings.coordinator_settings import (
    NO_CONSUMER_PROTOCOL,
    NO_SHARE_GROUPS,
    NO_STREAMS_GROUPS,
)
from moldau.config.setting_definition import (
    SECOND,
    ConfigError,
    Settings,
    UnknownKeyError,
    setting,
    suggestion,
)
from moldau.config.value_checks import offset_reset

if TYPE_CHECKING:
    from moldau.config.broker_config import BrokerConfig

# Rows stay compact, so that the table can be read as one.
# fmt: off


class GroupConfig(Settings):
    # Consumer groups (KIP-848)
    consumer_session_timeout_ms: int = setting(
        "consumer.session.timeout.ms", 45 * SECOND, at_least=1, no_effect=NO_CONSUMER_PROTOCOL,
        synonym="group.consumer.session.timeout.ms",
        doc="A member that has not been heard of for this long is removed.")
    consumer_heartbeat_interval_ms: int = setting(
        "consumer.heartbeat.interval.ms", 5 * SECOND, at_least=1, no_effect=NO_CONSUMER_PROTOCOL,
        synonym="group.consumer.heartbeat.interval.ms",
        doc="How often members are told to report.")
    consumer_assignment_interval_ms: int = setting(
        "consumer.assignment.interval.ms", 1 * SECOND, at_least=0, no_effect=NO_CONSUMER_PROTOCOL,
        synonym="group.consumer.assignment.interval.ms",
        doc="Shortest time between two assignments.")

    # Share groups (KIP-932)
    share_session_timeout_ms: int = setting(
        "share.session.timeout.ms", 45 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        synonym="group.share.session.timeout.ms",
        doc="A member of a share group that has not been heard of for this long is removed.")
    share_heartbeat_interval_ms: int = setting(
        "share.heartbeat.interval.ms", 5 * SECOND, at_least=1, no_effect=NO_SHARE_GROUPS,
        synonym="group.share.heartbeat.interval.ms",
        doc="How often members of a share group are told to report.")
    share_assignment_interval_ms: int = setting(
        "share.assignment.interval.ms", 1 * SECOND, at_least=0, no_effect=NO_SHARE_GROUPS,
        synonym="group.share.assignment.interval.ms",
        doc="Shortest time between two assignments of a share group.")
    share_record_lock_duration_ms: int = setting(
        "share.record.lock.duration.ms", 30 * SECOND, at_least=1 * SECOND,
        no_effect=NO_SHARE_GROUPS, synonym="group.share.record.lock.duration.ms",
        doc="How long a record belongs to the member it was handed to.")
    share_delivery_count_limit: int = setting(
        "share.delivery.count.limit", 5, at_least=2, no_effect=NO_SHARE_GROUPS,
        synonym="group.share.delivery.count.limit",
        doc="Times that a record is handed out before it is given up.")
    share_partition_max_record_locks: int = setting(
        "share.partition.max.record.locks", 2000, at_least=100, no_effect=NO_SHARE_GROUPS,
        synonym="group.share.partition.max.record.locks",
        doc="Records of a partition that may be handed out at one time.")
    share_auto_offset_reset: str = setting(
        "share.auto.offset.reset", "latest", check=offset_reset, no_effect=NO_SHARE_GROUPS,
        doc="Where a share group begins in a partition it is new to: earliest, latest, or "
            "by_duration:<duration> before now, as in by_duration:PT1H.")
    share_isolation_level: str = setting(
        "share.isolation.level", "read_uncommitted", no_effect=NO_SHARE_GROUPS,
        one_of=("read_committed", "read_uncommitted"),
        doc="Whether a share group is handed records of transactions that were not committed.")
    share_renew_acknowledge_enable: bool = setting(
        "share.renew.acknowledge.enable", True, no_effect=NO_SHARE_GROUPS,
        doc="Members of a share group may ask for more time with a record.")

    # Streams groups (KIP-1071)
    streams_session_timeout_ms: int = setting(
        "streams.session.timeout.ms", 45 * SECOND, at_least=1, no_effect=NO_STREAMS_GROUPS,
        synonym="group.streams.session.timeout.ms",
        doc="A member of a streams group that has not been heard of for this long is removed.")
    streams_heartbeat_interval_ms: int = setting(
        "streams.heartbeat.interval.ms", 5 * SECOND, at_least=1, no_effect=NO_STREAMS_GROUPS,
        synonym="group.streams.heartbeat.interval.ms",
        doc="How often members of a streams group are told to report.")
    streams_assignment_interval_ms: int = setting(
        "streams.assignment.interval.ms", 1 * SECOND, at_least=0, no_effect=NO_STREAMS_GROUPS,
        synonym="group.streams.assignment.interval.ms",
        doc="Shortest time between two assignments of a streams group.")
    streams_num_standby_replicas: int = setting(
        "streams.num.standby.replicas", 0, at_least=0, no_effect=NO_STREAMS_GROUPS,
        synonym="group.streams.num.standby.replicas",
        doc="Warm copies of the state that a streams group keeps.")
    streams_initial_rebalance_delay_ms: int = setting(
        "streams.initial.rebalance.delay.ms", 3 * SECOND, at_least=0, no_effect=NO_STREAMS_GROUPS,
        synonym="group.streams.initial.rebalance.delay.ms",
        doc="How long a new streams group waits for more members.")

    # fmt: on

    @classmethod
    def of(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> GroupConfig:
        """What holds for a group: its overrides, then the broker's values. As with topics, a
        stored override that is not valid any more is passed over."""
        values: dict[str, Any] = {}
        for row in cls.rows.values():
            own = overrides.get(row.key)
            if own is not None and row.allows(own):
                values[row.name] = row.parse(own)
            elif row.synonym is not None:
                values[row.name] = getattr(broker, row.synonym.replace(".", "_"))
            else:
                values[row.name] = row.default
        return cls(values)


HEARTBEATS = ("consumer", "share", "streams")
"""Kinds of group whose members report more often than they are given up."""


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises ConfigError if a group cannot have these overrides."""
    for key, text in overrides.items():
        row = GroupConfig.rows.get(key)
        if row is None:
            close = suggestion(key, GroupConfig.rows)
            raise UnknownKeyError(key, f"Unknown group config name: {key}{close}")
        value = row.parse(text)
        for bound_key, bound in bounds_of(key, broker).items():
            if bound_key.split(".")[2] == "min" and value < bound:
                raise ConfigError(key, value, f"must be at least {bound_key}, which is {bound}")
            if bound_key.split(".")[2] == "max" and value > bound:
                raise ConfigError(key, value, f"must be at most {bound_key}, which is {bound}")
    after = GroupConfig.of(broker, overrides)
    for kind in HEARTBEATS:
        interval: int = getattr(after, f"{kind}_heartbeat_interval_ms")
        timeout: int = getattr(after, f"{kind}_session_timeout_ms")
        if interval >= timeout:
            limit = f"must be less than {kind}.session.timeout.ms, which is {timeout}"
            raise ConfigError(f"{kind}.heartbeat.interval.ms", interval, limit)


def bounds_of(key: str, broker: BrokerConfig) -> dict[str, int]:
    """The broker keys that limit a group's value, and what they say now."""
    kind, _, rest = key.partition(".")
    # The one key whose bounds have another name than its own.
    rest = rest.removeprefix("num.")
    names = (f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}")
    return {name: getattr(broker, broker.rows[name].name) for name in names if name in broker.rows}
