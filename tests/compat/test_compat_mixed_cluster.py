"""Two brokers of Apache Kafka 3.9.1 and one of Moldau are one cluster on one ZooKeeper.

Each kind leads, follows and controls the other; what a partition's replicas hold is the same to the
byte on both; groups and transactions go on wherever their coordinator is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from moldau import Admin
from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.mixed_cluster import (
    ELECT,
    SECONDS_MAX,
    TOPICS,
    Cluster,
    Kafka39Process,
    cluster,
    stopped,
)

pytestmark = pytest.mark.compat

APACHE, APACHE_2, MOLDAU = 1, 2, 3
EVERY_ORDER = [[APACHE, APACHE_2, MOLDAU], [APACHE_2, MOLDAU, APACHE], [MOLDAU, APACHE, APACHE_2]]
KINDS = {APACHE: Kafka39Process, APACHE_2: Kafka39Process, MOLDAU: BrokerProcess}
CONTROLLERS = [pytest.param(APACHE, id="apache"), pytest.param(MOLDAU, id="moldau")]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("mixed"), KINDS) as made:
        yield made


def write(mixed: Cluster, topic: str, partitions: int, values: list[str]) -> None:
    settings = {"bootstrap.servers": mixed.bootstrap, "log_level": 0, "linger.ms": 2}
    producer = Producer({**settings, "enable.idempotence": True, "retry.backoff.ms": 50})
    faults: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda fault, _: faults.append(fault),
        )
    producer.flush(SECONDS_MAX)
    assert faults == [None] * len(values)


def read(mixed: Cluster, topic: str, partitions: int, count: int) -> list[list[str]]:
    """Values by partition, of committed records."""
    settings = {"bootstrap.servers": mixed.bootstrap, "group.id": "reader", "log_level": 0}
    reader = Consumer({**settings, "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    values: list[list[str]] = [[] for _ in range(partitions)]
    for _ in range(count):
        message = reader.poll(SECONDS_MAX)
        assert message is not None, f"{count} records were awaited, {values} came"
        assert message.error() is None
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        values[partition].append(value.decode())
    reader.close()
    return values


def test_transactions_stay_as_apache_kafka_knows_them_while_one_of_its_brokers_is_there(
    mixed: Cluster,
) -> None:
    with Admin(bootstrap_servers=mixed.brokers[MOLDAU].bootstrap) as admin:
        eventually(
            lambda: "transaction.version" not in admin.describe_features(MOLDAU).finalized,
            SECONDS_MAX,
        )
    assert json.loads(mixed.tree.get("/feature")[0])["features"] == {}
    said = json.loads(mixed.tree.get(f"/brokers/ids/{MOLDAU}")[0])["features"]
    assert said == {"transaction.version": {"min_version": 1, "max_version": 2}}


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_each_kind_leads_and_follows_the_other(mixed: Cluster, controller: int) -> None:
    topic = f"led-{controller}"
    mixed.put_in_office(controller)
    mixed.create(topic, EVERY_ORDER)
    values = [f"value {n}" for n in range(3000)]
    write(mixed, topic, 3, values)
    mixed.until_replicas_agree(topic, EVERY_ORDER)
    assert read(mixed, topic, 3, 3000) == [values[n::3] for n in range(3)]
    for partition in range(3):
        dumps = [mixed.dump(number, topic, partition) for number in (APACHE, MOLDAU)]
        assert dumps[0] == dumps[1]
        assert any("partitionLeaderEpoch: 0" in line for line in dumps[0])


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_leaders_of_each_kind_shrink_and_expand_their_isr(mixed: Cluster, controller: int) -> None:
    topic = f"isr-{controller}"
    mixed.put_in_office(controller)
    mixed.create(topic, EVERY_ORDER)
    write(mixed, topic, 3, ["before"] * 30)
    # A follower that stands still for longer than replica.lag.time.max.ms, not than its session.
    with stopped([mixed.brokers[APACHE_2].pid]):
        mixed.until_in_sync(topic, 0, APACHE, MOLDAU)
        mixed.until_in_sync(topic, 2, MOLDAU, APACHE)
    mixed.until_replicas_agree(topic, EVERY_ORDER)
    if controller != MOLDAU:
        with stopped([mixed.brokers[MOLDAU].pid]):
            mixed.until_in_sync(topic, 0, APACHE, APACHE_2)
    write(mixed, topic, 3, ["after"] * 30)
    mixed.until_replicas_agree(topic, EVERY_ORDER)


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize(
    "gone", [pytest.param(APACHE_2, id="apache"), pytest.param(MOLDAU, id="moldau")]
)
def test_a_broker_that_stops_hands_over_and_comes_back(
    mixed: Cluster, controller: int, gone: int
) -> None:
    topic = f"stop-{controller}-{gone}"
    mixed.put_in_office(controller)
    mixed.create(topic, EVERY_ORDER)
    write(mixed, topic, 3, ["one"] * 300)
    broker = mixed.brokers[gone]
    assert broker.stop() in (0, 143)
    left = [number for number in KINDS if number != gone]
    led = [mixed.state(topic, n)["leader"] for n in range(3)]
    assert gone not in led
    for partition in range(3):
        mixed.until_in_sync(topic, partition, *left)
    write(mixed, topic, 3, ["two"] * 300)
    broker.start()
    mixed.until_replicas_agree(topic, EVERY_ORDER)
    mixed.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    for partition, replicas in enumerate(EVERY_ORDER):
        mixed.until_led(topic, partition, replicas[0])
    write(mixed, topic, 3, ["three"] * 300)
    mixed.until_replicas_agree(topic, EVERY_ORDER)


@pytest.mark.parametrize("killed", CONTROLLERS)
def test_the_other_kind_takes_over_from_a_controller_and_leader_that_is_killed(
    mixed: Cluster, killed: int
) -> None:
    topic = f"kill-{killed}"
    heir = MOLDAU if killed != MOLDAU else APACHE
    order = [[killed, heir], [heir, killed]]
    mixed.put_in_office(killed)
    mixed.create(topic, order)
    write(mixed, topic, 2, ["one"] * 200)
    mixed.brokers[killed].kill()
    mixed.until_led(topic, 0, heir)
    mixed.until_in_sync(topic, 1, heir)
    assert mixed.node("/controller")["brokerid"] != killed
    write(mixed, topic, 2, ["two"] * 200)
    mixed.brokers[killed].start()
    mixed.until_replicas_agree(topic, order)
    assert read(mixed, topic, 2, 400) == [["one"] * 100 + ["two"] * 100] * 2
    dumps = [mixed.dump(number, topic, 0) for number in (killed, heir)]
    assert dumps[0] == dumps[1]
    epochs = [line.split("partitionLeaderEpoch: ")[1] for line in dumps[0] if "LeaderEpoch" in line]
    assert len({text.split()[0] for text in epochs}) == 2


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_topics_grow_change_and_go_on_every_broker(mixed: Cluster, controller: int) -> None:
    topic = f"lives-{controller}"
    mixed.put_in_office(controller)
    mixed.create(topic, EVERY_ORDER[:1])
    mixed.tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    eventually(
        lambda: all(len(mixed.seen_by(n, topic).topics[topic].partitions) == 3 for n in KINDS)
    )
    # Settings are changed at one broker and hold at all of them.
    entry = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = mixed.admin
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    eventually(lambda: {retention_at(mixed, number, topic) for number in KINDS} == {"7200000"})
    mixed.tool(TOPICS, "--delete", "--topic", topic)
    eventually(lambda: mixed.tree.exists(f"/brokers/topics/{topic}") is None, SECONDS_MAX)
    eventually(lambda: mixed.tree.get_children("/admin/delete_topics") == [])
    for broker in mixed.brokers.values():
        assert not list(broker.data.glob(f"{topic}-[0-9]"))


def retention_at(mixed: Cluster, number: int, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": mixed.brokers[number].bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    value: str = entries["retention.ms"].value
    return value
