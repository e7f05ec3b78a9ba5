"""Where things stand in the znode tree and how they are written: the layout of Kafka 3.9.

Pure. Field names, versions and field order are those that Kafka's ZooKeeper mode writes, so that
brokers of both kinds and people with zkCli read the same tree. Reading is lenient: unknown fields
are skipped, older versions without newer fields are accepted. A known field of another form raises
(see `unreadable_nodes.py`), so that whoever decides can rely on what it is given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.metadata import node_fields as checked
from moldau.model.cluster import BrokerNode, Endpoint
from moldau.model.names import NO_TOPIC_ID, BrokerId, Millis, TopicId, uuid_from_text, uuid_text

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_FEATURES = {"transaction.version": 2}
"""What a broker says at its registration that it knows, beyond what Apache Kafka 3.9 does."""
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS = "/config/client-metrics"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
BROKER_SEQUENCE = "/brokers/seqid"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"

ENTITY_NAME_LENGTH_MAX = 10_000
"""Of a name as part of a path, so that every store can take it."""
BROKER_DEFAULT = "<default>"
"""The name of the node whose settings hold for every broker."""

PERSISTENT_PATHS = (
    "/admin",
    DELETE_TOPICS,
    "/brokers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    "/cluster",
    "/config",
    BROKER_CONFIGS,
    CONFIG_CHANGES,
    CLIENT_METRICS,
    "/config/clients",
    GROUP_CONFIGS,
    "/config/ips",
    TOPIC_CONFIGS,
    "/config/users",
    "/consumers",
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
)
"""What has to be there before anything else, parents first."""

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_")
_encode_text = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_decode_text = json.JSONDecoder().decode


def _encode(value: object) -> bytes:
    return _encode_text(value).encode()


def _decode(data: bytes) -> dict[str, Any]:
    value = _decode_text(data.decode())
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {data!r}")
    return value


def broker_path(broker: BrokerId) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(entity: str) -> str:
    """`entity` is a kind and a name, for example topics/orders."""
    return f"/config/{entity}"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    """`broker` is an id as text, or BROKER_DEFAULT."""
    return f"{BROKER_CONFIGS}/{broker}"


def entity_name(name: str) -> str:
    """A name that clients choose freely, such as a group's, as part of a path: percent-encoded."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    if all(character in _PLAIN for character in name):
        return name
    return "".join(chr(b) if chr(b) in _PLAIN else f"%{b:02X}" for b in name.encode())


def name_of_entity(part: str) -> str:
    first, *rest = part.encode().split(b"%")
    return b"".join([first, *(bytes([int(e[:2], 16)]) + e[2:] for e in rest)]).decode()


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


class ControllerNode(NamedTuple):
    broker: BrokerId
    timestamp: Millis


def encode_controller(broker: BrokerId, now_ms: Millis) -> bytes:
    return _encode(
        {
            "version": 2,
            "brokerid": broker,
            "timestamp": str(now_ms),
            # Set by a KRaft controller that took over during a migration; never by us.
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes) -> ControllerNode:
    fields = _decode(data)
    return ControllerNode(int(fields["brokerid"]), int(fields["timestamp"]))


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    return int(data)


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(_decode(data)["id"])


def encode_broker(node: BrokerNode, now_ms: Millis) -> bytes:
    # Host and port on top are for clients that know no listeners: the first plaintext one.
    plain = next((e for e in node.endpoints if e.security_protocol == "PLAINTEXT"), None)
    fields: dict[str, object] = {
        "features": {
            name: {"min_version": 1, "max_version": level}
            for name, level in BROKER_FEATURES.items()
        },
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in node.endpoints},
        "endpoints": [_connection_text(e) for e in node.endpoints],
    }
    if node.rack is not None:
        fields["rack"] = node.rack
    fields["jmx_port"] = -1
    fields["port"] = plain.port if plain else -1
    fields["host"] = plain.host if plain else None
    fields["version"] = 5
    fields["timestamp"] = str(now_ms)
    return _encode(fields)


def decode_broker(broker: BrokerId, data: bytes) -> BrokerNode:
    fields = _decode(data)
    if "endpoints" not in fields:
        plain = Endpoint("PLAINTEXT", checked.text(fields["host"]), checked.number(fields["port"]))
        return BrokerNode(broker, (plain,), _rack(fields))
    protocols: dict[str, str] = fields.get("listener_security_protocol_map") or {}
    endpoints = tuple(_endpoint_of(text, protocols) for text in fields["endpoints"])
    return BrokerNode(broker, endpoints, _rack(fields))


def decode_broker_features(data: bytes) -> dict[str, int]:
    """The highest level of each feature that the broker says it knows."""
    features = _decode(data).get("features") or {}
    return {name: checked.number(known["max_version"]) for name, known in features.items()}


def _rack(fields: Mapping[str, Any]) -> str | None:
    rack = fields.get("rack")
    return None if rack is None else checked.text(rack)


def _connection_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _endpoint_of(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, host.strip("[]"), int(port), protocols.get(listener, listener))


class TopicNode(NamedTuple):
    topic_id: TopicId
    replicas: tuple[tuple[BrokerId, ...], ...]
    """By partition; during a reassignment the old and the new ones."""
    adding: Mapping[int, tuple[BrokerId, ...]] = {}
    removing: Mapping[int, tuple[BrokerId, ...]] = {}


def encode_topic(topic: TopicNode) -> bytes:
    return _encode(
        {
            "partitions": {str(p): list(b) for p, b in enumerate(topic.replicas)},
            "topic_id": uuid_text(topic.topic_id),
            "adding_replicas": {str(p): list(b) for p, b in topic.adding.items()},
            "removing_replicas": {str(p): list(b) for p, b in topic.removing.items()},
            "version": 3,
        }
    )


def decode_topic(data: bytes) -> TopicNode:
    fields = _decode(data)
    partitions = fields.get("partitions") or {}
    replicas = tuple(checked.brokers(partitions[str(p)]) for p in range(len(partitions)))
    topic_id = uuid_from_text(fields["topic_id"]) if "topic_id" in fields else NO_TOPIC_ID
    return TopicNode(
        topic_id,
        replicas,
        {int(p): checked.brokers(b) for p, b in (fields.get("adding_replicas") or {}).items()},
        {int(p): checked.brokers(b) for p, b in (fields.get("removing_replicas") or {}).items()},
    )


class PartitionState(NamedTuple):
    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int


def encode_partition_state(state: PartitionState) -> bytes:
    return _encode(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_partition_state(data: bytes) -> PartitionState:
    fields = _decode(data)
    return PartitionState(
        checked.number(fields["leader"]),
        checked.count(fields["leader_epoch"]),
        checked.brokers(fields["isr"]),
        checked.number(fields["controller_epoch"]),
    )


def encode_config(overrides: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(overrides)})


def decode_config(data: bytes) -> dict[str, str]:
    if not data:
        return {}
    config = _decode(data).get("config") or {}
    return {str(key): str(value) for key, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    """`entity_path` is what stands behind /config/, for example topics/orders."""
    return _encode({"version": 2, "entity_path": entity_path})


class ProducerIdBlock(NamedTuple):
    broker: BrokerId
    first: int
    last: int
    """Inclusive."""


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _encode(
        {
            "version": 1,
            "broker": block.broker,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    if not data:
        return None
    fields = _decode(data)
    return ProducerIdBlock(
        int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"])
    )


def encode_feature(levels: Mapping[str, int] | None = None) -> bytes:
    """Feature versions are on, with these levels finalized."""
    return _encode({"features": dict(levels or {}), "version": 2, "status": 1})


def decode_feature(data: bytes) -> dict[str, int]:
    levels = _decode(data).get("features") or {}
    return {
        # Version 1 has a range, whose end is the level.
        name: int(level["max_version_level"] if isinstance(level, dict) else level)
        for name, level in levels.items()
    }


def decode_isr_changes(data: bytes) -> list[tuple[str, int]]:
    rows = _decode(data).get("partitions") or ()
    return [(checked.text(row["topic"]), checked.count(row["partition"])) for row in rows]


def decode_reassignment(data: bytes) -> dict[tuple[str, int], tuple[BrokerId, ...]]:
    return {
        (checked.text(row["topic"]), checked.count(row["partition"])): checked.brokers(
            row["replicas"]
        )
        for row in _decode(data).get("partitions") or ()
    }


def encode_log_dir_event(broker: BrokerId) -> bytes:
    return _encode({"version": 1, "broker": broker, "event": 1})


def decode_log_dir_event(data: bytes) -> BrokerId:
    return int(_decode(data)["broker"])


def decode_config_change(data: bytes) -> str | None:
    """What stands behind /config/; None for a notification of a release that wrote another form."""
    fields = _decode(data)
    if fields.get("version") == 1:
        return f"{fields['entity_type']}/{fields['entity_name']}"
    path = fields.get("entity_path")
    return None if path is None else str(path)
