"""The broker's loggers, and what Apache Kafka's other versions call them.

Loggers are named as in Kafka 3.9. Version 4 has moved most classes; people have both kinds of names
in their log4j files and in scripts that change levels, so both are understood.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

LOGGERS = (
    "kafka",
    "kafka.authorizer.logger",
    "kafka.cluster.Partition",
    "kafka.common.ZkNodeChangeNotificationListener",
    "kafka.controller",
    "kafka.controller.KafkaController",
    "kafka.controller.RequestSendThread",
    "kafka.coordinator.group.GroupCoordinator",
    "kafka.coordinator.group.GroupMetadataManager",
    "kafka.coordinator.transaction.TransactionCoordinator",
    "kafka.coordinator.transaction.TransactionMarkerChannelManager",
    "kafka.coordinator.transaction.TransactionMarkerRequestCompletionHandler",
    "kafka.log.LocalLog",
    "kafka.log.LogCleaner",
    "kafka.log.LogLoader",
    "kafka.log.LogManager",
    "kafka.log.LogScrubber",
    "kafka.log.ProducerStateManager",
    "kafka.log.UnifiedLog",
    "kafka.network.SocketServer",
    "kafka.request.logger",
    "kafka.security.CredentialProvider",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.server.ClientQuotaManager",
    "kafka.server.DefaultAlterPartitionManager",
    "kafka.server.DelegationTokenManagerZk",
    "kafka.server.DynamicBrokerConfig",
    "kafka.server.KafkaApis",
    "kafka.server.KafkaScheduler",
    "kafka.server.KafkaServer",
    "kafka.server.ReplicaAlterLogDirsThread",
    "kafka.server.ReplicaFetcherManager",
    "kafka.server.ReplicaFetcherThread",
    "kafka.server.ReplicaManager",
    "kafka.server.ZkConfigManager",
    "kafka.server.epoch.LeaderEpochFileCache",
    "kafka.zk.KafkaZkClient",
    "kafka.zookeeper.ZooKeeperClient",
    "org.apache.kafka",
    "org.apache.kafka.clients.NetworkClient",
    "org.apache.kafka.common.network.Selector",
    "org.apache.kafka.common.security.oauthbearer",
    "org.apache.kafka.common.utils.LoggingSignalHandler",
    "state.change.logger",
)
"""Every logger that the broker writes to: they can be set before anything was written."""

OTHER_NAMES = {
    "kafka.log.Cleaner": "kafka.log.LogCleaner",
    "kafka.log.LogCleaner$CleanerThread": "kafka.log.LogCleaner",
    "kafka.log.LogCleanerManager": "kafka.log.LogCleaner",
    "kafka.network.RequestChannel$": "kafka.request.logger",
    "kafka.server.metadata": "kafka.server",
    "org.apache.kafka.controller": "kafka.controller",
    "org.apache.kafka.coordinator": "kafka.coordinator",
    "org.apache.kafka.network": "kafka.network",
    "org.apache.kafka.server": "kafka.server",
    "org.apache.kafka.server.log": "kafka.log",
    "org.apache.kafka.storage.internals.checkpoint": "kafka.log",
    "org.apache.kafka.storage.internals.epoch": "kafka.server.epoch",
    "org.apache.kafka.storage.internals.log": "kafka.log",
    "org.apache.kafka.storage.internals.log.Cleaner": "kafka.log.LogCleaner",
    "org.apache.kafka.storage.internals.log.LogCleaner": "kafka.log.LogCleaner",
    "org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread": "kafka.log.LogCleaner",
    "org.apache.kafka.storage.internals.log.LogCleanerManager": "kafka.log.LogCleaner",
    "org.apache.zookeeper": "kazoo",
    "org.I0Itec.zkclient": "kazoo",
    "org.I0Itec.zkclient.ZkClient": "kazoo",
}
"""Names, or beginnings of names, and what stands for them here; the longest that fits is taken."""


def own_name(name: str) -> str:
    words = name.split(".")
    for count in range(len(words), 0, -1):
        beginning = ".".join(words[:count])
        if beginning in OTHER_NAMES:
            return ".".join((OTHER_NAMES[beginning], *words[count:]))
    return name


def is_known(name: str) -> bool:
    """Whether a level that is set there reaches any line: a logger, or a beginning of some."""
    own = own_name(name)
    return any(known == own or known.startswith(f"{own}.") for known in known_names())


def known_names() -> Iterator[str]:
    yield from LOGGERS
    for name, logger in logging.root.manager.loggerDict.copy().items():
        if isinstance(logger, logging.Logger):
            yield name
