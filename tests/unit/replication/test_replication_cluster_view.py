"""UpdateMetadata requests become images: all brokers each time, of topics only what changed."""

from __future__ import annotations

from moldau.model.cluster import ClusterImage, Endpoint
from moldau.replication.metadata_cache import ClusterView
from moldau.wire.messages.replication import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ID, OTHER_ID = bytes(15) + b"1", bytes(15) + b"2"


def state(partition: int, leader: int, epoch: int = 0) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=[leader],
        replicas=[1, 2],
        zk_version=4,
        offline_replicas=[2],
    )


def request(
    *states: UpdateMetadataPartitionState, topic_id: bytes = ID, brokers: tuple[int, ...] = (1, 2)
) -> UpdateMetadataRequest:
    topic = UpdateMetadataTopicState(
        topic_name="t", topic_id=topic_id, partition_states=list(states)
    )
    return UpdateMetadataRequest(
        controller_id=2,
        controller_epoch=7,
        topic_states=[topic] if states else [],
        live_brokers=[
            UpdateMetadataBroker(
                id=broker,
                rack="" if broker == 1 else "east",
                endpoints=[
                    UpdateMetadataEndpoint(
                        host="h", port=9000 + broker, listener="INSIDE", security_protocol=0
                    )
                ],
            )
            for broker in brokers
        ],
    )


def view_of(*requests: UpdateMetadataRequest) -> ClusterImage:
    view = ClusterView(1, "cluster")
    for each in requests:
        view.update_metadata(each)
    return view.image


def test_brokers_topics_and_the_controller_are_known() -> None:
    image = view_of(request(state(0, 1, 3), state(1, 2)))
    assert (image.cluster_id, image.controller_id) == ("cluster", 2)
    assert image.brokers[2].endpoint("INSIDE") == Endpoint("INSIDE", "h", 9002)
    assert (image.brokers[1].rack, image.brokers[2].rack) == (None, "east")
    first = image.topics["t"].partitions[0]
    assert (first.leader, first.leader_epoch, first.partition_epoch) == (1, 3, 4)
    assert (first.replicas, first.isr, first.offline) == ((1, 2), (1,), (2,))
    assert image.topic_names == {ID: "t"}


def test_what_is_not_mentioned_stays_and_brokers_not_mentioned_are_gone() -> None:
    image = view_of(request(state(0, 1), state(1, 2)), request(state(1, 1, 1), brokers=(1,)))
    assert [each.leader for each in image.topics["t"].partitions] == [1, 1]
    assert list(image.brokers) == [1]


def test_a_request_without_topics_leaves_them_the_very_same() -> None:
    view = ClusterView(1, "cluster")
    before = view.update_metadata(request(state(0, 1))).topics
    assert view.update_metadata(request(brokers=(1,))).topics is before


def test_a_partition_that_is_being_deleted_goes_and_with_the_last_one_the_topic() -> None:
    image = view_of(request(state(0, 1)), request(state(0, -2)))
    assert not image.topics
    assert not image.topic_names


def test_a_topic_made_anew_under_its_name_has_nothing_of_the_earlier_one() -> None:
    image = view_of(request(state(0, 1), state(1, 2)), request(state(0, 2), topic_id=OTHER_ID))
    assert len(image.topics["t"].partitions) == 1
    assert image.topic_names == {OTHER_ID: "t"}


def test_a_controller_that_was_replaced_is_stale() -> None:
    view = ClusterView(1, "cluster")
    view.update_metadata(request())
    assert view.is_stale(6)
    assert not view.is_stale(7)


def test_settings_come_from_elsewhere_and_stay() -> None:
    view = ClusterView(1, "cluster")
    view.with_configs(topic_configs={"t": {"retention.ms": "1"}})
    assert view.update_metadata(request(state(0, 1))).topic_configs["t"] == {"retention.ms": "1"}
