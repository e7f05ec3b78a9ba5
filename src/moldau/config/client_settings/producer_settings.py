"""Settings of the producer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.config.client_settings.common_settings import ClientSettings
from moldau.config.setting_definition import (
    INT_MAX,
    KIB,
    MIB,
    MINUTE,
    ClassName,
    ConfigError,
    Long,
    Names,
    setting,
)

IN_FLIGHT_MAX_IDEMPOTENT = 5
"""A broker remembers the last five batches of a producer, so more cannot be told apart (KIP-98)."""


class ProducerConfig(ClientSettings):
    """The settings of `Producer`, with Kafka's constants for their keys."""

    acks: str = setting(
        "acks",
        "all",
        one_of=("all", "-1", "0", "1"),
        aliases=("request.required.acks",),
        doc="How many replicas must have a record before it counts as written.",
    )
    retries: int = setting(
        "retries",
        INT_MAX,
        at_least=0,
        at_most=INT_MAX,
        aliases=("message.send.max.retries",),
        doc="How often a batch is sent again within delivery.timeout.ms.",
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms",
        2 * MINUTE,
        at_least=0,
        doc="How long a record may take from send() to its answer.",
    )
    batch_size: int = setting(
        "batch.size", 16 * KIB, at_least=0, doc="Bytes of a batch at which it is sent at once."
    )
    linger_ms: Long = setting(
        "linger.ms",
        5,
        at_least=0,
        aliases=("queue.buffering.max.ms",),
        doc="How long a batch waits for more records.",
    )
    buffer_memory: Long = setting(
        "buffer.memory", 32 * MIB, at_least=0, doc="Bytes of records that may wait to be sent."
    )
    max_block_ms: Long = setting(
        "max.block.ms",
        MINUTE,
        at_least=0,
        aliases=("metadata.fetch.timeout.ms",),
        doc="How long send() may wait for metadata or for room in the buffer.",
    )
    max_request_size: int = setting(
        "max.request.size", MIB, at_least=0, doc="Largest request, and so the largest record."
    )
    max_in_flight_requests_per_connection: int = setting(
        "max.in.flight.requests.per.connection",
        5,
        at_least=1,
        aliases=("max.in.flight.request.per.connection",),
        doc="How many requests may be under way to one broker.",
    )
    compression_type: str = setting(
        "compression.type",
        "none",
        one_of=("none", "gzip", "snappy", "lz4", "zstd"),
        aliases=("compression.codec",),
        doc="How batches are compressed.",
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level", -1, at_least=1, at_most=9, or_value=-1, doc="Level of gzip."
    )
    compression_lz4_level: int = setting(
        "compression.lz4.level", 9, at_least=1, at_most=17, doc="Level of lz4."
    )
    compression_zstd_level: int = setting(
        "compression.zstd.level", 3, at_least=-131072, at_most=22, doc="Level of zstd."
    )
    key_serializer: ClassName | None = setting(
        "key.serializer",
        None,
        aliases=("key.serializer.class",),
        doc="Turns keys into bytes: a name, a class, an object or a function.",
    )
    value_serializer: ClassName | None = setting(
        "value.serializer",
        None,
        aliases=("serializer.class",),
        doc="Turns values into bytes: a name, a class, an object or a function.",
    )
    partitioner_class: ClassName | None = setting(
        "partitioner.class", None, doc="Chooses partitions in place of the built-in rule."
    )
    partitioner_ignore_keys: bool = setting(
        "partitioner.ignore.keys", False, doc="Choose partitions as if records had no keys."
    )
    partitioner_adaptive_partitioning_enable: bool = setting(
        "partitioner.adaptive.partitioning.enable",
        True,
        doc="Give records without keys to brokers that answer faster.",
    )
    partitioner_availability_timeout_ms: Long = setting(
        "partitioner.availability.timeout.ms",
        0,
        at_least=0,
        no_effect="slow brokers are not avoided",
        doc="Avoid partitions whose broker took no batch for so long; 0 never does.",
    )
    interceptor_classes: Names = setting(
        "interceptor.classes", (), doc="See every record before it is sent and every answer."
    )
    enable_idempotence: bool = setting(
        "enable.idempotence", True, doc="Write each record once, in order, in spite of retries."
    )
    transactional_id: str | None = setting(
        "transactional.id",
        None,
        aliases=("transaction.id",),
        doc="Name under which the producer's transactions go on after a restart.",
    )
    transaction_timeout_ms: int = setting(
        "transaction.timeout.ms",
        MINUTE,
        at_least=1,
        doc="How long a transaction may stay open before its coordinator aborts it.",
    )
    transaction_two_phase_commit_enable: bool = setting(
        "transaction.two.phase.commit.enable",
        False,
        doc="Keep transactions open until an outside coordinator decides (KIP-939).",
    )
    metadata_max_idle_ms: Long = setting(
        "metadata.max.idle.ms",
        5 * MINUTE,
        at_least=5000,
        doc="Forget a topic that was not written to for so long.",
    )

    @property
    def required_acks(self) -> int:
        return -1 if self.acks == "all" else int(self.acks)

    @classmethod
    def _resolve(cls, values: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
        remarks = _settle_idempotence(values, given)
        needed = values["linger_ms"] + values["request_timeout_ms"]
        if values["delivery_timeout_ms"] < needed:
            if "delivery.timeout.ms" in given:
                limit = f"must be at least linger.ms + request.timeout.ms, which is {needed}"
                raise ConfigError("delivery.timeout.ms", values["delivery_timeout_ms"], limit)
            values["delivery_timeout_ms"] = min(needed, INT_MAX)
        return remarks


def _settle_idempotence(values: dict[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Idempotence is given up silently only where nobody asked for it."""
    asked = "enable.idempotence" in given and values["enable_idempotence"]
    transactional = values["transactional_id"] is not None
    if transactional and not values["enable_idempotence"]:
        raise ConfigError("enable.idempotence", "false", "must be true with a transactional.id")
    faults = []
    if values["acks"] not in ("all", "-1"):
        faults.append(("acks", values["acks"], "must be all"))
    if values["retries"] == 0:
        faults.append(("retries", 0, "must be at least 1"))
    if values["max_in_flight_requests_per_connection"] > IN_FLIGHT_MAX_IDEMPOTENT:
        key = "max.in.flight.requests.per.connection"
        limit = f"must be at most {IN_FLIGHT_MAX_IDEMPOTENT}"
        faults.append((key, values["max_in_flight_requests_per_connection"], limit))
    if not faults or not values["enable_idempotence"]:
        return []
    key, value, limit = faults[0]
    if asked or transactional:
        raise ConfigError(key, value, f"{limit} for an idempotent producer")
    values["enable_idempotence"] = False
    return [f"idempotence is off because of {key}={value}"]
