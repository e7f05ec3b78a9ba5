"""`moldau.aio.Admin`: one method per administrative request, for asyncio.

Its blocking twin in `blocking_admin.py` is written from this file by `make docs`. What is done
for a request is in `admin_core.py` and the files by subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from moldau.client.admin.admin_core import AdminCore
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
    results,
)
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
from moldau.client.shared.durations import milliseconds
from moldau.model.names import TopicPartition


class Admin:
    """Administers a cluster from asyncio code.

    >>> async with aio.Admin(bootstrap_servers="localhost:9092") as admin:   # doctest: +SKIP
    ...     await admin.create_topics([NewTopic("orders", partitions=3)])

    Settings are Kafka's keys, in a mapping or as keywords with underscores. It belongs to the
    event loop that first uses it. A call on many things gives `Results`, a dict: it raises the
    first error of any of them, unless `raise_errors=False`; then `.errors` has what failed. Every
    call takes at most `timeout` seconds, without it `default.api.timeout.ms`."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._core = AdminCore(config, **settings)

    async def close(self) -> None:
        """Close the connections; what is under way fails. A second time does nothing."""
        await self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *outcome: object) -> None:
        await self.close()

    # Topics.

    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, CreatedTopic]:
        """Create topics, or only check that it would work.

        >>> await admin.create_topics([NewTopic("orders", partitions=3)])

        A name alone makes a topic with the broker's defaults.
        """
        return results(
            await self._core.create_topics(
                topics, validate_only=validate_only, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def delete_topics(
        self,
        topics: Iterable[str | bytes],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str | bytes, None]:
        """Delete topics by name, or by their 16-byte ids.

        >>> await admin.delete_topics(["orders"])
        """
        return results(
            await self._core.delete_topics(topics, timeout_ms=milliseconds(timeout)), raise_errors
        )

    async def list_topics(
        self,
        *,
        include_internal: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicListing]:
        """All topics by name; internal ones only if asked for.

        >>> "orders" in await admin.list_topics()
        """
        return await self._core.list_topics(
            include_internal=include_internal, timeout_ms=milliseconds(timeout)
        )

    async def describe_topics(
        self,
        topics: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, TopicDescription]:
        """Partitions, leaders and replicas.

        >>> (await admin.describe_topics(["orders"]))["orders"].partitions[0].leader
        """
        return results(
            await self._core.describe_topics(
                topics,
                include_authorized_operations=include_authorized_operations,
                timeout_ms=milliseconds(timeout),
            ),
            raise_errors,
        )

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Give topics more partitions; the numbers are totals.

        >>> await admin.create_partitions({"orders": 6})
        """
        return results(
            await self._core.create_partitions(
                totals, validate_only=validate_only, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    # Settings.

    async def describe_configs(
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
        >>> (await admin.describe_configs([topic]))[topic]["retention.ms"].value
        """
        return results(
            await self._core.describe_configs(
                resources,
                keys=keys,
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
                timeout_ms=milliseconds(timeout),
            ),
            raise_errors,
        )

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[AlterConfig] | Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Change single settings and leave the others alone. In a mapping None deletes.

        >>> await admin.incremental_alter_configs(
            {ConfigResource.topic("orders"): {"retention.ms": "1000", "segment.bytes": None}}
        )
        """
        return results(
            await self._core.incremental_alter_configs(
                changes, validate_only=validate_only, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def alter_configs(
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
        return results(
            await self._core.alter_configs(
                configs, validate_only=validate_only, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def list_config_resources(
        self,
        types: Iterable[ResourceType] = (),
        *,
        timeout: float | None = None,
    ) -> list[ConfigResource]:
        """What has settings, of these types or of all."""
        return await self._core.list_config_resources(types, timeout_ms=milliseconds(timeout))

    # Offsets of partitions.

    async def list_offsets(
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
        return results(
            await self._core.list_offsets(
                specs, read_committed=read_committed, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def delete_records(
        self,
        before: Mapping[TopicPartition, int],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, int]:
        """Delete the records before an offset, -1 for all; the value is the new first offset.

        >>> await admin.delete_records({TopicPartition("orders", 0): 1000})
        """
        return results(
            await self._core.delete_records(before, timeout_ms=milliseconds(timeout)), raise_errors
        )

    # Groups.

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
    ) -> list[GroupListing]:
        """All groups of all brokers, or those in these states (`"Stable"`) or of these types.

        >>> [group.group_id for group in await admin.list_groups(states=["Empty"])]
        """
        return await self._core.list_groups(
            states=states, types=types, timeout_ms=milliseconds(timeout)
        )

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, GroupDescription]:
        """State, members and their partitions. A group that does not exist is "Dead", or
        GroupIdNotFoundError with brokers that can tell.

        >>> for member in (await admin.describe_groups(["billing"]))["billing"].members: ...
        """
        return results(
            await self._core.describe_groups(
                groups,
                include_authorized_operations=include_authorized_operations,
                timeout_ms=milliseconds(timeout),
            ),
            raise_errors,
        )

    async def delete_groups(
        self,
        groups: Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Delete groups without members, with their offsets.

        >>> await admin.delete_groups(["billing"])
        """
        return results(
            await self._core.delete_groups(groups, timeout_ms=milliseconds(timeout)), raise_errors
        )

    async def remove_members_from_group(
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

        >>> await admin.remove_members_from_group("billing", ["worker-1"])
        """
        return results(
            await self._core.remove_members_from_group(
                group_id, instance_ids, reason=reason, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    # Offsets of groups.

    async def list_group_offsets(
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
        return results(
            await self._core.list_group_offsets(
                groups, require_stable=require_stable, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Set the committed offsets of a group that has no members.

        >>> await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        """
        return results(
            await self._core.alter_group_offsets(
                group_id, offsets, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Forget commits of partitions whose topics no member is subscribed to.

        >>> await admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])
        """
        return results(
            await self._core.delete_group_offsets(
                group_id, partitions, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    # Transactions.

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, list[ProducerState]]:
        """The producers that a partition's leader remembers, or the replica on `broker_id`.

        >>> await admin.describe_producers([TopicPartition("orders", 0)])
        """
        return results(
            await self._core.describe_producers(
                partitions, broker_id=broker_id, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def describe_transactions(
        self,
        transactional_ids: Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, TransactionDescription]:
        """State, producer and partitions of each.

        >>> (await admin.describe_transactions(["billing-1"]))["billing-1"].state
        """
        return results(
            await self._core.describe_transactions(
                transactional_ids, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def list_transactions(
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

        >>> await admin.list_transactions(states=["Ongoing"])
        """
        return await self._core.list_transactions(
            states=states,
            producer_ids=producer_ids,
            duration_ms=milliseconds(duration, -1),
            id_pattern=id_pattern,
            timeout_ms=milliseconds(timeout),
        )

    async def abort_transaction(
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
        await self._core.abort_transaction(
            partition,
            producer_id,
            producer_epoch,
            coordinator_epoch,
            timeout_ms=milliseconds(timeout),
        )

    async def fence_producers(
        self,
        transactional_ids: Iterable[str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, ProducerIdAndEpoch]:
        """Abort what these producers have open, and refuse whatever they send from now on.

        >>> await admin.fence_producers(["billing-1"])
        """
        return results(
            await self._core.fence_producers(transactional_ids, timeout_ms=milliseconds(timeout)),
            raise_errors,
        )

    async def force_terminate_transaction(
        self,
        transactional_id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """End whatever this id has open, its producer with it."""
        await self._core.force_terminate_transaction(
            transactional_id, timeout_ms=milliseconds(timeout)
        )

    # Replicas.

    async def elect_leaders(
        self,
        election: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect leaders of these partitions, or of all for which it would change something.

        >>> await admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("orders", 0)])

        ElectionNotNeededError means that the right replica leads already.
        """
        return results(
            await self._core.elect_leaders(election, partitions, timeout_ms=milliseconds(timeout)),
            raise_errors,
        )

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Start to move partitions to these brokers; None cancels a move.

        >>> await admin.alter_partition_reassignments({TopicPartition("orders", 0): [2, 3]})
        """
        return results(
            await self._core.alter_partition_reassignments(
                targets,
                allow_replication_factor_change=allow_replication_factor_change,
                timeout_ms=milliseconds(timeout),
            ),
            raise_errors,
        )

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way, of all partitions or of these."""
        return await self._core.list_partition_reassignments(
            partitions, timeout_ms=milliseconds(timeout)
        )

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[int, dict[str, LogDirDescription]]:
        """Log directories by broker and path, with the size of every replica, or of some.

        >>> for path, directory in (await admin.describe_log_dirs([0]))[0].items(): ...
        """
        return results(
            await self._core.describe_log_dirs(
                broker_ids, partitions=partitions, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def alter_replica_log_dirs(
        self,
        targets: Mapping[TopicPartitionReplica, str],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas into other log directories of their broker.

        >>> await admin.alter_replica_log_dirs({TopicPartitionReplica("orders", 0, 1): "/disk2"})
        """
        return results(
            await self._core.alter_replica_log_dirs(targets, timeout_ms=milliseconds(timeout)),
            raise_errors,
        )

    # The cluster.

    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """Cluster id, brokers and controller.

        >>> [f"{node.host}:{node.port}" for node in (await admin.describe_cluster()).nodes]
        """
        return await self._core.describe_cluster(
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
            timeout_ms=milliseconds(timeout),
        )

    async def api_versions(
        self,
        node_id: int | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[int, ApiVersionRange]:
        """The requests that a broker serves, by API key, with their versions.

        >>> (await admin.api_versions(0))[1].max_version    # of Fetch
        """
        return await self._core.api_versions(node_id, timeout_ms=milliseconds(timeout))

    async def describe_features(
        self,
        node_id: int | None = None,
        *,
        timeout: float | None = None,
    ) -> FeatureMetadata:
        """Features in force and those that a broker supports."""
        return await self._core.describe_features(node_id, timeout_ms=milliseconds(timeout))

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Bring features to these levels; 0 switches one off.

        >>> await admin.update_features({"transaction.version": 2})
        """
        return results(
            await self._core.update_features(
                levels,
                upgrade_type=upgrade_type,
                validate_only=validate_only,
                timeout_ms=milliseconds(timeout),
            ),
            raise_errors,
        )

    async def unregister_broker(
        self,
        broker_id: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Forget a broker that will not come back."""
        await self._core.unregister_broker(broker_id, timeout_ms=milliseconds(timeout))

    async def describe_metadata_quorum(
        self,
        *,
        timeout: float | None = None,
    ) -> QuorumInfo:
        """Leader, voters and observers of the controllers' log, where the cluster has one."""
        return await self._core.describe_metadata_quorum(timeout_ms=milliseconds(timeout))

    # Who may do what.

    async def describe_acls(
        self,
        matching: AclFilter = AclFilter(),  # noqa: B008 (immutable)
        *,
        timeout: float | None = None,
    ) -> list[Acl]:
        """The access control lists that match, all by default.

        >>> await admin.describe_acls(AclFilter(principal="User:alice"))
        """
        return await self._core.describe_acls(matching, timeout_ms=milliseconds(timeout))

    async def create_acls(
        self,
        acls: Iterable[Acl],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[Acl, None]:
        """Allow or deny.

        >>> await admin.create_acls(
            [Acl("User:alice", AclResourceType.TOPIC, "orders", AclOperation.READ)]
        )
        """
        return results(
            await self._core.create_acls(acls, timeout_ms=milliseconds(timeout)), raise_errors
        )

    async def delete_acls(
        self,
        filters: Iterable[AclFilter],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[AclFilter, list[Acl]]:
        """Delete what matches; the values are what was deleted.

        >>> await admin.delete_acls([AclFilter(principal="User:alice")])
        """
        return results(
            await self._core.delete_acls(filters, timeout_ms=milliseconds(timeout)), raise_errors
        )

    async def describe_user_scram_credentials(
        self,
        users: Iterable[str] | None = None,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[str, list[ScramCredential]]:
        """The mechanisms by which users can log in, of these users or of all."""
        return results(
            await self._core.describe_user_scram_credentials(
                users, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    async def upsert_user_scram_credential(
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

        >>> await admin.upsert_user_scram_credential("alice", "secret")
        """
        await self._core.upsert_user_scram_credential(
            user,
            password,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            timeout_ms=milliseconds(timeout),
        )

    async def delete_user_scram_credential(
        self,
        user: str,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
        *,
        timeout: float | None = None,
    ) -> None:
        """Let the user log in by this mechanism no more."""
        await self._core.delete_user_scram_credential(
            user, mechanism, timeout_ms=milliseconds(timeout)
        )

    # Quotas.

    async def describe_client_quotas(
        self,
        filters: Iterable[QuotaFilter] = (),
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[Entity, dict[str, float]]:
        """Quotas by whom they limit. `strict` leaves out entities with further parts.

        >>> await admin.describe_client_quotas([QuotaFilter("user", QuotaMatch.EXACT, "alice")])
        """
        return await self._core.describe_client_quotas(
            filters, strict=strict, timeout_ms=milliseconds(timeout)
        )

    async def alter_client_quotas(
        self,
        changes: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Results[Entity, None]:
        """Set quotas; None removes one.

        >>> await admin.alter_client_quotas({(("user", "alice"),): {"producer_byte_rate": 1e6}})
        """
        return results(
            await self._core.alter_client_quotas(
                changes, validate_only=validate_only, timeout_ms=milliseconds(timeout)
            ),
            raise_errors,
        )

    # Delegation tokens.

    async def create_delegation_token(
        self,
        *,
        renewers: Iterable[str] = (),
        owner: str | None = None,
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """A token for who is logged in, or for `owner`; -1 is the broker's lifetime.

        >>> (await admin.create_delegation_token(renewers=["User:alice"])).token_id
        """
        return await self._core.create_delegation_token(
            renewers=renewers,
            owner=owner,
            max_lifetime_ms=milliseconds(max_lifetime, -1),
            timeout_ms=milliseconds(timeout),
        )

    async def renew_delegation_token(
        self,
        hmac: bytes,
        *,
        period: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """When the token will expire now."""
        return await self._core.renew_delegation_token(
            hmac, period_ms=milliseconds(period, -1), timeout_ms=milliseconds(timeout)
        )

    async def expire_delegation_token(
        self,
        hmac: bytes,
        *,
        period: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """When the token will expire now; -1 ends it at once."""
        return await self._core.expire_delegation_token(
            hmac, period_ms=milliseconds(period, -1), timeout_ms=milliseconds(timeout)
        )

    async def describe_delegation_tokens(
        self,
        owners: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> list[DelegationToken]:
        """The tokens of these principals, or all that one may see."""
        return await self._core.describe_delegation_tokens(owners, timeout_ms=milliseconds(timeout))

    # Snapshots.

    async def create_snapshot(self, name: str, *, timeout: float | None = None) -> SnapshotInfo:
        """What the broker holds at this moment, kept on its disks; only of a Moldau broker.

        >>> (await admin.create_snapshot("before-release")).size_bytes

        It takes no room of its own until the broker lets go of records. Without `timeout` ten
        minutes are given.
        """
        return await self._core.create_snapshot(name, timeout_ms=milliseconds(timeout))

    async def describe_snapshots(self, *, timeout: float | None = None) -> list[SnapshotInfo]:
        """All snapshots that the broker has."""
        return await self._core.describe_snapshots(timeout_ms=milliseconds(timeout))

    async def delete_snapshot(self, name: str, *, timeout: float | None = None) -> None:
        """Remove a snapshot; forks of it go on."""
        await self._core.delete_snapshot(name, timeout_ms=milliseconds(timeout))
