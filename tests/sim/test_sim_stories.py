"""What a seed brought to light, told in words; and how long one fault keeps writers waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.net.peers import PeerUnreachable
from moldau.records.batch_codec import Record, encode_batch
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from moldau.wire.messages.transactions import InitProducerIdRequest
from tests.sim.client import NAME as CLIENT
from tests.sim.cluster import SESSION_TIMEOUT_MS, Host
from tests.sim.load import PARTITIONS, TOPIC, TRANSACTIONS
from tests.sim.stories import Story, told
from tests.sim.tree import BEAT_US, ZOOKEEPER

PLACE = TopicPartition(TOPIC, 0)
WAIT_MS_MAX = 500
"""Beyond the session's end: for the controller's election and the partitions', and to be told."""
ATTEMPT_MS = 100
SEEDS_TRIED = 50


def produce(
    batch: bytes, transaction: str | None = None, partition: int = PLACE.partition
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        transactional_id=transaction,
        acks=-1,
        timeout_ms=1_500,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )


def led_by(story: Story, host: Host) -> list[int]:
    """Of the partitions that are written to."""
    return [n for n in range(PARTITIONS) if story.leader(TopicPartition(TOPIC, n)) is host]


def test_a_coordinator_that_does_not_know_it_was_replaced_disowns_a_new_producer() -> None:
    """Cut off from ZooKeeper alone, a broker goes on to lead and to coordinate for a while. Asked
    by a leader that does not know better either, it denies a producer that its successor has let
    in: as in Apache Kafka, the producer has to begin anew. Not in every life the coordinator leads
    a partition, or has time to answer before it knows: the first life that fits is told."""
    answers = (answer_of_an_old_coordinator(seed) for seed in range(SEEDS_TRIED))
    fits = (answer for answer in answers if answer not in (None, Error.NOT_ENOUGH_REPLICAS))
    assert next(fits, None) == Error.INVALID_PRODUCER_ID_MAPPING


def answer_of_an_old_coordinator(seed: int) -> int | None:
    """To a producer that its successor has let in; None if it leads no partition."""
    with told(seed) as story:
        invariants, client = story.invariants, story.client
        old = story.leader(TRANSACTIONS)
        led = led_by(story, old)
        if not led:
            return None
        story.scenario.network.cut(old.name, ZOOKEEPER)
        assert story.world.run_until(lambda: story.leader(TRANSACTIONS) is not old, 10_000)
        new = story.leader(TRANSACTIONS)
        assert invariants.had_old_leader(TRANSACTIONS, story.world.now_us)
        begin = InitProducerIdRequest(transactional_id="y", transaction_timeout_ms=60_000)

        async def meet_the_old_one() -> int:
            ids = await client.call(new.node_id, begin, 4, "y")
            while ids.error_code:
                await client.pause()
                ids = await client.call(new.node_id, begin, 4, "y")
            batch = encode_batch(
                [Record(0, 1_600_000_000_000, None, b"y")],
                producer_id=ids.producer_id,
                producer_epoch=ids.producer_epoch,
                base_sequence=0,
                transactional=True,
            )
            answer = await client.call(old.node_id, produce(batch, "y", led[0]), 11, "y")
            return int(answer.responses[0].partition_responses[0].error_code)

        answer: int = story.does(meet_the_old_one())
        story.end()
        story.passes(1_000)
        assert not invariants.had_old_leader(TRANSACTIONS, story.world.now_us)
        return answer


def test_a_broker_that_starts_again_takes_no_role_that_was_meant_for_its_earlier_life() -> None:
    """A controller that was held up tells a broker what it was to do before it was killed. The one
    that has taken its place is not registered yet: only when it is can it know that it is not
    meant. Else it would lead in an epoch that its own log has left behind."""
    with told() as story:
        host = story.leader(PLACE)
        assert host.broker is not None and host.broker._cluster is not None
        before = host.broker._cluster.member.broker_epoch
        topic = host.broker._cluster.member.image.topics[TOPIC]
        host.kill()
        host.start()
        role = LeaderAndIsrPartitionState(
            partition_index=PLACE.partition,
            controller_epoch=1,
            leader=host.node_id,
            leader_epoch=0,
            isr=[0, 1, 2],
            replicas=[0, 1, 2],
        )
        request = LeaderAndIsrRequest(
            controller_id=host.node_id,
            controller_epoch=1,
            broker_epoch=before,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=topic.id, partition_states=[role])
            ],
        )

        async def tell_the_old_role() -> int:
            while True:
                try:
                    answer = await story.client.call(host.node_id, request, 7, "old")
                    return int(answer.error_code)
                except PeerUnreachable:
                    await story.client.pause()

        assert story.does(tell_the_old_role()) == Error.STALE_BROKER_EPOCH
        story.end()


def kill(story: Story, host: Host) -> None:
    host.kill()


def pause(story: Story, host: Host) -> None:
    host.pause()


def cut_off(story: Story, host: Host) -> None:
    for other in (ZOOKEEPER, CLIENT, *(each.name for each in story.hosts if each is not host)):
        story.scenario.network.cut(host.name, other)


@pytest.mark.parametrize("fault", [kill, pause, cut_off])
@pytest.mark.parametrize("whom", ["leader", "follower", "controller"])
def test_one_fault_keeps_a_writer_waiting_for_little_more_than_the_session(
    whom: str, fault: Callable[[Story, Host], None]
) -> None:
    """The writer always knows who leads, so that all the waiting is the cluster's."""
    with told() as story:
        host = {
            "leader": story.leader(PLACE),
            "follower": story.follower(),
            "controller": story.controller,
        }[whom]
        fault(story, host)
        began_us = story.world.now_us
        story.does(write_to_whoever_leads(story))
        waited_ms = (story.world.now_us - began_us) / 1000
        assert waited_ms < SESSION_TIMEOUT_MS + BEAT_US / 1000 + WAIT_MS_MAX
        story.end()


async def write_to_whoever_leads(story: Story) -> None:
    request = produce(encode_batch([Record(0, 1_600_000_000_000, None, b"w")]))
    attempt = 0
    while True:
        attempt += 1
        leader = story.leader(PLACE).node_id
        try:
            async with asyncio.timeout(ATTEMPT_MS / 1000):
                answer = await story.client.call(leader, request, 11, f"w{attempt}")
            if not answer.responses[0].partition_responses[0].error_code:
                return
        except (PeerUnreachable, TimeoutError):
            continue
        await asyncio.sleep(ATTEMPT_MS / 1000)
