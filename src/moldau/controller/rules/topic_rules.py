"""The rules for creating, growing and deleting topics, with Kafka's error codes and sentences.

Pure. Each function looks at one topic and returns the fact that should become true, or raises the
refusal; `machine.py` puts the rows of a request together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from moldau.config.setting_definition import ConfigError
from moldau.config.topic_config import MIRROR_SOURCE, TopicConfig, validate_topic_overrides
from moldau.controller.controller_facts import PartitionsAdded, TopicCreated, TopicDeleted
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.replica_placement import (
    Replicas,
    Start,
    place,
    place_by_rack,
    start_for_growth,
)
from moldau.model.cluster import PartitionImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicId, topic_name_fault

DEFAULT = -1
"""A partition count or replication factor that is left to the broker's configuration."""
PARTITIONS_PER_REQUEST_MAX = 10_000
METADATA_LOG_TOPIC = "__cluster_metadata"


class NewTopic(NamedTuple):
    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, Replicas], ...] = ()
    """Partition and its brokers, if the client places them itself."""
    configs: Mapping[str, str | None] = {}
    leader_epochs: tuple[int, ...] = ()
    """What each partition begins with, if its log is not new."""
    mirror_source: str = ""
    """Of another cluster, if this one is to repeat it."""


class NewPartitions(NamedTuple):
    topic: str
    partition_count: int
    """In all, not how many more."""
    assignments: tuple[Replicas, ...] | None = None


class TopicDefaults(NamedTuple):
    """The broker's settings that fill in for what a request leaves open."""

    num_partitions: int = 1
    replication_factor: int = 1


class Draw(NamedTuple):
    """What is random about a new topic, drawn outside."""

    topic_id: TopicId
    start: Start = Start()


def create(
    state: ControllerState, topic: NewTopic, draw: Draw, defaults: TopicDefaults
) -> TopicCreated:
    _check_name(state, topic.name)
    configs = _checked_configs(topic.configs)
    if MIRROR_SOURCE in configs:
        raise mirror_source_refused()
    if topic.mirror_source:
        configs[MIRROR_SOURCE] = topic.mirror_source
    if topic.assignments:
        rows = _manual_rows(state, topic)
    else:
        rows = _placed_rows(state, topic, draw.start, defaults)
    partitions = _new_partitions(rows, state.cluster.brokers)
    if topic.leader_epochs:
        partitions = tuple(
            replace(partition, leader_epoch=epoch)
            for partition, epoch in zip(partitions, topic.leader_epochs, strict=True)
        )
    return TopicCreated(topic.name, draw.topic_id, partitions, configs)


def grow(state: ControllerState, wanted: NewPartitions) -> PartitionsAdded:
    topic = state.cluster.topics.get(wanted.topic)
    if topic is None:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(topic.partitions)
    more = wanted.partition_count - count
    if more == 0:
        raise ApiError(Error.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if more < 0:
        raise ApiError(
            Error.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); "
            f"{wanted.partition_count} would not be an increase.",
        )
    if more > PARTITIONS_PER_REQUEST_MAX:
        raise too_many_partitions()
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignments is not None:
        rows = _manual_growth(state, wanted.assignments, more, replication_factor)
    elif replication_factor > len(state.cluster.brokers):
        rows = _grown_without_all(state, topic, more, replication_factor)
    else:
        brokers = sorted(state.cluster.brokers)
        start = start_for_growth(brokers, topic.partitions[0].replicas[0])
        rows = _placed(state, brokers, more, replication_factor, start, count)
    partitions = topic.partitions + _new_partitions(rows, state.cluster.brokers)
    return PartitionsAdded(topic.name, topic.id, partitions, count)


def delete(state: ControllerState, name: str) -> TopicDeleted:
    topic = state.cluster.topics.get(name)
    if topic is None:
        raise ApiError(
            Error.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return TopicDeleted(name, topic.id, len(topic.partitions))


def too_many_partitions() -> ApiError:
    return ApiError(Error.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _check_name(state: ControllerState, name: str) -> None:
    if name == METADATA_LOG_TOPIC:
        raise ApiError(Error.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    fault = topic_name_fault(name)
    if fault is not None:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, fault)
    if name in state.cluster.topics:
        raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    colliding = state.colliding_with(name)
    if colliding:
        raise ApiError(
            Error.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {', '.join(sorted(colliding))}",
        )


def _checked_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    checked: dict[str, str] = {}
    for key, value in configs.items():
        if value is None:
            raise ApiError(
                Error.INVALID_CONFIG, f"Null value not supported for topic configs: {key}"
            )
        checked[TopicConfig.aliases.get(key, key)] = value
    check_topic_overrides(checked)
    return checked


def mirror_source_refused() -> ApiError:
    return ApiError(
        Error.POLICY_VIOLATION, f"{MIRROR_SOURCE} is set and removed by `moldau mirror` alone"
    )


def check_topic_overrides(overrides: Mapping[str, str]) -> None:
    for key in overrides:
        if key not in TopicConfig.rows:
            raise ApiError(Error.INVALID_CONFIG, f"Unknown topic config name: {key}")
    try:
        validate_topic_overrides(overrides)
    except ConfigError as fault:
        raise ApiError(Error.INVALID_CONFIG, str(fault)) from fault


def _placed_rows(
    state: ControllerState, topic: NewTopic, start: Start, defaults: TopicDefaults
) -> list[Replicas]:
    wanted_factor, wanted_count = topic.replication_factor, topic.num_partitions
    if wanted_factor < DEFAULT or wanted_factor == 0:
        raise ApiError(
            Error.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted_count < DEFAULT or wanted_count == 0:
        raise ApiError(
            Error.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    factor = defaults.replication_factor if wanted_factor == DEFAULT else wanted_factor
    count = defaults.num_partitions if wanted_count == DEFAULT else wanted_count
    if count >= PARTITIONS_PER_REQUEST_MAX:
        raise too_many_partitions()
    return _placed(state, _brokers_for(state, factor), count, factor, start)


def _placed(
    state: ControllerState,
    brokers: list[BrokerId],
    count: int,
    replication_factor: int,
    start: Start,
    first_partition: int = 0,
) -> list[Replicas]:
    """Over racks if the brokers name theirs: all of them, or nobody could say what is spread."""
    racks = {b: rack for b in brokers if (rack := state.cluster.brokers[b].rack) is not None}
    if not racks:
        return place(brokers, count, replication_factor, start, first_partition)
    if len(racks) < len(brokers):
        raise ApiError(
            Error.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    return place_by_rack(racks, count, replication_factor, start, first_partition)


def _grown_without_all(
    state: ControllerState, topic: TopicImage, more: int, replication_factor: int
) -> list[Replicas]:
    """Where too few brokers live: those that have replicas of the topic already will be back. The
    living come first, one after the other, for they lead."""
    living = sorted(state.cluster.brokers)
    away = sorted({b for each in topic.partitions for b in each.replicas} - set(living))
    if not living or replication_factor > len(living) + len(away):
        raise _too_few(len(living), replication_factor)
    return [
        (*living[turn:], *living[:turn], *away[: replication_factor - len(living)])
        for turn in (number % len(living) for number in range(more))
    ]


def _brokers_for(state: ControllerState, replication_factor: int) -> list[BrokerId]:
    brokers = sorted(state.cluster.brokers)
    if replication_factor > len(brokers):
        raise _too_few(len(brokers), replication_factor)
    return brokers


def _too_few(count: int, replication_factor: int) -> ApiError:
    return ApiError(
        Error.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): The target "
        f"replication factor of {replication_factor} cannot be reached because only "
        f"{count} broker(s) are registered.",
    )


def _manual_rows(state: ControllerState, topic: NewTopic) -> list[Replicas]:
    for value, name in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if value != DEFAULT:
            raise ApiError(
                Error.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    rows: dict[int, Replicas] = {}
    for partition, replicas in topic.assignments:
        if partition in rows:
            raise _bad_assignment(
                f"Found multiple manual partition assignments for partition {partition}"
            )
        check_replicas(state, replicas, len(next(iter(rows.values()))) if rows else None)
        rows[partition] = replicas
    if sorted(rows) != list(range(len(rows))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [rows[partition] for partition in range(len(rows))]


def _manual_growth(
    state: ControllerState, assignments: Sequence[Replicas], more: int, replication_factor: int
) -> list[Replicas]:
    if len(assignments) != more:
        raise _bad_assignment(
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(assignments)} assignment(s) were specified."
        )
    for replicas in assignments:
        check_replicas(state, replicas, replication_factor)
    return list(assignments)


def check_replicas(state: ControllerState, replicas: Replicas, like_others: int | None) -> None:
    if not replicas:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if broker not in state.cluster.brokers:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker}, "
                "but no such broker is registered."
            )
        if replicas.count(broker) > 1:
            raise _bad_assignment(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
    if like_others is not None and len(replicas) != like_others:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{like_others} replica(s)."
        )


def _bad_assignment(message: str) -> ApiError:
    return ApiError(Error.INVALID_REPLICA_ASSIGNMENT, message)


def _new_partitions(
    rows: Sequence[Replicas], living: Collection[BrokerId]
) -> tuple[PartitionImage, ...]:
    """Each led by its first replica, with all that live in sync: there is nothing to catch up with
    yet."""
    made = {
        replicas: PartitionImage(
            replicas[0], 0, replicas, tuple(broker for broker in replicas if broker in living)
        )
        for replicas in rows
    }
    return tuple(made[replicas] for replicas in rows)
