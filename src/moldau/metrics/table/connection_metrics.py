"""Metrics of connections, of quotas, and of the session with ZooKeeper."""

from __future__ import annotations

from moldau.metrics.metric_definition import Metric, counter, gauge, quantiles

SOCKETS = "kafka.server:type=socket-server-metrics/"
NETWORK = "kafka.network:type=SocketServer,name="
CHANNEL = "kafka.network:type=RequestChannel,name="
QUOTA = "kafka.server:type=quota/"
EXPIRY = "kafka.server:type=SessionExpireListener,name="

PLACE = ("listener", "networkProcessor")
WHOSE = ("resource", "user", "clientId")
CELLS = "listener cells (`metrics/listener_cells.py`)"
KERNEL = "the kernel, for each connection"
KEEPER = "`ClientQuotaKeeper.used`"
SESSION = "`ZooKeeperStore.cells`"
IDLE = "the thread's processor time (`broker/monitoring/loop_idleness.py`)"


def _total_and_rate(name: str, sentence: str) -> tuple[Metric, Metric]:
    by_second = "The same by the second, in the last minute."
    return (
        counter(f"{SOCKETS}{name}-total", PLACE, sentence, CELLS),
        gauge(f"{SOCKETS}{name}-rate", PLACE, by_second, CELLS),
    )


# Rows stay compact, so that the table can be read as one.
# fmt: off
CONNECTION_METRICS: tuple[Metric, ...] = (
    gauge(NETWORK + "NetworkProcessorAvgIdlePercent", (),
        "Share of the last minute in which the event loop's thread did not run, 0 to 1: one loop "
        "does the work of Kafka's network and request threads.", IDLE),
    gauge(NETWORK + "ExpiredConnectionsKilledCount", (),
        "Connections that ended because their client did not log in again in time.", CELLS),
    gauge("kafka.network:type=Processor,name=IdlePercent", ("networkProcessor",),
        "The idle share of the event loop, as for the broker.", IDLE),
    counter("kafka.network:type=Acceptor,name=AcceptorBlockedPercent", ("listener",),
        "Nanoseconds for which a listener let nobody in because a limit was reached.", CELLS),
    gauge(NETWORK + "MemoryPoolUsed", (),
        "Bytes that long requests hold of queued.max.request.bytes.", "`Server.request_memory`"),
    gauge(NETWORK + "MemoryPoolAvailable", (),
        "Bytes of it that are left; without that limit the largest number there is.",
        "`Server.request_memory`"),
    gauge(CHANNEL + "RequestQueueSize", (),
        "Connections that have sent more than can begin before an earlier answer is there.",
        "`Server.connections`"),
    gauge(CHANNEL + "ResponseQueueSize", (),
        "Connections with answers that the client does not take yet.", "`Server.connections`"),

    gauge(SOCKETS + "connection-count", PLACE, "Open connections.", "`Server.connections`"),
    *_total_and_rate("connection-creation", "Connections that came."),
    *_total_and_rate("connection-close", "Connections that went."),
    *_total_and_rate("successful-authentication", "Log-ins that succeeded."),
    *_total_and_rate("failed-authentication", "Log-ins and handshakes that failed."),
    *_total_and_rate("successful-reauthentication",
        "Log-ins of clients that were known already."),
    *_total_and_rate("failed-reauthentication", "Such log-ins that failed."),
    counter(SOCKETS + "incoming-byte-total", PLACE,
        "Bytes that came, of TLS those on the wire.", KERNEL),
    counter(SOCKETS + "outgoing-byte-total", PLACE,
        "Bytes that clients have taken, so too.", KERNEL),
    gauge(SOCKETS + "expired-connections-killed-count", PLACE,
        "Connections that ended because their client did not log in again in time.", CELLS),
    gauge(SOCKETS + "connections-software",
        ("clientSoftwareName", "clientSoftwareVersion", *PLACE),
        "Open connections by the library that the client says it uses.", "`Server.connections`"),
    gauge(SOCKETS + "connections-tls-info", ("cipher", "protocol", *PLACE),
        "Open connections by how they are encrypted.", "`Server.connections`"),

    gauge(QUOTA + "byte-rate", WHOSE,
        "Bytes per second that a user or client id writes (Produce) or reads (Fetch).", KEEPER,
        only="strimzi"),
    gauge(QUOTA + "request-time", WHOSE,
        "Percent of the event loop's time that it uses (Request).", KEEPER, only="strimzi"),
    gauge(QUOTA + "tokens", WHOSE,
        "Changes of topics that it may still ask for (ControllerMutation).", KEEPER,
        only="strimzi"),
    gauge(QUOTA + "throttle-time", WHOSE,
        "Milliseconds that it would have to wait now.", KEEPER, only="strimzi"),
    *(gauge(f"kafka.server:type={kind}/{name}", ("user", "client-id"), sentence, KEEPER,
        only="confluent")
      for kind, name, sentence in (
        ("Produce", "byte-rate", "Bytes per second that a user or client id writes."),
        ("Produce", "throttle-time", "Milliseconds that it would have to wait now."),
        ("Fetch", "byte-rate", "Bytes per second that a user or client id reads."),
        ("Fetch", "throttle-time", "Milliseconds that it would have to wait now."),
        ("Request", "request-time", "Percent of the event loop's time that it uses."),
        ("Request", "throttle-time", "Milliseconds that it would have to wait now."))),

    gauge(EXPIRY + "SessionState", ("state",),
        "1 for the state that the session with ZooKeeper is in.", SESSION),
    counter(EXPIRY + "ZooKeeperSyncConnectsPerSec", (),
        "Times that the session with ZooKeeper was connected.", SESSION),
    counter(EXPIRY + "ZooKeeperDisconnectsPerSec", (),
        "Times that the connection to ZooKeeper was lost.", SESSION),
    counter(EXPIRY + "ZooKeeperExpiresPerSec", (),
        "Times that the session with ZooKeeper ended, and with it this broker's registration.",
        SESSION),
    counter(EXPIRY + "ZooKeeperAuthFailuresPerSec", (),
        "Times that ZooKeeper refused something to this broker's user.", SESSION),
    quantiles("kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs", (),
        "Milliseconds until ZooKeeper answers.", SESSION),
)
# fmt: on
