"""The znodes' exact text, as Kafka 3.9 in ZooKeeper mode writes it."""

from __future__ import annotations

import pytest

from moldau.metadata import paths
from moldau.model.cluster import BrokerNode, Endpoint
from moldau.model.names import uuid_from_text

TOPIC_ID = uuid_from_text("ZOLr9CLNQjSW70hyIHx6BQ")


def test_the_controller() -> None:
    text = b'{"version":2,"brokerid":3,"timestamp":"1719917952299","kraftControllerEpoch":-1}'
    assert paths.encode_controller(3, 1719917952299) == text
    assert paths.decode_controller(text) == (3, 1719917952299)
    older = b'{"version":1,"brokerid":3,"timestamp":"17"}'
    assert paths.decode_controller(older) == (3, 17)


def test_the_controller_epoch_is_a_plain_number() -> None:
    assert paths.encode_controller_epoch(12) == b"12"
    assert paths.decode_controller_epoch(b"12") == 12


def test_the_cluster_id() -> None:
    text = b'{"version":"1","id":"Sfr7YvlkRHSHrmSrwq9mug"}'
    assert paths.encode_cluster_id("Sfr7YvlkRHSHrmSrwq9mug") == text
    assert paths.decode_cluster_id(text) == "Sfr7YvlkRHSHrmSrwq9mug"


def test_a_topic() -> None:
    text = (
        b'{"partitions":{"0":[0,1],"1":[1,2]},"topic_id":"ZOLr9CLNQjSW70hyIHx6BQ",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )
    topic = paths.TopicNode(TOPIC_ID, ((0, 1), (1, 2)))
    assert paths.encode_topic(topic) == text
    assert paths.decode_topic(text) == topic


def test_a_topic_that_is_being_moved() -> None:
    topic = paths.TopicNode(TOPIC_ID, ((0, 1, 2),), {0: (2,)}, {0: (0, 1)})
    assert paths.decode_topic(paths.encode_topic(topic)) == topic


def test_a_topic_of_an_older_kafka_has_no_id() -> None:
    topic = paths.decode_topic(b'{"version":1,"partitions":{"1":[2],"0":[1]}}')
    assert topic == paths.TopicNode(bytes(16), ((1,), (2,)))


def test_more_than_ten_partitions_keep_their_numbers() -> None:
    topic = paths.TopicNode(TOPIC_ID, tuple((number,) for number in range(25)))
    assert paths.decode_topic(paths.encode_topic(topic)) == topic


def test_a_partition_state() -> None:
    text = b'{"controller_epoch":20,"leader":1,"version":1,"leader_epoch":2,"isr":[1,0]}'
    state = paths.PartitionState(leader=1, leader_epoch=2, isr=(1, 0), controller_epoch=20)
    assert paths.encode_partition_state(state) == text
    assert paths.decode_partition_state(text) == state


def test_a_broker_with_two_listeners() -> None:
    text = (
        b'{"features":{"transaction.version":{"min_version":1,"max_version":2}},'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","OUT":"SSL"},'
        b'"endpoints":["PLAINTEXT://localhost:9092","OUT://[::1]:9093"],"rack":"r1",'
        b'"jmx_port":-1,"port":9092,"host":"localhost","version":5,"timestamp":"17"}'
    )
    node = BrokerNode(
        0,
        (Endpoint("PLAINTEXT", "localhost", 9092), Endpoint("OUT", "::1", 9093, "SSL")),
        "r1",
    )
    assert paths.encode_broker(node, 17) == text
    assert paths.decode_broker(0, text) == node
    assert paths.decode_broker_features(text) == {"transaction.version": 2}
    assert paths.decode_broker_features(b'{"features":{},"version":5}') == {}


def test_a_broker_without_a_plaintext_listener_has_no_host_for_old_clients() -> None:
    node = BrokerNode(0, (Endpoint("SSL", "h", 1, "SSL"),))
    encoded = paths.encode_broker(node, 17)
    assert b'"port":-1,"host":null' in encoded
    assert paths.decode_broker(0, encoded) == node


def test_a_broker_of_the_oldest_form() -> None:
    text = b'{"version":1,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2"}'
    assert paths.decode_broker(4, text) == BrokerNode(
        4, (Endpoint("PLAINTEXT", "localhost", 9092),)
    )


def test_settings() -> None:
    text = b'{"version":1,"config":{"retention.ms":"100000"}}'
    assert paths.encode_config({"retention.ms": "100000"}) == text
    assert paths.decode_config(text) == {"retention.ms": "100000"}
    assert paths.encode_config({}) == b'{"version":1,"config":{}}'
    assert paths.decode_config(b"") == {}


def test_a_block_of_producer_ids() -> None:
    text = b'{"version":1,"broker":0,"block_start":"8000","block_end":"8999"}'
    assert paths.encode_producer_id_block(paths.ProducerIdBlock(0, 8000, 8999)) == text
    assert paths.decode_producer_id_block(text) == (0, 8000, 8999)
    assert paths.decode_producer_id_block(b"") is None, "the node is made before the first block"


def test_notifications() -> None:
    assert paths.encode_config_change("topics/t") == b'{"version":2,"entity_path":"topics/t"}'
    text = b'{"version":1,"partitions":[{"topic":"t","partition":3}]}'
    assert paths.decode_isr_changes(text) == [("t", 3)]


def test_features() -> None:
    assert paths.encode_feature() == b'{"features":{},"version":2,"status":1}'
    data = b'{"features":{"transaction.version":1},"version":2,"status":1}'
    assert paths.encode_feature({"transaction.version": 1}) == data
    assert paths.decode_feature(data) == {"transaction.version": 1}
    older = (
        b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}'
    )
    assert paths.decode_feature(older) == {"f": 3}


def test_names_that_clients_choose_fit_into_a_path() -> None:
    for name, part in (
        ("my-group_1.x", "my-group_1.x"),
        ("a/b c", "a%2Fb%20c"),
        ("ä%", "%C3%A4%25"),
        ("..", "%2E%2E"),
    ):
        assert paths.entity_name(name) == part
        assert paths.name_of_entity(part) == name
    moves = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    assert paths.decode_reassignment(moves) == {("t", 0): (1, 2)}


def test_where_things_are() -> None:
    assert paths.broker_path(3) == "/brokers/ids/3"
    assert paths.partition_state_path("t", 2) == "/brokers/topics/t/partitions/2/state"
    assert paths.topic_config_path("t") == "/config/topics/t"
    assert paths.delete_topic_path("t") == "/admin/delete_topics/t"


def test_every_persistent_path_comes_after_its_parent() -> None:
    made = {""}
    for path in paths.PERSISTENT_PATHS:
        assert path.rpartition("/")[0] in made
        made.add(path)


def test_text_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a JSON object"):
        paths.decode_config(b"[1]")
