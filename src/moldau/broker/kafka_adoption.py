"""Taking over the log directories of a stopped Apache Kafka broker: its topics are written into an
embedded metadata store beside the logs, which the next start of a broker finds there.

The logs themselves are not touched, and the metadata appear by one rename when they are complete:
whatever kills an adoption, it can be done again, and no broker starts before that. Topic settings
come from the metadata log of a KRaft broker. ZooKeeper kept them elsewhere: then internal topics,
and those that the cleaner has worked on, are compacted, and all others keep their records for ever
until somebody says otherwise.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from moldau.cluster.tree.tree_layout import lay_out
from moldau.config.broker_config import BrokerConfig
from moldau.handlers.topic_data.topic_auto_creation import new_topic
from moldau.metadata import paths
from moldau.metadata.embedded import FILE_NAME, EmbeddedStore
from moldau.metadata.store import Create, Op, StoreError, Write
from moldau.model.names import NO_TOPIC_ID, BrokerId
from moldau.storage.directories.log_directory import LogDirectory
from moldau.storage.log_files import sync_directory
from moldau.storage.storage_faults import StorageFault

if TYPE_CHECKING:
    from moldau.storage.adoption.found_topics import FoundCluster, FoundTopic

UNFINISHED_NAME = FILE_NAME + ".adopting"
PRODUCER_IDS_BLOCK = 1000
OPS_MAX = 10_000
"""In one write of the store."""


def adopt(log_directories: Sequence[str]) -> FoundCluster:
    """Register what is found; raises StorageFault and leaves nothing behind if that cannot be."""
    from moldau.storage.adoption.found_topics import look_around

    directories = [LogDirectory(path) for path in log_directories]
    for directory in directories:
        if not os.path.isdir(directory.path):
            raise StorageFault("cannot adopt", directory.path, reason="there is no such directory")
    first = directories[0]
    unfinished = first.file(UNFINISHED_NAME)
    locked: list[LogDirectory] = []
    try:
        for directory in directories:
            directory.prepare()
            locked.append(directory)
        if os.path.exists(first.file(FILE_NAME)):
            reason = "a Moldau broker has used this directory before; start it with server-start"
            raise StorageFault("cannot adopt", first.path, reason=reason)
        # An adoption that was killed has left its own.
        _forget(unfinished)
        found = look_around([directory.path for directory in directories])
        asyncio.run(_register(found, unfinished))
        os.rename(unfinished, first.file(FILE_NAME))
        sync_directory(first.path)
    except (OSError, StoreError) as error:
        _forget(unfinished)
        raise StorageFault("cannot adopt", first.path, reason=str(error)) from error
    finally:
        for directory in locked:
            directory.unlock()
    return found


def open_metadata(log_directory: str, cluster_id: str | None) -> EmbeddedStore:
    """The store in a broker's first log directory. Raises StorageFault or StoreError."""
    _refuse_unadopted(log_directory, cluster_id)
    store = EmbeddedStore(os.path.join(log_directory, FILE_NAME))
    store.open()
    return store


def _refuse_unadopted(log_directory: str, cluster_id: str | None) -> None:
    """Before a broker makes metadata of its own: the logs there must not be those of a cluster
    whose metadata it does not have."""
    if os.path.exists(os.path.join(log_directory, FILE_NAME)):
        return
    if os.path.exists(os.path.join(log_directory, UNFINISHED_NAME)):
        reason = "an adoption of its logs was broken off; run `storage adopt` again"
    elif cluster_id is not None:
        reason = f"it belongs to cluster {cluster_id} and the file {FILE_NAME} is not there; if "
        reason += "Apache Kafka has used it, run `storage adopt`, otherwise bring the file back"
    else:
        return
    raise StorageFault("cannot use log directory", log_directory, reason=reason)


def _forget(store_path: str) -> None:
    if os.path.exists(store_path):
        os.unlink(store_path)


async def _register(found: FoundCluster, store_path: str) -> None:
    store = EmbeddedStore(store_path)
    store.open()
    await lay_out(store)
    assert found.meta.node_id is not None
    assert found.meta.cluster_id is not None
    await store.create(paths.CLUSTER_ID, paths.encode_cluster_id(found.meta.cluster_id))
    next_block = -(-found.producer_id_next // PRODUCER_IDS_BLOCK) * PRODUCER_IDS_BLOCK
    if next_block:
        # One more block: ids may have been given out whose producers have written nothing.
        block = paths.ProducerIdBlock(
            found.meta.node_id, next_block, next_block + PRODUCER_IDS_BLOCK - 1
        )
        data = paths.encode_producer_id_block(block)
        await store.multi([Write(paths.PRODUCER_ID_BLOCK, data)])
    ops: list[Op] = []
    for topic in found.topics:
        ops += _topic_ops(topic, found.meta.node_id)
        if len(ops) >= OPS_MAX:
            await store.multi(ops)
            ops = []
    if ops:
        await store.multi(ops)
    await store.close()


def _topic_ops(topic: FoundTopic, node_id: BrokerId) -> Iterator[Op]:
    topic_id = os.urandom(16) if topic.topic_id == NO_TOPIC_ID else topic.topic_id
    defaults, _ = BrokerConfig.parse({})
    needed = new_topic(topic.name, defaults, is_alone=True).configs
    configs = {key: value for key, value in needed.items() if value is not None}
    if topic.configs is not None:
        configs.update(topic.configs)
    elif topic.is_compacted:
        configs["cleanup.policy"] = "compact"
    elif not configs:
        configs = {"retention.ms": "-1", "retention.bytes": "-1"}
    replicas = tuple((node_id,) for _ in topic.leader_epochs)
    yield Create(paths.topic_config_path(topic.name), paths.encode_config(configs))
    node = paths.TopicNode(topic_id, replicas)
    yield Create(paths.topic_path(topic.name), paths.encode_topic(node))
    yield Create(paths.partitions_path(topic.name))
    for number, epoch in enumerate(topic.leader_epochs):
        # A new leadership: no epoch may go back below what the records carry.
        state = paths.PartitionState(node_id, epoch + 1, (node_id,), 0)
        yield Create(paths.partition_path(topic.name, number))
        data = paths.encode_partition_state(state)
        yield Create(paths.partition_state_path(topic.name, number), data)
