"""Diagnosis of addresses: can the bootstrap servers be reached, and do brokers advertise the truth?

A client connects twice: to a bootstrap address that its owner wrote down, then to the addresses
that the brokers advertise. Most trouble of beginners is in the second step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from moldau.diagnosis.evidence import (
    BrokerSight,
    Evidence,
    Finding,
    Probe,
    Reach,
    Severity,
    address,
    few,
)

WILDCARDS = ("0.0.0.0", "::", "")
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")

BOOTSTRAP: dict[Reach, tuple[str, str, str, str]] = {
    # What it does, what that means, what to do, the command.
    Reach.UNRESOLVED: (
        "the name {host} cannot be resolved",
        "The name is misspelt, or no DNS or hosts file on this machine knows it ({detail}).",
        "Use a name that resolves here, or an IP address.",
        "getent hosts {host}",
    ),
    Reach.REFUSED: (
        "{at} refuses connections",
        "No broker listens on port {port} of {host}: it is not running, listens on another port,"
        " or only on another interface (see `listeners`).",
        "Start the broker, or name the port it listens on.",
        "moldau server-start --override listeners=PLAINTEXT://{host}:{port}",
    ),
    Reach.TIMED_OUT: (
        "{at} does not answer a connection attempt",
        "A firewall drops the packets, or {host} is not the broker's machine ({detail}).",
        "Open the port in the firewall between here and there, or correct the address.",
        "nc -vz {host} {port}",
    ),
    Reach.UNREACHABLE: (
        "there is no way to {at}",
        "The network does not lead there: {detail}.",
        "Check the route and the address.",
        "ip route get {host}",
    ),
    Reach.SILENT: (
        "{at} accepts connections and does not answer",
        "The broker hangs: it is stopped (SIGSTOP), starved of CPU or waits for its disk."
        " Or the port belongs to a program that waits for another protocol.",
        "Look at the broker's process and its log; restart it if it hangs.",
        "moldau server-stop",
    ),
    Reach.CLOSED: (
        "{at} closes the connection without an answer",
        "The program there does not know Kafka's protocol, or its listener wants TLS or a log-in"
        " before it talks.",
        "Name a plaintext listener of a broker, or give the client the settings of this one.",
        "",
    ),
    Reach.TLS: (
        "{at} speaks TLS, this client speaks plaintext",
        "The listener's security protocol is SSL or SASL_SSL, the client's is PLAINTEXT.",
        "Use the port of a plaintext listener, or set security.protocol=SSL and a truststore in"
        " the client.",
        "openssl s_client -connect {at}",
    ),
    Reach.PLAINTEXT: (
        "{at} speaks plaintext, this client is set to TLS",
        "The client's security.protocol is SSL or SASL_SSL, the listener's is PLAINTEXT.",
        "Set security.protocol=PLAINTEXT in the client, or use the port of a TLS listener.",
        "moldau doctor --bootstrap-server {at}",
    ),
    Reach.HTTP: (
        "{at} is a web server, not a Kafka broker",
        "The port speaks HTTP: it belongs to a console, a REST proxy, a schema registry or"
        " another program.",
        "Name the broker's own port, 9092 unless `listeners` says otherwise.",
        "",
    ),
    Reach.ZOOKEEPER: (
        "{at} is a ZooKeeper, not a Kafka broker",
        "ZooKeeper keeps the brokers' metadata; clients talk to the brokers.",
        "Name a broker, usually port 9092 in place of 2181.",
        "moldau doctor --bootstrap-server {host}:9092",
    ),
    Reach.FOREIGN: (
        "{at} is not a Kafka broker",
        "It answers in another protocol: {detail}",
        "Name the broker's own port, 9092 unless `listeners` says otherwise.",
        "",
    ),
    Reach.LOGIN: (
        "{at} wants a log-in",
        "The broker tells its versions and hangs up at the first question: the listener's security"
        " protocol is SASL_PLAINTEXT, the client's is PLAINTEXT.",
        "Use the port of a plaintext listener, or give the client sasl.mechanism and credentials.",
        "",
    ),
    Reach.AUTHORITY: (
        "{at} shows a certificate that this client does not trust",
        "No authority in the client's trust store has signed it: {detail}",
        "Name the authority's certificate in ssl.truststore.location; if it is the right one, the"
        " address leads to another broker.",
        "openssl s_client -showcerts -connect {at}",
    ),
    Reach.HOST_NAME: (
        "{at} shows a certificate for another host",
        "None of the names in it is {host}: {detail}",
        "Call the broker by a name in its certificate, or give it one that names {host}.",
        "openssl s_client -connect {at}",
    ),
    Reach.EXPIRED: (
        "{at} shows a certificate that is not valid now",
        "Its time is over or has not come, or a clock is wrong: {detail}",
        "Give the broker a new certificate, and set the clock if that is what is wrong.",
        "openssl s_client -connect {at}",
    ),
    Reach.HANDSHAKE: (
        "{at} and this client do not agree on TLS",
        "{detail}",
        "If the listener asks for certificates, name one in ssl.keystore.location; else compare"
        " ssl.enabled.protocols and ssl.cipher.suites on both sides. The broker's log says more.",
        "openssl s_client -connect {at}",
    ),
    Reach.MECHANISM: (
        "{at} does not offer the client's mechanism",
        "{detail}",
        "Set sasl.mechanism to one that the listener offers, or add it to the broker's"
        " sasl.enabled.mechanisms.",
        "",
    ),
    Reach.CREDENTIALS: (
        "{at} refuses the log-in",
        "{detail}",
        "Correct the name and the password in sasl.jaas.config; a user who is not there must be"
        " added first.",
        "",
    ),
}

REFUSALS = frozenset(list(Reach)[list(Reach).index(Reach.AUTHORITY) :])
"""It answers, and handshake or log-in fail."""


def diagnose_addresses(seen: Evidence) -> Iterator[Finding]:
    for probe in seen.probes:
        if not probe.is_kafka:
            yield unreachable_bootstrap(probe, is_fatal=not seen.is_reached)
    if len(set(seen.cluster_ids.values())) > 1:
        told = ", ".join(f"{where} is {which}" for where, which in seen.cluster_ids.items())
        yield Finding(
            Severity.ERROR,
            "clusters-differ",
            "the bootstrap servers belong to different clusters",
            f"Each answers with its own cluster id: {told}.",
            "Name servers of one cluster only.",
            "moldau cluster cluster-id --bootstrap-server " + next(iter(seen.cluster_ids)),
        )
    if seen.cluster is None:
        return
    shared = Counter((broker.host, broker.port) for broker in seen.cluster.brokers)
    for broker in seen.cluster.brokers:
        yield from diagnose_advertised(seen, broker)
    for (host, port), count in shared.items():
        if count > 1:
            same = [b.id for b in seen.cluster.brokers if (b.host, b.port) == (host, port)]
            yield Finding(
                Severity.ERROR,
                "advertised-shared",
                f"brokers {few(same)} advertise the same address {address(host, port)}",
                "Their advertised.listeners were copied from one another, so clients reach only one"
                " of them.",
                "Give each broker its own advertised.listeners.",
                start_with(host, "PORT"),
            )


def unreachable_bootstrap(probe: Probe, *, is_fatal: bool) -> Finding:
    words = {"at": str(probe), "host": probe.host, "port": probe.port}
    words["detail"] = probe.detail or probe.reach.value
    what, cause, fix, command = (text.format(**words) for text in BOOTSTRAP[probe.reach])
    return Finding(
        Severity.ERROR if is_fatal else Severity.WARNING,
        f"bootstrap-{probe.reach.name.lower().replace('_', '-')}",
        f"bootstrap server: {what}",
        cause,
        fix,
        command,
    )


def diagnose_advertised(seen: Evidence, broker: BrokerSight) -> Iterator[Finding]:
    """At most one finding: the first thing that is wrong explains the rest."""
    probe = seen.broker_probes.get(broker.id)
    way_in = next((each for each in seen.probes if each.is_kafka), None)
    if probe is None or way_in is None:
        return
    who = f"broker {broker.id} advertises {broker}"
    if broker.host in WILDCARDS:
        yield Finding(
            Severity.ERROR,
            "advertised-wildcard",
            f"{who}, which is no address to connect to",
            "advertised.listeners (or `listeners`, where it is not set) has 0.0.0.0: every"
            " interface of whoever connects, so clients elsewhere connect to themselves.",
            "Let it listen on 0.0.0.0 and advertise a name that clients can resolve.",
            start_with(way_in.host, broker.port),
        )
    elif probe.reach is Reach.UNRESOLVED:
        yield Finding(
            Severity.ERROR,
            "advertised-unresolved",
            f"{who}, and that name cannot be resolved here",
            "The bootstrap server answers, then sends clients to a name that only the broker's own"
            " network knows: a container's, or the machine's short name.",
            f"Set advertised.listeners to an address that clients resolve, such as {way_in.host}.",
            start_with(way_in.host, broker.port),
        )
    elif is_loopback(broker.host) and not is_loopback(way_in.host):
        yield Finding(
            Severity.ERROR,
            "advertised-loopback",
            f"{who}, which is this machine and not the broker's",
            f"The broker was reached as {way_in} and sends clients on to their own loopback:"
            " advertised.listeners was left at localhost.",
            f"Set advertised.listeners to the address that clients use, such as {way_in.host}.",
            start_with(way_in.host, broker.port),
        )
    elif not probe.is_kafka:
        yield unreachable_broker(seen, broker, probe, way_in)
    elif seen.cluster is not None and is_stranger(seen, broker):
        yield Finding(
            Severity.ERROR,
            "advertised-other-cluster",
            f"{who}, where a broker of another cluster answers",
            f"The cluster there is {seen.broker_cluster_ids[broker.id]}, the one asked is"
            f" {seen.cluster.cluster_id}: advertised.listeners has another broker's address.",
            "Give the broker its own address in advertised.listeners.",
            start_with(way_in.host, way_in.port),
        )


def unreachable_broker(seen: Evidence, broker: BrokerSight, probe: Probe, way_in: Probe) -> Finding:
    assert seen.cluster is not None
    advertised = {(each.host, each.port) for each in seen.cluster.brokers}
    same_host = broker.host == way_in.host or set(probe.addresses) & set(way_in.addresses)
    nobody_claims = (way_in.host, way_in.port) not in advertised
    if same_host and nobody_claims and broker.port != way_in.port:
        return Finding(
            Severity.ERROR,
            "advertised-wrong-port",
            f"broker {broker.id} advertises {broker}, where {told(probe)}",
            f"The broker answers on port {way_in.port}, and advertises port {broker.port}:"
            " advertised.listeners names the wrong port, or a port mapping changed it.",
            f"Set advertised.listeners to port {way_in.port}.",
            start_with(broker.host, way_in.port),
        )
    if probe.reach in (Reach.TLS, Reach.LOGIN, Reach.HTTP, Reach.ZOOKEEPER, Reach.FOREIGN):
        return Finding(
            Severity.ERROR,
            "advertised-other-protocol",
            f"broker {broker.id} advertises {broker}, which {probe.reach.value}",
            "advertised.listeners gives the listener of another security protocol, or the port of"
            " another program.",
            "Advertise each listener's own port under its own name.",
            start_with(broker.host, way_in.port),
        )
    if probe.reach in REFUSALS:
        refused = unreachable_bootstrap(probe, is_fatal=True)
        return refused._replace(code="broker-refuses", what=f"broker {broker.id}: {told(probe)}")
    return Finding(
        Severity.ERROR,
        "broker-unreachable",
        f"broker {broker.id} at {broker} cannot be reached: {told(probe)}",
        "The cluster lists the broker, and nothing answers there: it is down or hangs, or a"
        " firewall stands between. What it leads cannot be read or written.",
        "Start the broker, or open the way to it.",
        f"nc -vz {broker.host} {broker.port}",
    )


def is_stranger(seen: Evidence, broker: BrokerSight) -> bool:
    there = seen.broker_cluster_ids.get(broker.id, "")
    assert seen.cluster is not None
    return bool(there and seen.cluster.cluster_id and there != seen.cluster.cluster_id)


def told(probe: Probe) -> str:
    return probe.reach.value + (f" ({probe.detail})" if probe.detail else "")


def is_loopback(host: str) -> bool:
    return host in LOOPBACK_NAMES or host.startswith("127.") or host == "::1"


def start_with(host: str, port: object) -> str:
    return (
        "moldau server-start server.properties --override"
        f" advertised.listeners=PLAINTEXT://{host}:{port}"
    )
