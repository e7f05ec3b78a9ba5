"""Doctor's diagnoses from evidence alone: what no single broker on loopback can be made to show."""

from __future__ import annotations

import io
import shlex

import pytest

from moldau.cli.doctor import show
from moldau.cli.output import Output
from moldau.diagnosis.diagnosing import diagnose
from moldau.diagnosis.evidence import (
    BrokerSight,
    ClockSight,
    ClusterSight,
    Evidence,
    Finding,
    GroupSight,
    Limits,
    LogDirSight,
    LogSight,
    PartitionSight,
    Probe,
    Reach,
    Severity,
    TopicSight,
    few,
)
from moldau.diagnosis.ill_addresses import BOOTSTRAP, unreachable_bootstrap
from moldau.diagnosis.probe import recognize
from moldau.model.names import TopicPartition

WAY_IN = Probe("kafka.example", 9092, Reach.KAFKA, addresses=("192.0.2.1",))


def evidence(*brokers: BrokerSight, topics: tuple[TopicSight, ...] = ()) -> Evidence:
    cluster = ClusterSight("one", brokers[0].id, brokers, topics)
    seen = Evidence("kafka.example:9092", now_ms=1_000_000, probes=[WAY_IN], cluster=cluster)
    seen.broker_probes = {each.id: Probe(each.host, each.port, Reach.KAFKA) for each in brokers}
    return seen


def found(seen: Evidence, limits: Limits | None = None) -> dict[str, Finding]:
    return {each.code: each for each in diagnose(seen, limits or Limits())}


def brokers(count: int) -> list[BrokerSight]:
    return [BrokerSight(number, "kafka.example", 9092 + number) for number in range(count)]


def test_a_cluster_in_order_has_no_findings() -> None:
    partition = PartitionSight(0, 0, (0, 1, 2), (0, 1, 2))
    seen = evidence(*brokers(3), topics=(TopicSight("orders", False, (partition,)),))
    seen.logs[TopicPartition("orders", 0)] = LogSight(0, 5, 5, 999_000)
    seen.clock = ClockSight(0, 20, 3)
    assert found(seen) == {}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_loopback_address_is_wrong_for_whoever_came_by_another(host: str) -> None:
    finding = found(evidence(BrokerSight(0, host, 9092)))["advertised-loopback"]
    assert "their own loopback" in finding.cause
    assert "advertised.listeners=PLAINTEXT://kafka.example:9092" in finding.command


def test_a_loopback_address_is_right_for_whoever_came_by_it() -> None:
    seen = evidence(BrokerSight(0, "localhost", 9092))
    seen.probes = [Probe("127.0.0.1", 9092, Reach.KAFKA)]
    assert found(seen) == {}


def test_two_brokers_with_one_address() -> None:
    seen = evidence(BrokerSight(0, "kafka.example", 9092), BrokerSight(1, "kafka.example", 9092))
    assert "brokers 0, 1" in found(seen)["advertised-shared"].what


def test_an_unreachable_broker_on_the_same_host_is_not_a_wrong_port_if_the_way_in_is_listed() -> (
    None
):
    seen = evidence(*brokers(2))
    seen.broker_probes[1] = Probe("kafka.example", 9093, Reach.REFUSED)
    assert list(found(seen)) == ["broker-unreachable"]


def test_an_advertised_tls_listener() -> None:
    seen = evidence(*brokers(2))
    seen.broker_probes[1] = Probe("kafka.example", 9093, Reach.TLS)
    assert "speaks TLS" in found(seen)["advertised-other-protocol"].what


@pytest.mark.parametrize("reach", [each for each in Reach if each is not Reach.KAFKA])
def test_every_way_to_fail_at_the_bootstrap_server_has_its_sentences(reach: Reach) -> None:
    assert reach in BOOTSTRAP
    finding = unreachable_bootstrap(Probe("a.example", 9092, reach), is_fatal=True)
    assert finding.severity is Severity.ERROR
    assert "a.example" in finding.what
    assert "{" not in "".join((finding.what, finding.cause, finding.fix, finding.command))


@pytest.mark.parametrize(
    ("reply", "reach"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", Reach.HTTP),
        (b"\x15\x03\x03\x00\x02\x02\x46", Reach.TLS),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Reach.FOREIGN),
    ],
)
def test_a_reply_that_is_not_kafkas_is_recognized(reply: bytes, reach: Reach) -> None:
    assert recognize(reply)[0] is reach


def test_an_internal_topic_with_one_replica_in_a_cluster_of_three() -> None:
    topic = TopicSight("__consumer_offsets", True, (PartitionSight(0, 0, (0,), (0,)),))
    finding = found(evidence(*brokers(3), topics=(topic,)))["internal-topic-too-thin"]
    assert "1 replica in a cluster of 3 brokers" in finding.what


def test_an_internal_topic_that_asks_for_more_replicas_than_brokers_is_a_note() -> None:
    seen = evidence(*brokers(1))
    seen.broker_settings = {"offsets.topic.replication.factor": "3"}
    finding = found(seen)["internal-topic-too-wide"]
    assert finding.severity is Severity.NOTE
    assert "offsets.topic.replication.factor=1" in finding.command


def test_log_directories_that_are_offline_or_full() -> None:
    seen = evidence(*brokers(1))
    seen.log_dirs = [
        LogDirSight(0, "/data/1", "Disk error."),
        LogDirSight(0, "/data/2", "", 1000, 49),
        LogDirSight(0, "/data/3", "", 1000, 50),
    ]
    assert [each.what.split()[-1] for each in found(seen).values()] == ["offline", "left"]


def test_a_slow_question_is_not_taken_for_a_wrong_clock() -> None:
    seen = evidence(*brokers(1))
    seen.clock = ClockSight(0, 61_000, 2_000)
    assert found(seen) == {}
    seen.clock = ClockSight(0, 61_000, 1)
    assert list(found(seen)) == ["clock-skew-broker"]


def test_members_without_partitions_and_offsets_of_a_deleted_topic_are_notes() -> None:
    seen = evidence(*brokers(1))
    committed = {TopicPartition("gone", 0): 5}
    seen.groups = [GroupSight("billing", "Stable", 3, (1, 1, 0), committed=committed)]
    notes = found(seen)
    assert list(notes) == ["group-topic-gone", "group-idle-members"]
    assert {each.severity for each in notes.values()} == {Severity.NOTE}


def test_the_gravest_finding_comes_first_and_the_last_lines_count_and_lead_on() -> None:
    seen = evidence(BrokerSight(0, "localhost", 9092))
    seen.groups = [GroupSight("billing", "PreparingRebalance", 1, is_stuck=True)]
    stream = io.StringIO()
    show(Output(stream, is_terminal=False), seen, diagnose(seen, Limits()))
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("ERROR: broker 0 advertises localhost:9092")
    assert lines[-2].endswith("1 group: 1 error, 1 warning.")
    assert lines[-1].endswith(": docs/troubleshooting.md")
    assert "\x1b" not in stream.getvalue()


def test_what_was_not_checked_ends_with_one_full_stop() -> None:
    seen = evidence(BrokerSight(0, "localhost", 9092))
    seen.not_checked("the clock", "Cluster authorization failed.")
    stream = io.StringIO()
    show(Output(stream, is_terminal=False), seen, [])
    assert "Not checked: the clock: Cluster authorization failed.\n" in stream.getvalue()


def test_a_long_list_is_cut() -> None:
    assert few(range(7)) == "0, 1, 2, 3, 4 and 2 more"


def test_a_name_that_a_client_chose_never_becomes_a_command_of_its_own() -> None:
    partition = PartitionSight(0, 0, (0,), (0,))
    seen = evidence(*brokers(1), topics=(TopicSight("orders", False, (partition,)),))
    seen.logs[TopicPartition("orders", 0)] = LogSight(0, 5, 5, 999_000)
    committed = {TopicPartition("orders", 0): 0}
    seen.groups = [GroupSight("x; touch stolen $(id)", "Empty", 0, (), committed=committed)]
    commands = [each.command for each in diagnose(seen, Limits()) if "--group" in each.command]
    assert commands
    for command in commands:
        words = shlex.split(command)
        assert words[words.index("--group") + 1] == "x; touch stolen $(id)"
