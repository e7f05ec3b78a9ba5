"""Broker settings: who this broker is, where it listens, and how much it takes from clients."""

from __future__ import annotations

from moldau.config.setting_definition import (
    INT_MAX,
    KIB,
    MIB,
    MINUTE,
    SECOND,
    Long,
    Names,
    Scope,
    Settings,
    setting,
)
from moldau.config.value_checks import address_counts

LEGACY_LISTENER = "Kept from old releases, used only when listeners is not set:"
ONE_LOOP = "one event loop serves all sockets and does the chores"
EVERY_LISTENER = "every listener takes what the controller says, and one event loop answers all"
WAITING_IS_INDEXED = "waiting requests are forgotten the moment they complete"

# Rows stay compact, so that the table can be read as one.
# fmt: off


class NetworkSettings(Settings):
    # Identity
    node_id: int = setting(
        "node.id", -1, at_least=-1,
        doc="Number of this broker, unique in the cluster; the newer name of broker.id.")
    broker_id: int = setting(
        "broker.id", -1, at_least=-1,
        doc="Number of this broker, unique in the cluster; a broker without ZooKeeper that "
            "is given none is number 0.")
    broker_id_generation_enable: bool = setting(
        "broker.id.generation.enable", True,
        doc="Let ZooKeeper hand out a number above reserved.broker.max.id when none is set; the "
            "broker keeps it in meta.properties.")
    reserved_broker_max_id: int = setting(
        "reserved.broker.max.id", 1000, at_least=0,
        doc="Highest number that people may give a broker on ZooKeeper while "
            "broker.id.generation.enable is true; generated numbers start above it.")
    broker_rack: str | None = setting(
        "broker.rack",
        doc="Rack or zone of this broker; replicas of a partition are spread over racks.")

    # Listeners
    listeners: Names = setting(
        "listeners", ("PLAINTEXT://:9092",), scope=Scope.PER_BROKER,
        doc="Comma-separated NAME://host:port to listen on; an empty host means all interfaces, "
            "port 0 a free one.")
    advertised_listeners: Names | None = setting(
        "advertised.listeners",
        doc="NAME://host:port that clients are told to connect to, per listener; without it they "
            "are told what listeners says.")
    listener_security_protocol_map: str = setting(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        scope=Scope.PER_BROKER,
        doc="NAME:PROTOCOL pairs that say which security protocol each listener name speaks.")
    inter_broker_listener_name: str | None = setting(
        "inter.broker.listener.name",
        doc="Listener over which brokers talk to one another; without it, the one whose name or "
            "protocol is security.inter.broker.protocol.")
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol", "PLAINTEXT",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="Security protocol between brokers; set this or inter.broker.listener.name, not both.")
    control_plane_listener_name: str | None = setting(
        "control.plane.listener.name", no_effect=EVERY_LISTENER,
        doc="Listener kept for what the controller says to brokers, so that data requests never "
            "delay it.")
    early_start_listeners: Names | None = setting(
        "early.start.listeners",
        no_effect="every listener opens once the broker is ready to answer",
        doc="Listeners to open before the authorizer is ready.")
    port: int = setting(
        "port", 9092, at_least=0, at_most=65535, hidden=True,
        doc=f"{LEGACY_LISTENER} the port to listen on.")
    host_name: str = setting(
        "host.name", "", hidden=True,
        doc=f"{LEGACY_LISTENER} the address to listen on, empty for all interfaces.")
    advertised_host_name: str | None = setting(
        "advertised.host.name", hidden=True,
        doc="Kept from old releases, used only when advertised.listeners is not set: the host "
            "that clients are told.")
    advertised_port: int | None = setting(
        "advertised.port", at_least=0, at_most=65535, hidden=True,
        doc="Kept from old releases, used only when advertised.listeners is not set: the port "
            "that clients are told.")

    # Sockets
    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes", 400 * KIB, at_least=-1,
        doc="Send buffer of a client connection; -1 leaves it to the kernel, which is better over "
            "links with a long round trip and slower on a local network.")
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes", -1, at_least=-1,
        doc="Receive buffer of a client connection; -1 lets the kernel grow it with the traffic, "
            "which large produce requests need.")
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes", 100 * MIB, at_least=1,
        doc="A connection that announces a larger request is closed.")
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size", 50, at_least=1,
        doc="Connections that may wait to be accepted on a listener.")
    max_connections: int = setting(
        "max.connections", INT_MAX, at_least=0, scope=Scope.CLUSTER,
        doc="Connections that are open at one time; as listener.name.<name>.max.connections, on "
            "that listener.")
    max_connections_per_ip: int = setting(
        "max.connections.per.ip", INT_MAX, at_least=0, scope=Scope.CLUSTER,
        doc="Connections that one client address may have open.")
    max_connections_per_ip_overrides: str = setting(
        "max.connections.per.ip.overrides", "", check=address_counts, scope=Scope.CLUSTER,
        doc="Exceptions to max.connections.per.ip as host:count,host:count.")
    max_connection_creation_rate: int = setting(
        "max.connection.creation.rate", INT_MAX, at_least=0, scope=Scope.CLUSTER,
        doc="New connections accepted per second, on average over quota.window.num samples; the "
            "rest wait in the backlog.")
    connections_max_idle_ms: Long = setting(
        "connections.max.idle.ms", 10 * MINUTE, aliases=("conntions.max.idle.ms",),
        doc="A connection on which nothing happened for this long is closed.")
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms", 100, at_least=0,
        doc="Wait before closing a connection that failed to authenticate, to slow down guessing.")

    # Requests
    num_network_threads: int = setting(
        "num.network.threads", 3, at_least=1, scope=Scope.CLUSTER, no_effect=ONE_LOOP,
        doc="Threads that read requests and send answers.")
    num_io_threads: int = setting(
        "num.io.threads", 8, at_least=1, scope=Scope.CLUSTER,
        doc="Threads for work that may block on a disk: flushing, recovery, cleaning.")
    background_threads: int = setting(
        "background.threads", 10, at_least=1, scope=Scope.CLUSTER, no_effect=ONE_LOOP,
        doc="Threads for periodic chores such as deleting old files.")
    queued_max_requests: int = setting(
        "queued.max.requests", 500, at_least=1, aliases=("queued.max_requests",),
        doc="Requests read but not yet answered, over all connections; beyond it nothing more is "
            "read.")
    queued_max_request_bytes: Long = setting(
        "queued.max.request.bytes", -1,
        doc="Bytes of requests longer than 64 KiB that are read but not yet answered, over all "
            "connections; -1 sets no bound besides the number of requests.")
    queued_max_response_bytes: Long = setting(
        "queued.max.response.bytes", 128 * MIB, at_least=1 * MIB,
        doc="Moldau's own: bytes of long answers that clients have not taken yet, over all "
            "connections; beyond it the connection with the most of them is closed, beyond half "
            "of it those that take nothing.")
    request_timeout_ms: int = setting(
        "request.timeout.ms", 30 * SECOND, at_least=0,
        doc="How long this broker waits for another broker's answer.")
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit", 2000, at_least=1,
        doc="Partitions that one DescribeTopicPartitions answer may carry.")
    socket_connection_setup_timeout_ms: Long = setting(
        "socket.connection.setup.timeout.ms", 10 * SECOND,
        doc="First limit on the time to connect to another broker; grows with each failure.")
    socket_connection_setup_timeout_max_ms: Long = setting(
        "socket.connection.setup.timeout.max.ms", 30 * SECOND,
        doc="Longest limit on the time to connect to another broker.")

    # Fetching
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", 55 * MIB, at_least=1024,
        doc="Most bytes in one answer to a Fetch, whatever the client asked for.")
    max_incremental_fetch_session_cache_slots: int = setting(
        "max.incremental.fetch.session.cache.slots", 1000, at_least=0,
        doc="Fetch sessions remembered; clients without one send their whole partition list.")
    fetch_purgatory_purge_interval_requests: int = setting(
        "fetch.purgatory.purge.interval.requests", 1000, no_effect=WAITING_IS_INDEXED,
        doc="Completed fetches between two sweeps of those that wait.")
    producer_purgatory_purge_interval_requests: int = setting(
        "producer.purgatory.purge.interval.requests", 1000, no_effect=WAITING_IS_INDEXED,
        doc="Completed produce requests between two sweeps of those that wait.")
    delete_records_purgatory_purge_interval_requests: int = setting(
        "delete.records.purgatory.purge.interval.requests", 1, no_effect=WAITING_IS_INDEXED,
        doc="Completed DeleteRecords requests between two sweeps of those that wait.")
    share_fetch_purgatory_purge_interval_requests: int = setting(
        "share.fetch.purgatory.purge.interval.requests", 1000, no_effect=WAITING_IS_INDEXED,
        doc="Completed share fetches between two sweeps of those that wait.")
    replica_selector_class: str | None = setting(
        "replica.selector.class",
        doc="How a replica near the consumer is chosen; a class name that ends in "
            "RackAwareReplicaSelector chooses by rack, anything else the leader.")
