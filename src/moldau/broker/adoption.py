"""Taking over the log directories of a stopped Apache Kafka broker: its topics are written into an
embedded metadata store beside the logs, which the next start of a broker finds there.

The logs themselves are not touched. Topic settings come from the metadata log of a KRaft broker.
ZooKeeper kept them elsewhere: then internal topics, and those that the cleaner has worked on, are
compacted, and all others keep their records for ever until somebody says otherwise.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence

from moldau.config.broker import BrokerConfig
from moldau.controller.candidacy import lay_out
from moldau.handlers.auto_topics import new_topic
from moldau.metadata import paths
from moldau.metadata.embedded import FILE_NAME, EmbeddedStore
from moldau.metadata.store import Create, Op, StoreError, Write
from moldau.model.names import NO_TOPIC_ID, BrokerId
from moldau.storage.faults import StorageFault
from moldau.storage.found_topics import FoundCluster, FoundTopic, look_around
from moldau.storage.log_directory import LogDirectory

PRODUCER_IDS_BLOCK = 1000
OPS_MAX = 10_000
"""In one write of the store."""


def adopt(log_directories: Sequence[str]) -> FoundCluster:
    """Register what is found; raises StorageFault and leaves nothing behind if that cannot be."""
    directories = [LogDirectory(path) for path in log_directories]
    for directory in directories:
        if not os.path.isdir(directory.path):
            raise StorageFault("cannot adopt", directory.path, reason="there is no such directory")
    store_path = os.path.join(directories[0].path, FILE_NAME)
    if os.path.exists(store_path):
        reason = "a Moldau broker has used this directory before; start it with server-start"
        raise StorageFault("cannot adopt", directories[0].path, reason=reason)
    locked: list[LogDirectory] = []
    try:
        for directory in directories:
            directory.prepare()
            locked.append(directory)
        found = look_around([directory.path for directory in directories])
        asyncio.run(_register(found, store_path))
    except (OSError, StoreError) as error:
        _forget(store_path)
        raise StorageFault("cannot adopt", directories[0].path, reason=str(error)) from error
    finally:
        for directory in locked:
            directory.unlock()
    return found


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
    needed = new_topic(topic.name, defaults, 1).configs
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
