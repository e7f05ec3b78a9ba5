"""kill -9 between any two steps of a commit: what was decided happens, what was not does not.

A transaction over two partitions and a group's offsets is committed on a broker that dies before
its first, second, ... last write. On the same directory an ordinary broker takes over. If the
decision was written, it completes the transaction by itself; if not, the transaction is aborted
when its producer comes back.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support.doomed_broker import DOOM, ROOT
from tests.support.eventually import eventually

TOPIC, GROUP, ID = "ends", "readers", "committer"
SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
DECISION = 0
WRITES = 5
"""The decision, markers in two partitions and in the group's log, the completion."""
SECONDS_MAX = 15


def producer(bootstrap: str) -> Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": ID,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    made = Producer(settings)
    made.init_transactions(SECONDS_MAX)
    return made


def begin_transaction(bootstrap: str) -> Producer:
    """Records in two partitions and an offset of a group, all undecided."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(SECONDS_MAX)
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    writer = producer(bootstrap)
    writer.begin_transaction()
    for partition in (0, 1):
        writer.produce(TOPIC, b"decided", partition=partition)
    writer.flush(SECONDS_MAX)
    offsets = [TopicPartition(TOPIC, 0, 7)]
    writer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), SECONDS_MAX)
    member.close()
    return writer


def end_transaction(bootstrap: str, *, commit: bool) -> None:
    """The broker does not survive this; it may get as far as its answer."""
    writer = begin_transaction(bootstrap)
    with suppress(KafkaException):
        (writer.commit_transaction if commit else writer.abort_transaction)(2.0)
    writer.purge()


def committed_values(bootstrap: str) -> list[list[bytes | None]]:
    """What a reader of committed records gets in each partition."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "observer",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
    }
    reader = Consumer(settings)
    found: list[list[bytes | None]] = []
    for partition in (0, 1):
        reader.assign([TopicPartition(TOPIC, partition, 0)])
        found.append([])
        while (message := reader.poll(SECONDS_MAX)) is not None and message.error() is None:
            found[-1].append(message.value())
        assert message is not None, "the end was not reached in time"
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
    reader.close()
    return found


def stable_ends(bootstrap: str) -> list[int]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "observer",
            "isolation.level": "read_committed",
        }
    )
    ends = [
        reader.get_watermark_offsets(TopicPartition(TOPIC, partition), SECONDS_MAX)[1]
        for partition in (0, 1)
    ]
    reader.close()
    return ends


def group_offset(bootstrap: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0)])]
    )
    (answer,) = asked[GROUP].result(SECONDS_MAX).topic_partitions
    return int(answer.offset)


@pytest.mark.parametrize("write", range(WRITES))
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_ends_as_its_last_durable_state_says(
    commit: bool, write: int, tmp_path: Path
) -> None:
    doomed = BrokerProcess(
        tmp_path,
        overrides=SETTINGS,
        environment={DOOM: str(write), "PYTHONPATH": ROOT},
        main="tests.support.doomed_broker",
    )
    doomed.start()
    try:
        end_transaction(doomed.bootstrap, commit=commit)
        assert doomed.wait() == -9, doomed.log_text
    finally:
        doomed.stop()

    with BrokerProcess(tmp_path, overrides=SETTINGS) as broker:
        if write == DECISION:
            assert stable_ends(broker.bootstrap) == [0, 0], "nobody has decided"
            producer(broker.bootstrap)
        # A record and its marker; markers that were written before the crash are written again.
        eventually(lambda: min(stable_ends(broker.bootstrap)) >= 2)
        is_committed = commit and write != DECISION
        records = [b"decided"] if is_committed else []
        assert committed_values(broker.bootstrap) == [records, records]
        assert group_offset(broker.bootstrap) == (7 if is_committed else -1001)
        again = producer(broker.bootstrap)
        again.begin_transaction()
        again.produce(TOPIC, b"next", partition=0)
        again.commit_transaction(SECONDS_MAX)
        eventually(lambda: committed_values(broker.bootstrap)[0] == [*records, b"next"])


def test_a_broker_that_is_not_doomed_makes_as_many_writes_as_are_tested(tmp_path: Path) -> None:
    """If a commit came to need another write, the tests above would not cover it."""
    broker = BrokerProcess(
        tmp_path,
        overrides=SETTINGS,
        environment={DOOM: str(WRITES), "PYTHONPATH": ROOT},
        main="tests.support.doomed_broker",
    )
    with broker:
        writer = begin_transaction(broker.bootstrap)
        writer.commit_transaction(SECONDS_MAX)
        eventually(lambda: group_offset(broker.bootstrap) == 7)
        # The next write of a coordinator is one too many.
        writer.begin_transaction()
        writer.produce(TOPIC, b"next", partition=0)
        with pytest.raises(KafkaException):
            writer.commit_transaction(2.0)
        assert broker.wait() == -9
