"""The number of a broker on ZooKeeper whose settings give it none, as Apache Kafka finds it.

It is the one in the log directories' meta.properties. A new broker takes the next version of
/brokers/seqid, which every write raises, above the numbers that are left to people. Whoever dies
between taking a number and writing it down leaves a gap, never a number for two.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from moldau.broker.machine_environment import Surroundings
from moldau.cluster.tree import tree_layout
from moldau.cluster.tree.metadata_retries import patiently
from moldau.config.broker_config import NO_NUMBER, BrokerConfig
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.storage.directories.meta_properties import read_meta_properties
from moldau.storage.storage_faults import CorruptFile, StorageFault

log = logging.getLogger("kafka.server.KafkaServer")


async def numbered(config: BrokerConfig, around: Surroundings, timers: Timers) -> BrokerConfig:
    """The same settings with the broker's number. Raises StorageFault, StoreError."""
    if config.node_id != NO_NUMBER:
        return config
    number = number_in(config.log_dirs)
    if number is None:
        number = await _next_number(config, around, timers)
        log.info("[KafkaServer id=%d] ZooKeeper has given this broker its number", number)
    return config.numbered(number)


async def _next_number(config: BrokerConfig, around: Surroundings, timers: Timers) -> int:
    store = await around.open_store(config)

    async def take_next() -> int:
        await tree_layout.lay_out(store)
        return await store.set_if_version(paths.BROKER_SEQUENCE, b"")

    try:
        sequence = await patiently(
            take_next,
            clock=around.clock,
            timers=timers,
            timeout_ms=config.zookeeper_connection_timeout_ms,
        )
    finally:
        await store.close()
    return sequence + config.reserved_broker_max_id


def number_in(directories: Sequence[str]) -> int | None:
    """What the log directories know; None if they are new. One that cannot be read at all is
    passed over, as by the rest of the start. Raises StorageFault for a damaged meta.properties:
    another number would be another broker."""
    for directory in directories:
        try:
            found = read_meta_properties(directory)
        except CorruptFile as corrupt:
            raise StorageFault("cannot read", corrupt.path, reason=corrupt.reason) from corrupt
        except StorageFault as fault:
            log.warning("The number of this broker is not looked for there: %s", fault)
            continue
        if found.node_id is not None:
            return found.node_id
    return None
