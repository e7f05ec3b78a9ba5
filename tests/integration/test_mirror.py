"""Mirrors between two brokers by the command, on real processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import moldau.testing
from moldau import errors
from moldau.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    ConfigResource,
    NewTopic,
    TopicPartition,
)
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.testing.forks import fork
from moldau.testing.local_broker import LocalBroker
from tests.support import seeds
from tests.support.backups import back_up, restore_whole
from tests.support.eventually import eventually
from tests.support.mirrors import (
    bytes_of,
    kill,
    mirror,
    mirror_file,
    mirror_well,
    start_mirror,
)
from tests.support.tracked_topic import create, delete, delete_records, produce, read

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def source() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as source:
        yield source


@pytest.fixture(scope="module")
def target() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as target:
        yield target


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def write_transactions(bootstrap: str, topic: str, name: str) -> Producer:
    """Ten that are committed, ten that are aborted, and one that stays open: its producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(SECONDS_MAX)
    for number in range(20):
        producer.begin_transaction()
        producer.produce(topic, f"{number} in a transaction")
        if number % 2:
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(SECONDS_MAX) == 0
    return producer


def test_a_mirror_has_the_same_bytes_and_is_promoted(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    create(source.bootstrap, "orders", partitions=3, **{"retention.ms": "1234567000"})
    for codec in CODECS:
        with source.producer(compression_type=codec) as producer:
            for number in range(300):
                producer.send("orders", f"{number} {codec}" * 20, key=str(number))
    producers = write_transactions(source.bootstrap, "orders", "writer")
    with source.admin() as admin:
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 7})
    file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex="orders")
    mirror_well("run", file, "--once")

    for partition in range(3):
        assert bytes_of(target, "orders", partition) == bytes_of(source, "orders", partition) != b""
    with source.admin() as there, target.admin() as here:
        original = there.describe_topics(["orders"])["orders"]
        repeated = here.describe_topics(["orders"])["orders"]
        assert repeated.topic_id == original.topic_id
        resource = ConfigResource.topic("orders")
        assert here.describe_configs([resource])[resource]["retention.ms"].value == "1234567000"
        offsets = here.list_group_offsets(["billing"])["billing"]
        assert offsets == {TopicPartition("orders", 0): OffsetAndMetadata(7)}
    rows = json.loads(mirror_well("status", file, "--json"))["topics"]
    assert [(row["target"], row["lag"], row["state"]) for row in rows] == [
        ("orders", 0, "mirrored")
    ]

    said = mirror_well("promote", file)
    assert "Promoted orders: 1 open transactions aborted." in said
    values = [row.value for row in target.read("orders", 1510, isolation_level="read_committed")]
    assert len(values) == 1510 and b"open" not in values
    with target.admin() as admin:
        topic = admin.describe_topics(["orders"])["orders"]
        configs = admin.describe_configs([resource])[resource]
        assert "mirror.source" not in configs
    assert all(row.leader_epoch >= 1 << 16 for row in topic.partitions)
    # New producers get ids that nobody has at the source, and readers of both are content.
    write_transactions(target.bootstrap, "orders", "writer").abort_transaction(SECONDS_MAX)
    assert len(target.read("orders", 1520, isolation_level="read_committed")) == 1520
    producers.abort_transaction(SECONDS_MAX)


def test_a_mirror_takes_records_from_nobody_else(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(source.bootstrap, "fenced", range(10))
    file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex="fenced")
    mirror_well("run", file, "--once")
    for settings in ({"enable_idempotence": False}, {"acks": "all"}):
        with (
            target.producer(**settings) as producer,
            pytest.raises(errors.PolicyViolationError, match="until it is promoted"),
        ):
            producer.send("fenced", "mine").result(SECONDS_MAX)
    resource = ConfigResource.topic("fenced")
    with target.admin() as admin:
        place = TopicPartition("fenced", 0)
        with pytest.raises(errors.PolicyViolationError):
            admin.delete_records({place: 5})
        for change in ({"mirror.source": None}, {"mirror.source": "another"}):
            with pytest.raises(errors.PolicyViolationError):
                admin.incremental_alter_configs({resource: change})
        admin.alter_configs({resource: {"retention.ms": "99000000"}})
        assert "mirror.source" in admin.describe_configs([resource])[resource]
        made = NewTopic("false", 1, 1, configs={"mirror.source": "a/b/c"})
        with pytest.raises(errors.PolicyViolationError):
            admin.create_topics([made])
    assert read(target.bootstrap, "fenced") == texts(range(10))


def test_transactions_that_touch_a_mirror_are_refused_and_end(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(source.bootstrap, "shut", range(10))
    create(target.bootstrap, "open")
    file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex="shut")
    mirror_well("run", file, "--once")
    with target.producer(transactional_id="toucher") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("open", "0")
        with pytest.raises(errors.PolicyViolationError):
            producer.send("shut", "mine").result(SECONDS_MAX)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("open", "1")
        producer.commit_transaction()
    (row,) = target.read("open", 1, isolation_level="read_committed")
    assert row.value == b"1"
    assert bytes_of(target, "shut") == bytes_of(source, "shut")


def check_kills(
    source: LocalBroker, target: LocalBroker, directory: Path, topic: str, kills: int
) -> None:
    """The mirror and its target are killed at random while records come: none twice, none lost."""
    chance = seeds.chance()
    create(source.bootstrap, topic, partitions=2)
    file = mirror_file(directory, source.bootstrap, target.bootstrap, topics_regex=topic)
    sent = 0
    with source.producer(acks="all") as producer:
        for number in range(kills):
            process = start_mirror(file)
            try:
                for _ in range(chance.randrange(1, 2000)):
                    producer.send(topic, f"{sent} " + "x" * 500, key=str(sent))
                    sent += 1
                producer.flush()
                if chance.random() < 0.7:
                    ends = chance.randrange(sent + 1)
                    eventually(lambda ends=ends: copied(target, topic) >= ends, SECONDS_MAX)
                if number % 3 == 2:
                    target.kill()
                    target.restart()
            finally:
                kill(process)
    mirror_well("run", file, "--once")
    for partition in range(2):
        assert bytes_of(target, topic, partition) == bytes_of(source, topic, partition)


def copied(target: LocalBroker, topic: str) -> int:
    return sum(path.stat().st_size // 500 for path in target.data.glob(f"{topic}-*/*.log"))


def test_a_mirror_that_is_killed_goes_on_where_the_target_ends(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    check_kills(source, target, tmp_path, "killed", 3)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_mirror_that_is_killed_twenty_times_goes_on_where_the_target_ends(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    check_kills(source, target, tmp_path, "killed-often", 20)


def test_what_the_source_lost_or_deleted_stops_a_partition_and_is_said(
    target: LocalBroker, tmp_path: Path
) -> None:
    data, earlier = tmp_path / "data", tmp_path / "earlier"
    with moldau.testing.broker(SETTINGS, with_faults=False, directory=data) as source:
        for topic in ("reborn", "short", "other"):
            produce(source.bootstrap, topic, range(50))
        source.stop()
        shutil.copytree(data, earlier)
        source.start()
        for topic in ("short", "other"):
            produce(source.bootstrap, topic, range(50, 100))
        pattern = "reborn|short|other"
        file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex=pattern)
        mirror_well("run", file, "--once")
        # Put back to an earlier state; then `other` gets other records at the same offsets.
        source.stop()
        shutil.rmtree(data)
        shutil.copytree(earlier, data)
        source.start()
        produce(source.bootstrap, "other", range(1000, 1100))
        delete(source.bootstrap, "reborn")
        produce(source.bootstrap, "reborn", range(7))
        file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex=pattern)
        done = mirror("run", file, "--once")
        assert done.returncode == 3, done.stdout + done.stderr
        assert "Topic reborn is not mirrored: the source's topic was deleted and" in done.stderr
        assert "short-0 is not mirrored any more: the source has other records" in done.stderr
        assert "other-0 is not mirrored any more: the source has another batch" in done.stderr
        assert read(target.bootstrap, "reborn") == texts(range(50))
        for topic in ("short", "other"):
            assert read(target.bootstrap, topic) == texts(range(100))


def test_records_that_were_deleted_before_they_were_mirrored_are_missed_aloud(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(source.bootstrap, "hasty", range(50))
    delete_records(source.bootstrap, "hasty", 20)
    file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex="hasty")
    # A mirror begins where the source begins.
    mirror_well("run", file, "--once")
    assert read(target.bootstrap, "hasty") == texts(range(20, 50))
    produce(source.bootstrap, "hasty", range(50, 100))
    delete_records(source.bootstrap, "hasty", 60)
    done = mirror("run", file, "--once")
    assert done.returncode == 3
    assert "the source has deleted the records from offset 50 to 59" in done.stderr
    assert read(target.bootstrap, "hasty") == texts(range(20, 50))


def test_settings_and_partitions_follow_the_source_and_groups_stay_behind_the_records(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    create(source.bootstrap, "grows", **{"retention.ms": "1000000000"})
    produce(source.bootstrap, "grows", range(10))
    file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex="grows")
    process = start_mirror(file)
    resource, place = ConfigResource.topic("grows"), TopicPartition("grows", 0)
    try:
        eventually(lambda: copied_records(target, "grows") == 10)
        with source.admin() as there, target.admin() as here:
            there.incremental_alter_configs(
                {resource: {"retention.ms": None, "segment.bytes": "2000000"}}
            )
            there.create_partitions({"grows": 2})
            there.alter_group_offsets("followers", {place: 4})

            def is_followed() -> bool:
                settings = here.describe_configs([resource])[resource]
                topic = here.describe_topics(["grows"])["grows"]
                offsets = here.list_group_offsets(["followers"])["followers"]
                return (
                    settings["segment.bytes"].value == "2000000"
                    and settings["retention.ms"].value == "604800000"
                    and len(topic.partitions) == 2
                    and offsets.get(place) == OffsetAndMetadata(4)
                )

            eventually(is_followed)
    finally:
        kill(process)


def copied_records(target: LocalBroker, topic: str) -> int:
    with target.admin() as admin:
        if topic not in admin.list_topics():
            return -1
        return len(read(target.bootstrap, topic))


@pytest.mark.long
def test_two_clusters_that_mirror_each_other_under_prefixes_come_to_an_end(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(source.bootstrap, "both", range(10))
    produce(target.bootstrap, "both", range(100, 110))
    (tmp_path / "there").mkdir()
    (tmp_path / "back").mkdir()
    pattern = r"(a\.|b\.)*both"
    there = mirror_file(
        tmp_path / "there", source.bootstrap, target.bootstrap, topics_regex=pattern, prefix="a."
    )
    back = mirror_file(
        tmp_path / "back", target.bootstrap, source.bootstrap, topics_regex=pattern, prefix="b."
    )
    for _ in range(2):
        mirror_well("run", there, "--once")
        mirror_well("run", back, "--once")
    assert read(target.bootstrap, "a.both") == texts(range(10))
    assert read(source.bootstrap, "b.both") == texts(range(100, 110))
    for broker in (source, target):
        with broker.admin() as admin:
            names = {name for name in admin.list_topics() if name.endswith("both")}
        assert names == {"both", "a.both" if broker is target else "b.both"}


def test_access_rules_come_and_go_with_those_of_the_source(tmp_path: Path) -> None:
    own = {
        **SETTINGS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with (
        moldau.testing.broker(own, in_process=True, with_faults=False) as source,
        moldau.testing.broker(own, in_process=True, with_faults=False) as target,
    ):
        produce(source.bootstrap, "ruled", range(10))
        rules = [
            Acl("User:alice", AclResourceType.TOPIC, "ruled", AclOperation.READ),
            Acl("User:alice", AclResourceType.TOPIC, "other", AclOperation.READ),
            Acl("User:alice", AclResourceType.GROUP, "readers", AclOperation.READ),
            Acl("User:bob", AclResourceType.CLUSTER, "kafka-cluster", AclOperation.ALTER),
        ]
        with source.admin() as there, target.admin() as here:
            there.create_acls(rules)
            here.create_acls([Acl("User:zoe", AclResourceType.TOPIC, "ruled", AclOperation.READ)])
            (own_rule,) = here.describe_acls()
            file = mirror_file(
                tmp_path,
                source.bootstrap,
                target.bootstrap,
                topics_regex="ruled",
                prefix="a.",
                copy="settings,groups,acls",
            )
            process = start_mirror(file)
            try:
                wanted = {own_rule, rules[0]._replace(resource_name="a.ruled"), rules[2]}
                eventually(lambda: set(here.describe_acls()) == wanted)
                there.delete_acls([AclFilter(resource_type=AclResourceType.GROUP)])
                eventually(lambda: set(here.describe_acls()) == wanted - {rules[2]})
            finally:
                kill(process)


@pytest.mark.long
def test_a_fork_of_a_mirror_is_one_and_what_comes_from_a_backup_is_none(
    source: LocalBroker, target: LocalBroker, tmp_path: Path
) -> None:
    produce(source.bootstrap, "carried", range(10))
    file = mirror_file(tmp_path, source.bootstrap, target.bootstrap, topics_regex="carried")
    mirror_well("run", file, "--once")
    with target.admin() as admin:
        info = admin.create_snapshot("with-a-mirror")
    path = Path(f"{info.directories[0]}-snapshots") / info.name
    with fork(path, with_faults=False) as forked:
        with (
            forked.producer() as producer,
            pytest.raises(errors.PolicyViolationError),
        ):
            producer.send("carried", "mine").result(SECONDS_MAX)
        there = mirror_file(tmp_path, source.bootstrap, forked.bootstrap, topics_regex="carried")
        mirror_well("promote", there)
        produce(forked.bootstrap, "carried", range(10, 20))
        assert read(forked.bootstrap, "carried") == texts(range(20))
    back_up(target.bootstrap, tmp_path / "backup", "--topics", "carried")
    with moldau.testing.broker(SETTINGS, with_faults=False) as restored:
        restore_whole(restored.bootstrap, tmp_path / "backup")
        produce(restored.bootstrap, "carried", range(10, 20))
        assert read(restored.bootstrap, "carried") == texts(range(20))
