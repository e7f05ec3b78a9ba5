"""Settings of the consumer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from moldau.config.client_settings.common_settings import ClientSettings
from moldau.config.setting_definition import (
    MIB,
    MINUTE,
    SECOND,
    ClassName,
    ConfigError,
    Names,
    setting,
)

_DURATION = re.compile(r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9.]+S)?)?")
_OLD_RESETS = {"smallest": "earliest", "largest": "latest"}


def _offset_reset(value: str) -> str | None:
    if value in ("earliest", "latest", "none", *_OLD_RESETS) or _DURATION.fullmatch(value):
        return None
    return "must be earliest, latest, none or by_duration:<ISO 8601 duration>"


class ConsumerConfig(ClientSettings):
    """The settings of `Consumer`, with Kafka's constants for their keys."""

    group_id: str | None = setting("group.id", None, doc="The group that shares the partitions.")
    group_instance_id: str | None = setting(
        "group.instance.id",
        None,
        doc="Name of a static member: it keeps its partitions over a restart.",
    )
    group_protocol: str = setting(
        "group.protocol",
        "classic",
        one_of=("classic", "consumer"),
        ignore_case=True,
        doc="Whether members or the coordinator compute the assignment.",
    )
    group_remote_assignor: str | None = setting(
        "group.remote.assignor",
        None,
        no_effect="groups of the consumer protocol (KIP-848) are not joined yet",
        doc="The coordinator's assignor, with group.protocol=consumer.",
    )
    session_timeout_ms: int = setting(
        "session.timeout.ms",
        45 * SECOND,
        at_least=1,
        doc="A member that sends no heartbeat for so long is taken for dead.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms", 3 * SECOND, at_least=1, doc="Pause between heartbeats."
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        5 * MINUTE,
        at_least=1,
        doc="A member that does not poll for so long leaves its group.",
    )
    max_poll_records: int = setting(
        "max.poll.records", 500, at_least=1, doc="Most records that one poll returns."
    )
    partition_assignment_strategy: Names = setting(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        doc="How partitions are shared: range, roundrobin, sticky, cooperative-sticky, a class.",
    )
    enable_auto_commit: bool = setting(
        "enable.auto.commit",
        True,
        aliases=("auto.commit.enable",),
        doc="Commit the position in the background.",
    )
    auto_commit_interval_ms: int = setting(
        "auto.commit.interval.ms", 5 * SECOND, at_least=0, doc="Pause between such commits."
    )
    auto_offset_reset: str = setting(
        "auto.offset.reset",
        "latest",
        check=_offset_reset,
        doc="Where to start if no offset is committed or it is gone.",
    )
    fetch_min_bytes: int = setting(
        "fetch.min.bytes", 1, at_least=0, doc="A fetch waits until so many bytes are there."
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", 50 * MIB, at_least=0, doc="Most bytes that one fetch returns."
    )
    fetch_max_wait_ms: int = setting(
        "fetch.max.wait.ms",
        500,
        at_least=0,
        aliases=("fetch.wait.max.ms",),
        doc="How long a fetch waits for fetch.min.bytes.",
    )
    max_partition_fetch_bytes: int = setting(
        "max.partition.fetch.bytes",
        MIB,
        at_least=0,
        aliases=("fetch.message.max.bytes",),
        doc="Most bytes that one fetch returns of one partition.",
    )
    check_crcs: bool = setting("check.crcs", True, doc="Check the checksum of every batch.")
    isolation_level: str = setting(
        "isolation.level",
        "read_uncommitted",
        one_of=("read_uncommitted", "read_committed"),
        ignore_case=True,
        doc="Whether records of open and aborted transactions are returned.",
    )
    exclude_internal_topics: bool = setting(
        "exclude.internal.topics", True, doc="Leave internal topics out of pattern subscriptions."
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics", True, doc="Let the broker create a topic that is subscribed to."
    )
    key_deserializer: ClassName | None = setting(
        "key.deserializer", None, doc="Turns bytes into keys: a name, class, object or function."
    )
    value_deserializer: ClassName | None = setting(
        "value.deserializer",
        None,
        doc="Turns bytes into values: a name, class, object or function.",
    )
    interceptor_classes: Names = setting(
        "interceptor.classes", (), doc="See every record before it is returned and every commit."
    )
    consumer_timeout_ms: int = setting(
        "consumer.timeout.ms",
        -1,
        at_least=-1,
        aliases=("kafka.consumer.timeout.ms",),
        doc="Iterating over the consumer ends if no record comes for so long; -1 waits forever.",
    )

    @classmethod
    def _resolve(cls, values: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
        remarks = []
        old = _OLD_RESETS.get(values["auto_offset_reset"])
        if old is not None:
            remarks.append(f"auto.offset.reset={values['auto_offset_reset']} is read as {old}")
            values["auto_offset_reset"] = old
        for name in ("isolation_level", "group_protocol"):
            values[name] = values[name].lower()
        if values["group_id"] is None:
            if given.get("enable.auto.commit") is not None and values["enable_auto_commit"]:
                raise ConfigError("enable.auto.commit", "true", "must be false without a group.id")
            values["enable_auto_commit"] = False
        elif values["group_id"] == "":
            raise ConfigError("group.id", "''", "must not be empty")
        if values["heartbeat_interval_ms"] >= values["session_timeout_ms"]:
            raise ConfigError(
                "heartbeat.interval.ms",
                values["heartbeat_interval_ms"],
                f"must be less than session.timeout.ms, which is {values['session_timeout_ms']}",
            )
        return remarks
