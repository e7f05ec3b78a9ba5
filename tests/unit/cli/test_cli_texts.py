"""Lines to records, records to lines, plans and durations: the pure parts of the commands."""

from __future__ import annotations

import pytest

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.completion import following
from moldau.cli.groups.consumer_group_tables import assignment_text
from moldau.cli.groups.offset_resets import datetime_ms, duration_ms
from moldau.cli.records.get_offsets import rule_of, time_of
from moldau.cli.records.line_reader import LineReader, UnreadableLine
from moldau.cli.records.record_formatters import formatter_of
from moldau.cli.servers.configs import added
from moldau.cli.topics.reassign_partitions import racks_of
from moldau.cli.topics.reassignment_plans import plan_of
from moldau.cli.topics.topics import assignment_of, topic_pattern
from moldau.cli.zookeeper.zookeeper_shell import answer_in
from moldau.client.admin.offset_reset_rules import ResetError
from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType
from moldau.client.network.network_client import Node
from moldau.model.names import TopicPartition
from moldau.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

OLD_OFFSETS = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
OLD_TRANSACTIONS = "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter"


def record(key: bytes | None, value: bytes | None, headers=()) -> ConsumerRecord:
    return ConsumerRecord("t", 1, 7, 1000, TimestampType.CREATE_TIME, key, value, headers, 3)


def test_a_line_is_headers_key_and_value() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.read(b"a:1,b:NULL\tk\tv\tw") == ([("a", b"1"), ("b", None)], b"k", b"v\tw")
    assert reader.read(b"NULL\tNULL\tNULL") == ([], None, None)


def test_a_line_without_its_separator_is_named() -> None:
    reader = LineReader({"parse.key": "true", "key.separator": "|"})
    reader.read(b"a|b")
    with pytest.raises(UnreadableLine, match="No key separator found on line number 2: 'ab'"):
        reader.read(b"ab")
    assert LineReader({"parse.key": "true", "ignore.error": "true"}).read(b"ab") == (
        [],
        None,
        b"ab",
    )


def test_the_default_formatter_prints_fields_in_kafkas_order() -> None:
    every = ("timestamp", "partition", "offset", "epoch", "headers", "key")
    properties = {f"print.{name}": "true" for name in every}
    formatter = formatter_of("kafka.tools.DefaultMessageFormatter", properties)
    line = formatter.format(record(None, b"v", [("h", b"1"), ("n", None)]))
    assert line == b"CreateTime:1000\tPartition:1\tOffset:7\tEpoch:3\th:1,n:null\tnull\tv\n"


def test_javas_deserializers_are_known_by_name() -> None:
    package = "org.apache.kafka.common.serialization."
    properties = {
        "print.key": "true",
        "key.deserializer": package + "StringDeserializer",
        "value.deserializer": package + "LongDeserializer",
    }
    formatter = formatter_of("DefaultMessageFormatter", properties)
    assert formatter.format(record(b"word", (5).to_bytes(8, "big"))) == b"word\t5\n"
    with pytest.raises(CommandFault, match="cannot be loaded"):
        formatter_of("DefaultMessageFormatter", {"key.deserializer": "no.such.Thing"})


def test_the_old_formatters_of_internal_topics_print_as_they_did() -> None:
    key = b"\0\1" + OffsetCommitKey(group="g", topic="t", partition=2).encode(0)
    value = b"\0\3" + OffsetCommitValue(offset=9, leader_epoch=0, commit_timestamp=5).encode(3)
    assert formatter_of(OLD_OFFSETS, {}).format(record(key, value)) == (
        b"[g,t,2]::OffsetAndMetadata(offset=9, leaderEpoch=Optional[0], metadata=,"
        b" commitTimestamp=5, expireTimestamp=None)\n"
    )
    assert formatter_of(OLD_OFFSETS, {}).format(record(key, None)) == b"[g,t,2]::NULL\n"
    key = b"\0\0" + TransactionLogKey(transactional_id="x").encode(0)
    value = b"\0\0" + TransactionLogValue(producer_id=4, transaction_status=1).encode(0)
    line = formatter_of(OLD_TRANSACTIONS, {}).format(record(key, value))
    assert line.startswith(b"x::TransactionMetadata(transactionalId=x, producerId=4,")
    assert b"state=Ongoing" in line


def test_the_new_formatters_print_json() -> None:
    key = b"\0\1" + OffsetCommitKey(group="g", topic="t", partition=2).encode(0)
    value = b"\0\3" + OffsetCommitValue(offset=9, leader_epoch=0, commit_timestamp=5).encode(3)
    new = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    assert formatter_of(new, {}).format(record(key, value)) == (
        b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":2}},"value":{"version":3,'
        b'"data":{"offset":9,"leaderEpoch":0,"metadata":"","commitTimestamp":5}}}'
    )


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("PT0.5S", 500), ("P1DT1S", 86_401_000)],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


def test_what_is_no_time_is_refused() -> None:
    for text in ("1h", "P", "PT"):
        with pytest.raises(ResetError, match=f"{text} is not a duration"):
            duration_ms(text)
    with pytest.raises(ResetError, match="yesterday is not a time"):
        datetime_ms("yesterday")
    assert datetime_ms("1970-01-01T00:00:01.500") == 1500
    assert datetime_ms("1970-01-01T01:00:00.000+01:00") == 0
    assert time_of("earliest") == -2
    with pytest.raises(CommandFault, match="Malformed time argument abc"):
        time_of("abc")


def test_partitions_are_chosen_by_ranges() -> None:
    rule = rule_of("orders:1-3")
    assert [number for number in range(5) if rule("orders", number)] == [1, 2]
    assert rule_of(":2")("any", 2)
    assert not rule_of("a.*:5-")("abc", 4)


def test_settings_with_commas_are_grouped_by_brackets() -> None:
    assert added("a=1,b=[x,y],c=z=1") == {"a": "1", "b": "x,y", "c": "z=1"}
    with pytest.raises(UsageFault):
        added("a")


def test_topics_are_matched_as_a_whole() -> None:
    assert topic_pattern("a.*,b").fullmatch("abc")
    assert topic_pattern("a.*,b").fullmatch("b")
    assert not topic_pattern("a").fullmatch("ab")
    with pytest.raises(CommandFault, match="invalid regex"):
        topic_pattern("(")


def test_replica_assignments_must_fit_together() -> None:
    assert assignment_of("0:1,1:0") == [[0, 1], [1, 0]]
    with pytest.raises(CommandFault, match="duplicate"):
        assignment_of("0:0")
    with pytest.raises(CommandFault, match="different replication factor"):
        assignment_of("0:1,1")


def test_an_assignment_is_shown_by_topic() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)]
    assert assignment_text(partitions) == "a:0,2;b:1"
    assert assignment_text([]) is None


def test_a_proposed_plan_knows_racks_only_if_all_brokers_have_one() -> None:
    racks = [Node(1, "h", 1, "a"), Node(2, "h", 2, "b")]
    assert racks_of(racks) == {1: "a", 2: "b"}
    assert racks_of([Node(1, "h", 1), Node(2, "h", 2)]) == {}
    with pytest.raises(CommandFault, match="Not all brokers have rack information"):
        racks_of([*racks, Node(3, "h", 3)])


def test_a_plan_that_makes_no_sense_is_refused() -> None:
    row = {"topic": "t", "partition": 0, "replicas": [1]}
    assert plan_of({"partitions": [row]}) == {TopicPartition("t", 0): [1]}
    for bad in ({}, {"partitions": []}, {"partitions": [row, row]}, {"partitions": [{"topic": 1}]}):
        with pytest.raises(CommandFault):
            plan_of(bad)


def test_the_shell_is_told_what_may_follow() -> None:
    assert "topics" in following(["moldau", "to"])
    assert following(["moldau", "topics", "--desc"]) == ["--describe"]
    assert following(["bin/kafka-topics.sh", "--desc"]) == ["--describe"]
    assert following(["moldau", "transactions", "find"]) == ["find-hanging"]
    types = following(["moldau", "leader-election", "--election-type", ""])
    assert types == ["preferred", "unclean"]


def test_the_answer_of_zookeepers_shell_is_without_its_asides() -> None:
    printed = (
        "Connecting to 127.0.0.1:2181\n\nWATCHER::\n\n"
        "WatchedEvent state:SyncConnected type:None path:null zxid: -1\n[brokers, zookeeper]\n"
    )
    assert answer_in(printed) == ["[brokers, zookeeper]"]
