"""`moldau.Admin`: one method per administrative request; each blocks until it is done.

The twin of `asyncio_admin.py`, on the background loop of the process. Written by `make docs` from
that file: change it there.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from moldau.client.admin.admin_results import (
    AlterConfig,
    ApiVersionRange,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    ElectionType,
    FeatureMetadata,
    ListedOffset,
    LogDirDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionReassignment,
    QuorumInfo,
    ResourceType,
    Results,
    TopicDescription,
    TopicListing,
    TopicPartitionReplica,
    UpgradeType,
)
from moldau.client.admin.asyncio_admin import Admin as AsyncAdmin
from moldau.client.admin.group_admin_results import (
    GroupDescription,
    GroupListing,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from moldau.client.admin.group_offsets_admin import GroupOffsets
from moldau.client.admin.own.snapshots_admin import SnapshotInfo
from moldau.client.admin.quotas_admin import Entity, QuotaFilter
from moldau.client.admin.security_admin import Acl, AclFilter, ScramCredential, ScramMechanism
from moldau.client.admin.tokens_admin import DelegationToken
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.shared.background_loop import is_inherited, run
from moldau.model.names import TopicPartition

T = TypeVar("T")


class Admin:
    """Administers a cluster; every call blocks until it is done.

    >>> with Admin(bootstrap_servers="localhost:9092") as admin:             # doctest: +SKIP
    ...     admin.create_topics([NewTopic("orders", partitions=3)])

    Settings are Kafka's keys, in a mapping or as keywords with underscores. Threads may share one.
    A call on many things gives `Results`, a dict: it raises the first error of any of them, unless
    `raise_errors=False`; then `.errors` has what failed. Every call takes at most `timeout`
    seconds, without it `default.api.timeout.ms`."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._client = AsyncAdmin(config, **settings)

    def close(self) -> None:
        """Close the connections; what is under way fails. A second time does nothing."""
        if not is_inherited(self._client):
            self._run(self._client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return run(call, self._client)

    # Topics.

    def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, CreatedTopic]:
        """Create topics, or only check that it would work.

        >>> admin.create_topics([NewTopic("orders", partitions=3)])

        A name alone makes a topic with the broker's defaults.
        """
        return self._run(
            self._client.create_topics(
                topics, validate_only=validate_only, raise_errors=raise_errors, timeout=timeout
            )
        )

    def delete_topics(
        self,
        topics: Iterable[str | bytes],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str | bytes, None]:
        """Delete topics by name, or by their 16-byte ids.

        >>> admin.delete_topics(["orders"])
        """
        return self._run(
            self._client.delete_topics(topics, raise_errors=raise_errors, timeout=timeout)
        )

    def list_topics(
        self,
        *,
        include_internal: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicListing]:
        """All topics by name; internal ones only if asked for.

        >>> "orders" in admin.list_topics()
        """
        return self._run(
            self._client.list_topics(include_internal=include_internal, timeout=timeout)
        )

    def describe_topics(
        self,
        topics: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, TopicDescription]:
        """Partitions, leaders and replicas.

        >>> admin.describe_topics(["orders"])["orders"].partitions[0].leader
        """
        return self._run(
            self._client.describe_topics(
                topics,
                include_authorized_operations=include_authorized_operations,
                raise_errors=raise_errors,
                timeout=timeout,
            )
        )

    def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Give topics more partitions; the numbers are totals.

        >>> admin.create_partitions({"orders": 6})
        """
        return self._run(
            self._client.create_partitions(
                totals, validate_only=validate_only, raise_errors=raise_errors, timeout=timeout
            )
        )

    # Settings.

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """The settings in force, all or only `keys`.

        >>> topic = ConfigResource.topic("orders")
        >>> admin.describe_configs([topic])[topic]["retention.ms"].value
        """
        return self._run(
            self._client.describe_configs(
                resources,
                keys=keys,
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
                raise_errors=raise_errors,
                timeout=timeout,
            )
        )

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[AlterConfig] | Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Change single settings and leave the others alone. In a mapping None deletes.

        >>> admin.incremental_alter_configs(
            {ConfigResource.topic("orders"): {"retention.ms": "1000", "segment.bytes": None}}
        )
        """
        return self._run(
            self._client.incremental_alter_configs(
                changes, validate_only=validate_only, raise_errors=raise_errors, timeout=timeout
            )
        )

    def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Replace all settings of each resource: what is not named goes back to its default.

        Prefer `incremental_alter_configs`.
        """
        return self._run(
            self._client.alter_configs(
                configs, validate_only=validate_only, raise_errors=raise_errors, timeout=timeout
            )
        )

    def list_config_resources(
        self,
        types: Iterable[ResourceType] = (),
        *,
        timeout: float | None = None,
    ) -> list[ConfigResource]:
        """What has settings, of these types or of all."""
        return self._run(self._client.list_config_resources(types, timeout=timeout))

    # Offsets of partitions.

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec | int],
        *,
        read_committed: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """Offsets by position (`OffsetSpec.LATEST`) or by timestamp in milliseconds.

            end = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.LATEST})

        With `read_committed` the latest offset is the last stable one.
        """
        return self._run(
            self._client.list_offsets(
                specs, read_committed=read_committed, raise_errors=raise_errors, timeout=timeout
            )
        )

    def delete_records(
        self,
        before: Mapping[TopicPartition, int],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, int]:
        """Delete the records before an offset, -1 for all; the value is the new first offset.

        >>> admin.delete_records({TopicPartition("orders", 0): 1000})
        """
        return self._run(
            self._client.delete_records(before, raise_errors=raise_errors, timeout=timeout)
        )

    # Groups.

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """All groups of all brokers, or those in these states (`"Stable"`) or of these types.

        >>> [group.group_id for group in admin.list_groups(states=["Empty"])]
        """
        return self._run(self._client.list_groups(states=states, types=types, timeout=timeout))

    def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, GroupDescription]:
        """State, members and their partitions. A group that does not exist is "Dead", or
        GroupIdNotFoundError with brokers that can tell.

        >>> for member in admin.describe_groups(["billing"])["billing"].members: ...
        """
        return self._run(
            self._client.describe_groups(
                groups,
                include_authorized_operations=include_authorized_operations,
                raise_errors=raise_errors,
                timeout=timeout,
            )
        )

    def delete_groups(
        self,
        groups: Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Delete groups without members, with their offsets.

        >>> admin.delete_groups(["billing"])
        """
        return self._run(
            self._client.delete_groups(groups, raise_errors=raise_errors, timeout=timeout)
        )

    def remove_members_from_group(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Make static members leave by their group.instance.id, or everybody if None is given;
        then the results are by member id.

        >>> admin.remove_members_from_group("billing", ["worker-1"])
        """
        return self._run(
            self._client.remove_members_from_group(
                group_id, instance_ids, reason=reason, raise_errors=raise_errors, timeout=timeout
            )
        )

    # Offsets of groups.

    def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, GroupOffsets]:
        """What groups have committed, everything or for the partitions named per group. A
        partition without a commit is None.

            offsets = admin.list_group_offsets(["billing"])["billing"]

        `require_stable` waits for transactions that may still change an offset.
        """
        return self._run(
            self._client.list_group_offsets(
                groups, require_stable=require_stable, raise_errors=raise_errors, timeout=timeout
            )
        )

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Set the committed offsets of a group that has no members.

        >>> admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        """
        return self._run(
            self._client.alter_group_offsets(
                group_id, offsets, raise_errors=raise_errors, timeout=timeout
            )
        )

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Forget commits of partitions whose topics no member is subscribed to.

        >>> admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])
        """
        return self._run(
            self._client.delete_group_offsets(
                group_id, partitions, raise_errors=raise_errors, timeout=timeout
            )
        )

    # Transactions.

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, list[ProducerState]]:
        """The producers that a partition's leader remembers, or the replica on `broker_id`.

        >>> admin.describe_producers([TopicPartition("orders", 0)])
        """
        return self._run(
            self._client.describe_producers(
                partitions, broker_id=broker_id, raise_errors=raise_errors, timeout=timeout
            )
        )

    def describe_transactions(
        self,
        transactional_ids: Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, TransactionDescription]:
        """State, producer and partitions of each.

        >>> admin.describe_transactions(["billing-1"])["billing-1"].state
        """
        return self._run(
            self._client.describe_transactions(
                transactional_ids, raise_errors=raise_errors, timeout=timeout
            )
        )

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration: float | None = None,
        id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """The transactions of each coordinator by its node id, filtered where asked: by state
        (`"Ongoing"`), producer id, longer open than `duration_ms`, or a pattern of the id.

        >>> admin.list_transactions(states=["Ongoing"])
        """
        return self._run(
            self._client.list_transactions(
                states=states,
                producer_ids=producer_ids,
                duration=duration,
                id_pattern=id_pattern,
                timeout=timeout,
            )
        )

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker by hand, for a transaction that hangs in one partition: one that
        `describe_producers` shows and no coordinator knows. See `moldau transactions`.
        """
        self._run(
            self._client.abort_transaction(
                partition, producer_id, producer_epoch, coordinator_epoch, timeout=timeout
            )
        )

    def fence_producers(
        self,
        transactional_ids: Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, ProducerIdAndEpoch]:
        """Abort what these producers have open, and refuse whatever they send from now on.

        >>> admin.fence_producers(["billing-1"])
        """
        return self._run(
            self._client.fence_producers(
                transactional_ids, raise_errors=raise_errors, timeout=timeout
            )
        )

    def force_terminate_transaction(
        self,
        transactional_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """End whatever this id has open, its producer with it."""
        self._run(self._client.force_terminate_transaction(transactional_id, timeout=timeout))

    # Replicas.

    def elect_leaders(
        self,
        election: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect leaders of these partitions, or of all for which it would change something.

        >>> admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("orders", 0)])

        ElectionNotNeededError means that the right replica leads already.
        """
        return self._run(
            self._client.elect_leaders(
                election, partitions, raise_errors=raise_errors, timeout=timeout
            )
        )

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Start to move partitions to these brokers; None cancels a move.

        >>> admin.alter_partition_reassignments({TopicPartition("orders", 0): [2, 3]})
        """
        return self._run(
            self._client.alter_partition_reassignments(
                targets,
                allow_replication_factor_change=allow_replication_factor_change,
                raise_errors=raise_errors,
                timeout=timeout,
            )
        )

    def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way, of all partitions or of these."""
        return self._run(self._client.list_partition_reassignments(partitions, timeout=timeout))

    def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[int, dict[str, LogDirDescription]]:
        """Log directories by broker and path, with the size of every replica, or of some.

        >>> for path, directory in admin.describe_log_dirs([0])[0].items(): ...
        """
        return self._run(
            self._client.describe_log_dirs(
                broker_ids, partitions=partitions, raise_errors=raise_errors, timeout=timeout
            )
        )

    def alter_replica_log_dirs(
        self,
        targets: Mapping[TopicPartitionReplica, str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas into other log directories of their broker.

        >>> admin.alter_replica_log_dirs({TopicPartitionReplica("orders", 0, 1): "/disk2"})
        """
        return self._run(
            self._client.alter_replica_log_dirs(targets, raise_errors=raise_errors, timeout=timeout)
        )

    # The cluster.

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """Cluster id, brokers and controller.

        >>> [f"{node.host}:{node.port}" for node in admin.describe_cluster().nodes]
        """
        return self._run(
            self._client.describe_cluster(
                include_authorized_operations=include_authorized_operations,
                include_fenced_brokers=include_fenced_brokers,
                timeout=timeout,
            )
        )

    def api_versions(
        self,
        node_id: int | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, ApiVersionRange]:
        """The requests that a broker serves, by API key, with their versions.

        >>> admin.api_versions(0)[1].max_version    # of Fetch
        """
        return self._run(self._client.api_versions(node_id, timeout=timeout))

    def describe_features(
        self,
        node_id: int | None = None,
        *,
        timeout: float | None = None,
    ) -> FeatureMetadata:
        """Features in force and those that a broker supports."""
        return self._run(self._client.describe_features(node_id, timeout=timeout))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Bring features to these levels; 0 switches one off.

        >>> admin.update_features({"transaction.version": 2})
        """
        return self._run(
            self._client.update_features(
                levels,
                upgrade_type=upgrade_type,
                validate_only=validate_only,
                raise_errors=raise_errors,
                timeout=timeout,
            )
        )

    def unregister_broker(
        self,
        broker_id: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Forget a broker that will not come back."""
        self._run(self._client.unregister_broker(broker_id, timeout=timeout))

    def describe_metadata_quorum(
        self,
        *,
        timeout: float | None = None,
    ) -> QuorumInfo:
        """Leader, voters and observers of the controllers' log, where the cluster has one."""
        return self._run(self._client.describe_metadata_quorum(timeout=timeout))

    # Who may do what.

    def describe_acls(
        self,
        matching: AclFilter = AclFilter(),  # noqa: B008 (immutable)
        *,
        timeout: float | None = None,
    ) -> list[Acl]:
        """The access control lists that match, all by default.

        >>> admin.describe_acls(AclFilter(principal="User:alice"))
        """
        return self._run(self._client.describe_acls(matching, timeout=timeout))

    def create_acls(
        self,
        acls: Iterable[Acl],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[Acl, None]:
        """Allow or deny.

        >>> admin.create_acls(
            [Acl("User:alice", AclResourceType.TOPIC, "orders", AclOperation.READ)]
        )
        """
        return self._run(self._client.create_acls(acls, raise_errors=raise_errors, timeout=timeout))

    def delete_acls(
        self,
        filters: Iterable[AclFilter],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[AclFilter, list[Acl]]:
        """Delete what matches; the values are what was deleted.

        >>> admin.delete_acls([AclFilter(principal="User:alice")])
        """
        return self._run(
            self._client.delete_acls(filters, raise_errors=raise_errors, timeout=timeout)
        )

    def describe_user_scram_credentials(
        self,
        users: Iterable[str] | None = None,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, list[ScramCredential]]:
        """The mechanisms by which users can log in, of these users or of all."""
        return self._run(
            self._client.describe_user_scram_credentials(
                users, raise_errors=raise_errors, timeout=timeout
            )
        )

    def upsert_user_scram_credential(
        self,
        user: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
        iterations: int = 4096,
        salt: bytes | None = None,
        timeout: float | None = None,
    ) -> None:
        """Set a user's password for one mechanism.

        >>> admin.upsert_user_scram_credential("alice", "secret")
        """
        self._run(
            self._client.upsert_user_scram_credential(
                user,
                password,
                mechanism=mechanism,
                iterations=iterations,
                salt=salt,
                timeout=timeout,
            )
        )

    def delete_user_scram_credential(
        self,
        user: str,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
        *,
        timeout: float | None = None,
    ) -> None:
        """Let the user log in by this mechanism no more."""
        self._run(self._client.delete_user_scram_credential(user, mechanism, timeout=timeout))

    # Quotas.

    def describe_client_quotas(
        self,
        filters: Iterable[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[Entity, dict[str, float]]:
        """Quotas by whom they limit. `strict` leaves out entities with further parts.

        >>> admin.describe_client_quotas([QuotaFilter("user", QuotaMatch.EXACT, "alice")])
        """
        return self._run(
            self._client.describe_client_quotas(filters, strict=strict, timeout=timeout)
        )

    def alter_client_quotas(
        self,
        changes: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[Entity, None]:
        """Set quotas; None removes one.

        >>> admin.alter_client_quotas({(("user", "alice"),): {"producer_byte_rate": 1e6}})
        """
        return self._run(
            self._client.alter_client_quotas(
                changes, validate_only=validate_only, raise_errors=raise_errors, timeout=timeout
            )
        )

    # Delegation tokens.

    def create_delegation_token(
        self,
        *,
        renewers: Iterable[str] = (),
        owner: str | None = None,
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """A token for who is logged in, or for `owner`; -1 is the broker's lifetime.

        >>> admin.create_delegation_token(renewers=["User:alice"]).token_id
        """
        return self._run(
            self._client.create_delegation_token(
                renewers=renewers, owner=owner, max_lifetime=max_lifetime, timeout=timeout
            )
        )

    def renew_delegation_token(
        self,
        hmac: bytes,
        *,
        period: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """When the token will expire now."""
        return self._run(self._client.renew_delegation_token(hmac, period=period, timeout=timeout))

    def expire_delegation_token(
        self,
        hmac: bytes,
        *,
        period: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """When the token will expire now; -1 ends it at once."""
        return self._run(self._client.expire_delegation_token(hmac, period=period, timeout=timeout))

    def describe_delegation_tokens(
        self,
        owners: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> list[DelegationToken]:
        """The tokens of these principals, or all that one may see."""
        return self._run(self._client.describe_delegation_tokens(owners, timeout=timeout))

    # Snapshots.

    def create_snapshot(self, name: str, *, timeout: float | None = None) -> SnapshotInfo:
        """What the broker holds at this moment, kept on its disks; only of a Moldau broker.

        >>> admin.create_snapshot("before-release").size_bytes

        It takes no room of its own until the broker lets go of records. Without `timeout` ten
        minutes are given.
        """
        return self._run(self._client.create_snapshot(name, timeout=timeout))

    def describe_snapshots(self, *, timeout: float | None = None) -> list[SnapshotInfo]:
        """All snapshots that the broker has."""
        return self._run(self._client.describe_snapshots(timeout=timeout))

    def delete_snapshot(self, name: str, *, timeout: float | None = None) -> None:
        """Remove a snapshot; forks of it go on."""
        self._run(self._client.delete_snapshot(name, timeout=timeout))
