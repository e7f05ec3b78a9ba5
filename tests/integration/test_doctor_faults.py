"""`moldau doctor` in front of staged faults: it names the right cause of each, and nothing else.

Faults of one broker are real: a wrong setting, a dead or paused process, a foreign program on the
port, a member that does not poll, a transaction nobody ends. Faults that need several brokers
(leader -1, replicas out of sync, no controller, a broker that is listed and away, a node whose
clock is wrong) are staged on the wire: the proxy of `moldau.testing` rewrites the answers of a
real broker, so doctor sees what it would see there, and no second broker exists.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import moldau.testing
from moldau import TopicPartition
from moldau.client.shared.client_errors import WakeupError
from moldau.testing import LocalBroker
from moldau.testing.broker_process import free_port
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from moldau.wire.messages.quorum import DescribeQuorumResponse

QUICK = ("--timeout", "1000", "--rebalance-seconds", "1")
HOUR_MS = 3_600_000


def doctor(bootstrap: str, *words: str, code: int = 1) -> dict[str, dict[str, str]]:
    """The findings by their code."""
    command = [sys.executable, "-m", "moldau.main", "doctor", "--bootstrap-server", bootstrap]
    ran = subprocess.run(
        [*command, *QUICK, "--json", *words], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ran.stderr == ""
    told = json.loads(ran.stdout)
    found = {each["code"]: each for each in told["findings"]}
    assert len(found) == len(told["findings"])
    for each in found.values():
        assert each["cause"]
        assert each["fix"]
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "broker", in_process=True) as broker:
        yield broker


@pytest.fixture
def orders(broker: LocalBroker) -> LocalBroker:
    """A broker with a topic of two partitions and a record in each."""
    broker.create_topic("orders", 2)
    for partition in (0, 1):
        broker.producer().send("orders", b"1", partition=partition).result(10)
    return broker


@pytest.fixture
def serve() -> Iterator[Callable[[Any], int]]:
    """Runs a server on a thread; its port."""
    servers = []

    def start(server: Any) -> int:
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port: int = server.server_address[1]
        return port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_healthy_broker_has_nothing(orders: LocalBroker) -> None:
    assert doctor(orders.bootstrap, code=0) == {}


# Bootstrap


def test_nobody_listens() -> None:
    found = doctor(f"127.0.0.1:{free_port()}", code=2)
    assert list(found) == ["bootstrap-refused"]
    assert "not running" in found["bootstrap-refused"]["cause"]


def test_a_name_that_does_not_resolve() -> None:
    assert list(doctor("nowhere.invalid:9092", code=2)) == ["bootstrap-unresolved"]


def test_a_broker_that_hangs(moldau_broker: LocalBroker) -> None:
    moldau_broker.pause()
    found = doctor(moldau_broker.bootstrap, code=2)
    assert list(found) == ["bootstrap-silent"]
    assert "hangs" in found["bootstrap-silent"]["cause"]


def test_a_web_server_in_place_of_a_broker(serve: Callable[[Any], int]) -> None:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    port = serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet))
    assert list(doctor(f"127.0.0.1:{port}", code=2)) == ["bootstrap-http"]


def test_a_zookeeper_in_place_of_a_broker(serve: Callable[[Any], int]) -> None:
    """What ZooKeeper does with each of the questions: it hangs up, or says imok to ruok."""

    class ZooKeeper(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if self.request.recv(4) == b"ruok":
                self.request.sendall(b"imok")

    port = serve(socketserver.ThreadingTCPServer(("127.0.0.1", 0), ZooKeeper))
    found = doctor(f"127.0.0.1:{port}", code=2)
    assert list(found) == ["bootstrap-zookeeper"]
    assert "9092" in found["bootstrap-zookeeper"]["command"]


def test_a_tls_listener_and_a_plaintext_client(serve: Callable[[Any], int], tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    class Tls(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                context.wrap_socket(self.request, server_side=True).close()
            except OSError:
                pass

    port = serve(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tls))
    assert list(doctor(f"127.0.0.1:{port}", code=2)) == ["bootstrap-tls"]


def test_a_plaintext_listener_and_a_tls_client(broker: LocalBroker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    found = doctor(broker.bootstrap, "--command-config", str(config), code=2)
    assert list(found) == ["bootstrap-plaintext"]


def test_one_of_two_bootstrap_servers_is_down(orders: LocalBroker) -> None:
    found = doctor(f"127.0.0.1:{free_port()},{orders.bootstrap}")
    assert list(found) == ["bootstrap-refused"]
    assert found["bootstrap-refused"]["severity"] == "warning"


def test_bootstrap_servers_of_two_clusters(orders: LocalBroker) -> None:
    with moldau.testing.broker(in_process=True) as other:
        found = doctor(f"{orders.bootstrap},{other.bootstrap}")
    assert list(found) == ["clusters-differ"]


# Advertised addresses


@pytest.mark.parametrize(
    ("advertised", "code", "cause"),
    [
        ("broker-1.invalid:9092", "advertised-unresolved", "only the broker's own"),
        ("127.0.0.1:{free}", "advertised-wrong-port", "names the wrong port"),
    ],
)
def test_an_advertised_address_that_clients_cannot_use(
    advertised: str, code: str, cause: str
) -> None:
    where = advertised.format(free=free_port())
    settings = {"advertised.listeners": f"PLAINTEXT://{where}"}
    with moldau.testing.broker(settings, with_faults=False) as broker:
        found = doctor(broker.bootstrap)
    assert list(found) == [code]
    assert cause in found[code]["cause"]
    assert where in found[code]["what"]
    assert "advertised.listeners=" in found[code]["command"]


def test_a_wildcard_as_advertised_address(orders: LocalBroker) -> None:
    """Moldau refuses to start with it, as Kafka does; older brokers did not."""
    with orders.faults.rewrite("Metadata", advertise("0.0.0.0", orders.port)):
        assert "advertised-wildcard" in doctor(orders.bootstrap)


def test_an_advertised_address_of_another_cluster(orders: LocalBroker) -> None:
    with (
        moldau.testing.broker(in_process=True) as other,
        orders.faults.rewrite("Metadata", advertise("127.0.0.1", other.port)),
    ):
        found = doctor(orders.bootstrap)
    assert "advertised-other-cluster" in found


def test_a_broker_that_is_listed_and_cannot_be_reached(orders: LocalBroker) -> None:
    away = free_port()

    def second(answer: MetadataResponse) -> None:
        answer.brokers.append(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=away))

    with orders.faults.rewrite("Metadata", second):
        found = doctor(orders.bootstrap)
    assert list(found) == ["broker-unreachable"]
    assert f"broker 1 at 127.0.0.1:{away}" in found["broker-unreachable"]["what"]


# Partitions


def test_partitions_without_a_leader(orders: LocalBroker) -> None:
    def fail(partition: Any) -> None:
        partition.leader_id, partition.isr_nodes, partition.replica_nodes = -1, [2], [1, 2]

    with orders.faults.rewrite("Metadata", partitions(fail)):
        found = doctor(orders.bootstrap)
    assert list(found) == ["no-leader"]
    assert "orders: partitions 0, 1" in found["no-leader"]["what"]
    assert "last ones in sync were 2" in found["no-leader"]["cause"]


def test_replicas_that_are_not_in_sync(orders: LocalBroker) -> None:
    def fail(partition: Any) -> None:
        partition.replica_nodes = [0, 1, 2]

    with orders.faults.rewrite("Metadata", partitions(fail)):
        found = doctor(orders.bootstrap)
    assert list(found) == ["under-replicated"]
    assert "1, 2" in found["under-replicated"]["cause"]


def test_fewer_in_sync_than_the_topic_asks_for(broker: LocalBroker) -> None:
    broker.create_topic("orders", 1, {"min.insync.replicas": 2})
    broker.producer().send("orders", b"1").result(10)

    def fail(partition: Any) -> None:
        partition.replica_nodes = [0, 1, 2]

    with broker.faults.rewrite("Metadata", partitions(fail)):
        found = doctor(broker.bootstrap)
    assert list(found) == ["under-min-isr", "under-replicated"]
    assert "NotEnoughReplicasException" in found["under-min-isr"]["what"]


def test_no_controller(orders: LocalBroker) -> None:
    def resign(answer: MetadataResponse) -> None:
        answer.controller_id = -1

    with orders.faults.rewrite("Metadata", resign):
        assert list(doctor(orders.bootstrap)) == ["no-controller"]


# Groups


def test_a_group_without_members(orders: LocalBroker) -> None:
    orders.admin().alter_group_offsets("billing", {TopicPartition("orders", 0): 0}).check()
    found = doctor(orders.bootstrap)
    assert list(found) == ["group-without-members"]
    assert "1 record to read (orders-0 1)" in found["group-without-members"]["what"]


def test_a_group_that_lags(orders: LocalBroker) -> None:
    consumer = orders.consumer("orders", group_id="billing", enable_auto_commit=False)
    read = 0
    while read < 2:
        read += len(list(consumer.poll(5)))
    consumer.commit()
    producer = orders.producer()
    for _ in range(50):
        producer.send("orders", b"more", partition=0)
    producer.flush()
    assert doctor(orders.bootstrap, "--max-lag", "50", code=0) == {}
    found = doctor(orders.bootstrap, "--max-lag", "49")
    assert list(found) == ["group-lagging"]
    assert "50 records behind" in found["group-lagging"]["what"]


def test_a_group_stuck_in_a_rebalance(orders: LocalBroker) -> None:
    busy = orders.consumer("orders", group_id="billing")
    while not busy.assignment():
        busy.poll(0.1)
    newcomer = orders.consumer("orders", group_id="billing")

    def join() -> None:
        with contextlib.suppress(WakeupError):
            newcomer.poll(60)

    def state() -> str:
        return orders.admin().describe_groups(["billing"]).check()["billing"].state

    thread = threading.Thread(target=join)
    thread.start()
    wait_until(lambda: state() != "Stable")
    found = doctor(orders.bootstrap)
    wait_until(lambda: busy.poll(0.1) is not None and state() == "Stable")
    newcomer.wakeup()
    thread.join()
    assert "group-rebalancing" in found
    assert "max.poll.interval.ms" in found["group-rebalancing"]["cause"]


def test_offsets_whose_records_have_expired(orders: LocalBroker) -> None:
    admin, partition = orders.admin(), TopicPartition("orders", 0)
    admin.alter_group_offsets("billing", {partition: 0}).check()
    orders.producer().send("orders", b"2", partition=0).result(10)
    admin.delete_records({partition: 1}).check()
    found = doctor(orders.bootstrap)
    assert "group-offset-expired" in found
    assert "1 record deleted before" in found["group-offset-expired"]["what"]
    assert "--to-earliest" in found["group-offset-expired"]["command"]


def test_offsets_after_the_end(orders: LocalBroker) -> None:
    orders.admin().alter_group_offsets("billing", {TopicPartition("orders", 0): 99}).check()
    assert list(doctor(orders.bootstrap)) == ["group-offset-beyond-end"]


# Transactions, clocks, topics


def test_a_transaction_that_nobody_ends(orders: LocalBroker) -> None:
    producer = orders.producer(transactional_id="till")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=0).result(10)
    assert doctor(orders.bootstrap, code=0) == {}
    found = doctor(orders.bootstrap, "--max-transaction-timeout", "0")
    assert list(found) == ["transaction-open"]
    assert "till" in found["transaction-open"]["command"]
    producer.abort_transaction()
    assert doctor(orders.bootstrap, "--max-transaction-timeout", "0", code=0) == {}


def test_a_hanging_transaction(orders: LocalBroker) -> None:
    """Open in the partition, while the coordinator's answer no longer names it."""
    producer = orders.producer(transactional_id="till")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=0).result(10)

    def forget(answer: Any) -> None:
        answer.transaction_states = []

    with orders.faults.rewrite("ListTransactions", forget):
        found = doctor(orders.bootstrap, "--max-transaction-timeout", "0")
    assert list(found) == ["transaction-hanging"]
    assert (
        "--topic orders --partition 0 --start-offset 1" in found["transaction-hanging"]["command"]
    )
    producer.abort_transaction()


def test_records_from_the_future(broker: LocalBroker) -> None:
    broker.create_topic("orders", 1, {"message.timestamp.after.max.ms": 9 * HOUR_MS})
    ahead_ms = int(time.time() * 1000) + 5 * HOUR_MS
    broker.producer().send("orders", b"1", timestamp_ms=ahead_ms).result(10)
    found = doctor(broker.bootstrap)
    assert list(found) == ["clock-skew-records"]
    assert "5 h ahead" in found["clock-skew-records"]["what"]
    assert "a producer's time" in found["clock-skew-records"]["cause"]


def test_a_node_whose_clock_is_wrong(orders: LocalBroker) -> None:
    def turn_back(answer: DescribeQuorumResponse) -> None:
        for voter in answer.topics[0].partitions[0].current_voters:
            voter.last_caught_up_timestamp -= 600_000

    with orders.faults.rewrite("DescribeQuorum", turn_back):
        found = doctor(orders.bootstrap)
    assert list(found) == ["clock-skew-broker"]
    assert "10 min behind" in found["clock-skew-broker"]["what"]


def test_an_empty_topic_is_worth_a_note(broker: LocalBroker) -> None:
    broker.create_topic("orders")
    found = doctor(broker.bootstrap, code=0)
    assert list(found) == ["topic-empty"]
    assert found["topic-empty"]["severity"] == "note"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def advertise(host: str, port: int) -> Callable[[MetadataResponse], None]:
    def change(answer: MetadataResponse) -> None:
        answer.brokers[0].host, answer.brokers[0].port = host, port

    return change


def partitions(fail: Callable[[Any], None]) -> Callable[[MetadataResponse], None]:
    def change(answer: MetadataResponse) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                fail(partition)

    return change


def self_signed(directory: Path) -> Path:
    path, certificate = directory / "server.pem", directory / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-keyout", str(path), "-out", str(certificate)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    path.write_text(path.read_text() + certificate.read_text())
    return path


def test_what_breaks_the_never_lose_profile_is_named(broker: LocalBroker, tmp_path: Path) -> None:
    broker.create_topic("orders", configs={"unclean.leader.election.enable": "true"})
    producer, consumer = tmp_path / "producer.properties", tmp_path / "consumer.properties"
    producer.write_text("acks=1\nenable.idempotence=false\n")
    consumer.write_text("group.id=billing\nenable.auto.commit=false\n")
    broker.producer().send("orders", b"1").result(10)
    assert doctor(broker.bootstrap, code=0) == {}
    files = ("--producer-settings", str(producer), "--consumer-settings", str(consumer))
    found = doctor(broker.bootstrap, "--profile", "never-lose", *files)
    assert {code.removeprefix("never-lose-") for code in found} == {
        *("brokers", "copies", "topic-min.insync.replicas", "topic-unclean.leader.election.enable"),
        *("broker-default.replication.factor", "broker-min.insync.replicas"),
        *("broker-offsets.topic.replication.factor", "broker-transaction.state.log.min.isr"),
        *("broker-transaction.state.log.replication.factor", "producer-acks"),
        *("producer-enable.idempotence", "consumer-auto.offset.reset", "consumer-isolation.level"),
    }
    assert str(producer) in found["never-lose-producer-acks"]["what"]
    assert found["never-lose-topic-unclean.leader.election.enable"]["what"].startswith(
        "topics orders"
    )
    command = [sys.executable, "-m", "moldau.main", "doctor", *files]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0
    assert "--profile" in refused.stderr
