"""`moldau.testing`: what it promises about its brokers, in both ways of running one."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import moldau.testing
from moldau import OffsetSpec, TopicPartition
from moldau.client.shared.client_errors import KafkaTimeoutError
from moldau.testing import BrokerNotRunningError, LocalBroker
from moldau.testing.broker_process import BrokerStartError
from moldau.wire.messages.metadata import MetadataResponse
from tests.support.eventually import eventually

PARTITION = TopicPartition("orders", 0)
EITHER = pytest.mark.parametrize("in_process", [False, True], ids=["process", "thread"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "broker") as broker:
        yield broker


@EITHER
def test_a_broker_has_topics_groups_and_transactions(in_process: bool) -> None:
    with moldau.testing.broker(in_process=in_process) as broker:
        broker.create_topic("orders", partitions=2, configs={"retention.ms": -1})
        producer = broker.producer(transactional_id="till")
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"1")
        consumer = broker.consumer("orders", group_id="billing", isolation_level="read_committed")
        assert [record.value for record in consumer.poll(10)] == [b"1"]
        groups = broker.admin().list_groups()
        assert [group.group_id for group in groups] == ["billing"]


@EITHER
def test_records_and_port_survive_a_restart(in_process: bool) -> None:
    with moldau.testing.broker(in_process=in_process) as broker:
        broker.producer().send("orders", b"kept").result(10)
        before = broker.bootstrap
        broker.restart()
        assert broker.bootstrap == before
        assert broker.read("orders", count=1)[0].value == b"kept"


def test_brokers_are_isolated_from_one_another_and_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    with moldau.testing.broker() as one, moldau.testing.broker(in_process=True) as other:
        one.producer().send("orders", b"1").result(10)
        assert one.bootstrap != other.bootstrap
        assert list(other.admin().list_topics()) == []
        described = one.admin().describe_topics(["orders"]).check()
        assert len(described["orders"].partitions) == 1


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with moldau.testing.broker() as broker:
        pid, port, directory = broker.pid, broker.port, broker.directory
        assert directory.exists()
    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1).close()


def test_settings_are_those_of_the_broker() -> None:
    with moldau.testing.broker({"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        assert len(broker.producer().partitions_for("orders")) == 3


@EITHER
@pytest.mark.parametrize(
    ("key", "value"),
    [("listeners", "PLAINTEXT://203.0.113.1:9092"), ("num.partitions", "many")],
)
def test_a_setting_that_the_broker_refuses_is_told(key: str, value: str, in_process: bool) -> None:
    with (
        pytest.raises(BrokerStartError, match=re.escape(value.split("/")[-1].split(":")[0])),
        moldau.testing.broker({key: value}, in_process=in_process),
    ):
        pass


def test_kill_nine_loses_no_acknowledged_record(broker: LocalBroker) -> None:
    broker.producer().send("orders", b"1").result(10)
    pid = broker.pid
    broker.kill()
    assert not broker.is_running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    broker.restart()
    assert broker.read("orders", count=1)[0].value == b"1"


def test_a_broker_that_is_down_refuses_connections_and_keeps_its_port(broker: LocalBroker) -> None:
    broker.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port), 1).close()
    with pytest.raises(BrokerNotRunningError, match="so kill has no meaning"):
        broker.kill()
    broker.start()
    assert list(broker.admin().list_topics()) == []


def test_a_paused_broker_answers_after_it_goes_on(broker: LocalBroker) -> None:
    producer = broker.producer(client_id="writer")
    producer.send("orders", b"1").result(10)
    broker.pause()
    sent = producer.send("orders", b"2")
    with pytest.raises(TimeoutError):
        sent.result(0.3)
    broker.resume()
    assert sent.result(10).offset == 1


def test_a_paused_broker_can_be_closed(tmp_path: Path) -> None:
    with LocalBroker(tmp_path) as broker:
        broker.pause()
    assert not broker.is_running


def test_what_a_thread_cannot_do_is_refused_in_a_sentence() -> None:
    with moldau.testing.broker(in_process=True) as broker:
        with pytest.raises(NotImplementedError, match="cannot be killed; use `broker"):
            broker.kill()
        with pytest.raises(NotImplementedError, match="cannot be paused; use `broker"):
            broker.pause()
        assert broker.is_running


def test_without_faults_clients_reach_the_broker_itself() -> None:
    with moldau.testing.broker(with_faults=False) as broker:
        broker.producer().send("orders", b"1").result(10)
        eventually(lambda: f":{broker.port}" in broker.log_text)
        with pytest.raises(BrokerNotRunningError, match="with_faults=False"):
            _ = broker.faults


def test_a_broker_ends_when_its_test_run_is_killed(tmp_path: Path) -> None:
    source = (
        "import moldau.testing, sys, time\n"
        f"with moldau.testing.broker(directory={str(tmp_path)!r}) as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    run.send_signal(signal.SIGKILL)
    run.communicate()
    deadline = time.monotonic() + 10
    while _is_alive(pid):
        assert time.monotonic() < deadline, "the broker outlives the test run"
        time.sleep(0.01)


def test_a_lost_acknowledgement_is_sent_again_and_stored_once(broker: LocalBroker) -> None:
    producer = broker.producer()
    producer.send("orders", b"1").result(10)
    lost = broker.faults.lose_answers("Produce", count=1)
    assert producer.send("orders", b"2").result(10).offset == 1
    assert lost.hits == 1
    assert producer.send("orders", b"3").result(10).offset == 2


def test_a_lost_request_never_reached_the_broker(broker: LocalBroker) -> None:
    producer = broker.producer(enable_idempotence=False, retries=0)
    producer.send("orders", b"1").result(10)
    broker.faults.lose_requests("Produce")
    with pytest.raises(moldau.KafkaError):
        producer.send("orders", b"lost").result(10)
    assert producer.send("orders", b"2").result(10).offset == 1


def test_a_delayed_acknowledgement_comes_late(broker: LocalBroker) -> None:
    producer = broker.producer()
    producer.send("orders", b"1").result(10)
    with broker.faults.delay("Produce", ms=200) as late:
        begun = time.monotonic()
        producer.send("orders", b"2").result(10)
        assert time.monotonic() - begun >= 0.2
    assert late.hits == 1


def test_a_held_acknowledgement_comes_when_the_fault_ends(broker: LocalBroker) -> None:
    producer = broker.producer()
    producer.send("orders", b"1").result(10)
    with broker.faults.hold("Produce") as held:
        sent = producer.send("orders", b"2")
        held.wait()
        assert len(broker.read("orders", count=2)) == 2, "stored already"
        assert not sent.done()
    assert sent.result(10).offset == 1


def test_the_connections_of_one_client_can_be_dropped(broker: LocalBroker) -> None:
    writer, other = broker.producer(client_id="writer"), broker.producer(client_id="other")
    for producer in (writer, other):
        producer.send("orders", b"1").result(10)
    assert broker.faults.drop_connections("nobody") == 0
    assert broker.faults.drop_connections("writer") > 0
    assert writer.send("orders", b"2").result(10).offset == 2


def test_connections_are_refused_while_the_fault_lasts(broker: LocalBroker) -> None:
    with (
        broker.faults.refuse_connections(),
        pytest.raises(KafkaTimeoutError, match="could not be established"),
    ):
        broker.admin().list_topics(timeout=0.2)
    assert list(broker.admin().list_topics()) == []


def test_an_answer_can_be_rewritten(broker: LocalBroker) -> None:
    broker.create_topic("orders")

    def lose_leader(answer: MetadataResponse) -> None:
        for topic in answer.topics:
            topic.partitions[0].leader_id = -1

    with broker.faults.rewrite("Metadata", lose_leader), broker.admin() as admin:
        offsets = admin.list_offsets(
            {PARTITION: OffsetSpec.LATEST}, timeout=0.3, raise_errors=False
        )
        assert "no leader" in str(offsets.errors[PARTITION])
    with broker.admin() as admin:
        assert admin.list_offsets({PARTITION: OffsetSpec.LATEST}).check()[PARTITION].offset == 0


def test_a_mistake_in_a_rewriting_function_is_told_at_the_end(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path)
    broker.start()
    broker.faults.rewrite("Metadata", lambda answer: answer.no_such_field, count=1)
    assert list(broker.admin().list_topics()) == [], "the next connection is served"
    with pytest.raises(AttributeError, match="no_such_field"):
        broker.close()


def test_bytes_that_are_no_frames_pass_through(broker: LocalBroker) -> None:
    with socket.create_connection(("127.0.0.1", broker.port), 5) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(100) == b"", "the broker hangs up, not the proxy"
    eventually(lambda: "GET" in broker.log_text or "1195725856" in broker.log_text)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
