"""Every command: where it is and what it does. Importing this imports none of them."""

from __future__ import annotations

COMMANDS = {
    "init": ("moldau.cli.servers.init", "lay out scripts, settings and examples in a folder"),
    "server-start": ("moldau.cli.servers.server_start", "start a broker"),
    "server-stop": ("moldau.cli.servers.server_stop", "stop the brokers that run on this machine"),
    "zookeeper-server-start": ("moldau.cli.zookeeper.zookeeper_server_start", "start a ZooKeeper"),
    "zookeeper-server-stop": (
        "moldau.cli.zookeeper.zookeeper_server_stop",
        "stop the ZooKeeper servers that run on this machine",
    ),
    "zookeeper-server-status": (
        "moldau.cli.zookeeper.zookeeper_server_status",
        "show whether ZooKeeper leads, follows or stands alone",
    ),
    "zookeeper-security-migration": (
        "moldau.cli.zookeeper.zookeeper_security_migration",
        "protect a cluster's nodes in ZooKeeper, or open them again",
    ),
    "zookeeper-shell": ("moldau.cli.zookeeper.zookeeper_shell", "look into ZooKeeper"),
    "topics": ("moldau.cli.topics.topics", "create, list, describe, alter and delete topics"),
    "configs": (
        "moldau.cli.servers.configs",
        "show and change settings of topics, brokers and groups",
    ),
    "client-metrics": (
        "moldau.cli.servers.client_metrics",
        "say which metrics clients are to push",
    ),
    "acls": ("moldau.cli.security.acls", "allow and deny, and show what is allowed"),
    "delegation-tokens": (
        "moldau.cli.security.delegation_tokens",
        "create, renew, expire and show delegation tokens",
    ),
    "console-producer": ("moldau.cli.records.console_producer", "send lines as records"),
    "console-consumer": ("moldau.cli.records.console_consumer", "print records as they arrive"),
    "cat": ("moldau.cli.records.cat", "print records in a short form, as kcat does"),
    "put": ("moldau.cli.records.put", "send lines or files in a short form, as kcat does"),
    "consumer-groups": ("moldau.cli.groups.consumer_groups", "show lag, reset and delete groups"),
    "sql": ("moldau.cli.records.sql", "ask a cluster in SQL: every topic is a table"),
    "get-offsets": ("moldau.cli.records.get_offsets", "show offsets of partitions"),
    "delete-records": ("moldau.cli.records.delete_records", "cut the beginning off partitions"),
    "log-dirs": ("moldau.cli.files.log_dirs", "show the size of partitions on disk"),
    "dump-log": ("moldau.cli.files.dump_log", "show what is in the files of a log"),
    "log-scrub": (
        "moldau.cli.files.log_scrub",
        "read closed segments again and name what is damaged",
    ),
    "storage": ("moldau.cli.files.storage", "serve what Apache Kafka has left in its directories"),
    "security": ("moldau.cli.security.security", "secure a new broker"),
    "groups": ("moldau.cli.groups.groups", "list groups of all kinds"),
    "transactions": ("moldau.cli.groups.transactions", "look at transactions, end hanging ones"),
    "verifiable-producer": ("moldau.cli.records.verifiable_producer", "send numbers, report each"),
    "verifiable-consumer": (
        "moldau.cli.records.verifiable_consumer",
        "read in a group, report all",
    ),
    "producer-perf-test": ("moldau.cli.measuring.producer_perf_test", "measure producing"),
    "consumer-perf-test": ("moldau.cli.measuring.consumer_perf_test", "measure consuming"),
    "e2e-latency": ("moldau.cli.measuring.e2e_latency", "measure latency from end to end"),
    "reassign-partitions": (
        "moldau.cli.topics.reassign_partitions",
        "move partitions to other brokers",
    ),
    "preferred-replica-election": (
        "moldau.cli.topics.preferred_replica_election",
        "old name of leader-election",
    ),
    "leader-election": ("moldau.cli.topics.leader_election", "let replicas lead again"),
    "broker-api-versions": ("moldau.cli.servers.broker_api_versions", "show what brokers serve"),
    "cluster": ("moldau.cli.servers.cluster", "show the cluster's id and brokers"),
    "console": ("moldau.cli.servers.console", "show a cluster in the browser"),
    "doctor": ("moldau.cli.doctor", "say what is wrong with a cluster, and what mends it"),
    "top": ("moldau.cli.top.top", "show a cluster on one screen, as it is now"),
    "features": ("moldau.cli.servers.features", "show which features are in force"),
    "snapshot": (
        "moldau.cli.snapshots.snapshot",
        "keep what a broker holds at this moment",
    ),
    "fork": (
        "moldau.cli.snapshots.fork",
        "start a broker that begins with what another one holds",
    ),
    "backup": (
        "moldau.cli.backup.backup",
        "keep what a cluster holds in a directory, and prove it",
    ),
    "restore": ("moldau.cli.backup.restore", "bring topics and groups back from a backup"),
    "mirror": ("moldau.cli.mirror.mirror", "repeat topics of another cluster, and change over"),
    "pipeline": ("moldau.cli.pipeline", "look into pipelines on Spark"),
    "jmx": ("moldau.cli.servers.jmx", "print a broker's metrics by the names of MBeans"),
    "run-class": ("moldau.cli.run_class", "run a tool or a demo by its class"),
    "completion": ("moldau.cli.completion", "let the shell complete commands and flags"),
}
"""Every command: its module, which has `run(arguments) -> exit code`, and what it does."""
