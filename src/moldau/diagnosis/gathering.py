"""Collects the evidence of what is wrong: asks a cluster about itself and changes nothing in it.

The bootstrap servers are asked first, directly, because a cluster whose advertised addresses are
wrong can tell about itself through them and nowhere else. The rest goes through the admin client,
and only to brokers that can be reached; what could not be asked becomes a sentence, not a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.client.admin.admin_results import ConfigResource, OffsetSpec
from moldau.client.admin.blocking_admin import Admin
from moldau.client.network.broker_connection import Connection
from moldau.client.network.connection_security import ConnectionSecurity
from moldau.client.network.connection_setup import open_connection
from moldau.client.shared.client_errors import (
    AuthenticationError,
    DisconnectError,
    KafkaError,
    KafkaTimeoutError,
    SslAuthenticationError,
    UnsupportedVersionError,
)
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.diagnosis.evidence import (
    BrokerSight,
    ClockSight,
    ClusterSight,
    Evidence,
    GroupSight,
    LogDirSight,
    LogSight,
    PartitionSight,
    Probe,
    Reach,
    TopicSight,
    TransactionSight,
    few,
)
from moldau.diagnosis.probe import probe
from moldau.model.names import TopicPartition
from moldau.profiles import Profile
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse

CLIENT_ID = "moldau-doctor"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
TOPIC_KEYS = ("min.insync.replicas", "message.timestamp.type")
BROKER_KEYS = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")

CERTIFICATE_FAULTS = (
    ("mismatch", Reach.HOST_NAME),
    ("has expired", Reach.EXPIRED),
    ("not yet valid", Reach.EXPIRED),
    ("issuer", Reach.AUTHORITY),
    ("self-signed", Reach.AUTHORITY),
    ("self signed", Reach.AUTHORITY),
    ("unable to verify", Reach.AUTHORITY),
)
"""OpenSSL's words for what is wrong with a broker's certificate."""


def gather(
    bootstrap: str,
    addresses: list[tuple[str, int]],
    settings: Mapping[str, str],
    *,
    timeout_ms: int,
    rebalance_ms: int,
    profile: Profile | None = None,
) -> Evidence:
    """Everything that can be seen. `rebalance_ms` lies between two looks at a rebalance; of a
    profile the settings are asked for that it has rules for."""
    seen = Evidence(bootstrap, now_ms=now_ms())
    security = ConnectionSecurity.of(AdminConfig.parse(settings)[0])
    asyncio.run(_look(seen, addresses, timeout_ms, security))
    reached = [each for each in seen.broker_probes.values() if each.is_kafka]
    if not reached or seen.cluster is None:
        return seen
    # Brokers under their advertised addresses: others would only cost time.
    servers = ",".join(str(each) for each in reached)
    config = {
        **settings,
        "bootstrap.servers": servers,
        "client.id": settings.get("client.id", CLIENT_ID),
        "default.api.timeout.ms": str(timeout_ms),
        "request.timeout.ms": str(timeout_ms),
    }
    with Admin(config) as admin:
        _Questions(admin, seen, seen.cluster, timeout_ms, rebalance_ms, profile).ask_all()
    return seen


async def _look(
    seen: Evidence,
    addresses: list[tuple[str, int]],
    timeout_ms: int,
    security: ConnectionSecurity | None,
) -> None:
    """Reach the bootstrap servers, hear who the brokers are, and reach those."""
    timeout_s = timeout_ms / 1000
    wants_tls = security is not None and security.context is not None
    probes = await asyncio.gather(
        *(probe(host, port, timeout_s, wants_tls=wants_tls) for host, port in addresses)
    )
    for each in probes:
        found, sight = await _sight(each, timeout_ms, security)
        seen.probes.append(found)
        if sight is not None:
            seen.cluster_ids[str(each)] = sight.cluster_id
            seen.cluster = seen.cluster or sight
    if seen.cluster is None:
        return
    known = {(each.host, each.port): each for each in seen.probes}
    for broker in seen.cluster.brokers:
        found = known.get((broker.host, broker.port)) or await probe(
            broker.host, broker.port, timeout_s, wants_tls=wants_tls
        )
        found, sight = await _sight(found, timeout_ms, security, with_topics=False)
        seen.broker_probes[broker.id] = found
        if sight is not None:
            seen.broker_cluster_ids[broker.id] = sight.cluster_id


async def _sight(
    at: Probe, timeout_ms: int, security: ConnectionSecurity | None, *, with_topics: bool = True
) -> tuple[Probe, ClusterSight | None]:
    """The cluster as the broker at this address tells it."""
    if not at.is_kafka:
        return at, None
    try:
        connection = await open_connection(
            lambda: Connection(str(at), client_id=CLIENT_ID, request_timeout_ms=timeout_ms),
            at.host,
            at.port,
            timeout_ms=timeout_ms,
            security=security,
        )
    except AuthenticationError as fault:
        return at._replace(reach=refused_reach(fault), detail=fault.message), None
    except (DisconnectError, KafkaTimeoutError) as fault:
        return at._replace(reach=Reach.CLOSED, detail=fault.message), None
    try:
        request = MetadataRequest(
            topics=None if with_topics else [], allow_auto_topic_creation=False
        )
        return at, cluster_sight(await connection.send(request, timeout_ms=timeout_ms))
    except KafkaTimeoutError as fault:
        return at._replace(reach=Reach.SILENT, detail=fault.message), None
    except DisconnectError:
        return at._replace(reach=Reach.LOGIN), None
    finally:
        await connection.close()


def refused_reach(fault: AuthenticationError) -> Reach:
    """Why a handshake or a log-in failed, by what the TLS library and the broker say of it."""
    said = fault.message.lower()
    if isinstance(fault, SslAuthenticationError):
        return next((reach for word, reach in CERTIFICATE_FAULTS if word in said), Reach.HANDSHAKE)
    return Reach.MECHANISM if "not offer the mechanism" in said else Reach.CREDENTIALS


def cluster_sight(answer: MetadataResponse) -> ClusterSight:
    return ClusterSight(
        answer.cluster_id or "",
        answer.controller_id,
        tuple(BrokerSight(row.node_id, row.host, row.port) for row in answer.brokers),
        tuple(
            TopicSight(
                row.name or "",
                row.is_internal,
                tuple(
                    PartitionSight(
                        each.partition_index,
                        each.leader_id,
                        tuple(each.replica_nodes),
                        tuple(each.isr_nodes),
                    )
                    for each in sorted(row.partitions, key=lambda each: each.partition_index)
                ),
            )
            for row in sorted(answer.topics, key=lambda row: row.name or "")
        ),
    )


CLOCKS_UNTOLD = (
    "clocks, because brokers on ZooKeeper tell nobody their time; compare `date` on the machines"
    " (records from the future are looked for all the same)"
)


@dataclass
class _Questions:
    """What the admin client is asked, one subject per method."""

    _admin: Admin
    _seen: Evidence
    _cluster: ClusterSight
    _timeout_ms: int
    _rebalance_ms: int
    _profile: Profile | None = None

    def __post_init__(self) -> None:
        self._reachable = {
            broker for broker, each in self._seen.broker_probes.items() if each.is_kafka
        }

    def ask_all(self) -> None:
        self._try("the clock", self._clock)
        self._try("settings", self._settings)
        if self._profile is not None:
            self._try("the profile's settings", self._profile_settings)
        self._try("offsets", self._offsets)
        away = [each for each in self._seen.broker_probes if each not in self._reachable]
        if away:
            self._seen.unchecked.append(
                "groups, transactions and log directories, because they are spread over all brokers"
                f" and {few(away)} cannot be reached"
            )
            return
        self._try("groups", self._groups)
        self._try("transactions", self._transactions)
        self._try("log directories", self._log_dirs)

    def _try(self, subject: str, question: Callable[[], None]) -> None:
        try:
            question()
        except KafkaError as fault:
            self._seen.not_checked(subject, fault.message)

    def _clock(self) -> None:
        """The leader of the metadata tells its own time as the last it has caught up with itself:
        the one question whose answer has a clock in it and that changes nothing (KIP-836)."""
        before, begun = now_ms(), time.monotonic()
        try:
            quorum = self._admin.describe_metadata_quorum(timeout=self._timeout_ms / 1000)
        except UnsupportedVersionError:
            self._seen.unchecked.append(CLOCKS_UNTOLD)
            return
        took_ms = int((time.monotonic() - begun) * 1000)
        for row in quorum.voters:
            if row.replica_id == quorum.leader_id and row.last_caught_up_timestamp > 0:
                ahead = row.last_caught_up_timestamp - (before + took_ms // 2)
                self._seen.clock = ClockSight(row.replica_id, ahead, took_ms // 2 + 1)

    def _settings(self) -> None:
        names = [topic.name for topic in self._cluster.topics]
        resources = [ConfigResource.topic(name) for name in names]
        if resources:
            found = self._admin.describe_configs(resources, keys=TOPIC_KEYS, raise_errors=False)
            for resource, entries in found.items():
                values = {key: entry.value or "" for key, entry in entries.items()}
                self._seen.min_isr[resource.name] = int(values.get(TOPIC_KEYS[0]) or 1)
                self._seen.timestamp_types[resource.name] = values.get(TOPIC_KEYS[1], "")
        if self._reachable:
            broker = ConfigResource.broker(min(self._reachable))
            entries = self._admin.describe_configs([broker], keys=BROKER_KEYS).check()[broker]
            self._seen.broker_settings = {key: each.value or "" for key, each in entries.items()}

    def _profile_settings(self) -> None:
        assert self._profile is not None
        topics = [ConfigResource.topic(topic.name) for topic in self._cluster.topics]
        brokers = [ConfigResource.broker(broker) for broker in sorted(self._reachable)]
        for resources, settings in ((topics, self._profile.topic), (brokers, self._profile.broker)):
            if not resources:
                continue
            keys = list(settings)
            found = self._admin.describe_configs(resources, keys=keys, raise_errors=False)
            for resource, entries in found.items():
                values = {key: each.value or "" for key, each in entries.items()}
                if resources is topics:
                    self._seen.topic_settings[resource.name] = values
                else:
                    self._seen.settings_by_broker[int(resource.name)] = values
            for resource, error in found.errors.items():
                self._seen.not_checked(f"settings of {resource.name}", error)

    def _offsets(self) -> None:
        partitions = [
            TopicPartition(topic.name, each.partition)
            for topic in self._cluster.topics
            for each in topic.partitions
            if each.leader in self._reachable
        ]
        if not partitions:
            return
        starts = self._listed(partitions, OffsetSpec.EARLIEST)
        ends = self._listed(partitions, OffsetSpec.LATEST)
        stable = self._listed(partitions, OffsetSpec.LATEST, read_committed=True)
        for partition in partitions:
            if partition in starts and partition in ends:
                end = ends[partition][0]
                self._seen.logs[partition] = LogSight(
                    starts[partition][0], end, stable.get(partition, (end, 0))[0]
                )
        filled = [p for p, log in self._seen.logs.items() if log.offset_end > log.offset_start]
        youngest = self._listed(filled, OffsetSpec.MAX_TIMESTAMP)
        for partition, (_, timestamp) in youngest.items():
            log = self._seen.logs[partition]
            self._seen.logs[partition] = log._replace(timestamp_max=timestamp)

    def _listed(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, tuple[int, int]]:
        asked = dict.fromkeys(partitions, spec)
        if not asked:
            return {}
        found = self._admin.list_offsets(asked, read_committed=read_committed, raise_errors=False)
        return {partition: (row.offset, row.timestamp) for partition, row in found.items()}

    def _groups(self) -> None:
        names = [
            row.group_id
            for row in self._admin.list_groups()
            if row.protocol_type in ("", "consumer") or row.type.lower() == "consumer"
        ]
        if not names:
            return
        first = self._admin.describe_groups(names, raise_errors=False)
        moving = [name for name, group in first.items() if group.state in REBALANCING]
        second: dict[str, Any] = {}
        if moving:
            time.sleep(self._rebalance_ms / 1000)
            second = self._admin.describe_groups(moving, raise_errors=False)
        offsets = self._admin.list_group_offsets(names, raise_errors=False)
        for name, group in first.items():
            later = second.get(name, group)
            committed = offsets.get(name, {}).items()
            self._seen.groups.append(
                GroupSight(
                    name,
                    later.state,
                    len(later.members),
                    tuple(len(member.assignment) for member in later.members),
                    is_stuck=later.state in REBALANCING,
                    committed={tp: row.offset for tp, row in committed if row is not None},
                )
            )

    def _transactions(self) -> None:
        held = [p for p, log in self._seen.logs.items() if log.offset_stable < log.offset_end]
        if not held:
            return
        open_ones = [
            (partition, producer)
            for partition, producers in self._admin.describe_producers(
                held, raise_errors=False
            ).items()
            for producer in producers
            if producer.transaction_start_offset >= 0
        ]
        if not open_ones:
            return
        ids = {producer.producer_id for _, producer in open_ones}
        listed = self._admin.list_transactions(producer_ids=ids)
        names = {row.producer_id: row.transactional_id for rows in listed.values() for row in rows}
        states = (
            self._admin.describe_transactions(names.values(), raise_errors=False) if names else {}
        )
        now = now_ms()
        for partition, producer in open_ones:
            name = names.get(producer.producer_id, "")
            state = states.get(name)
            sight = TransactionSight(
                partition,
                producer.producer_id,
                producer.transaction_start_offset,
                max(now - producer.last_timestamp, 0),
            )
            if state is not None and partition in state.partitions:
                sight = sight._replace(
                    open_ms=max(now - state.transaction_start_time_ms, 0),
                    transactional_id=name,
                    timeout_ms=state.transaction_timeout_ms,
                )
            self._seen.transactions.append(sight)

    def _log_dirs(self) -> None:
        for broker, folders in self._admin.describe_log_dirs(raise_errors=False).items():
            for path, row in folders.items():
                error = "" if row.error is None else row.error.message
                self._seen.log_dirs.append(
                    LogDirSight(broker, path, error, row.total_bytes, row.usable_bytes)
                )


def now_ms() -> int:
    return int(time.time() * 1000)
