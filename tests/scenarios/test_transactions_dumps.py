"""Two producers, one transactional id or two: what a dump of the partition shows."""

from __future__ import annotations

from moldau.model.errors import ApiError, Error
from moldau.transactions.transaction_commands import ProducerGranted
from moldau.transactions.transaction_facts import VERSION_2
from tests.support.transaction_world import World
from tests.support.transcript_producer import PLACE, Producer


def dump(world: World) -> list[str]:
    return [f"offset: {offset} {row}" for offset, row in enumerate(world.partitions[PLACE].rows)]


def used_before(world: World, transactional_id: str, times: int) -> None:
    for _ in range(times):
        Producer(world, transactional_id).init_transactions()


def test_two_producers_with_one_id_give_epochs_and_an_abort_marker() -> None:
    world = World.of([PLACE])
    used_before(world, "anyValue", times=5)
    first, second = Producer(world, "anyValue"), Producer(world, "anyValue")
    first.init_transactions()
    first.send("thisIsMessageValue1")
    second.init_transactions()
    second.send("thisIsMessageValue2")
    second.end(committed=True)
    assert dump(world) == [
        "offset: 0 producerId: 0 producerEpoch: 5 payload: thisIsMessageValue1",
        "offset: 1 producerId: 0 producerEpoch: 6 endTxnMarker: ABORT coordinatorEpoch: 0",
        "offset: 2 producerId: 0 producerEpoch: 7 payload: thisIsMessageValue2",
        "offset: 3 producerId: 0 producerEpoch: 7 endTxnMarker: COMMIT coordinatorEpoch: 0",
    ]
    refused = first.end(committed=True)
    assert isinstance(refused, ApiError)
    assert refused.error == Error.PRODUCER_FENCED
    assert world.partitions[PLACE].visible() == ["thisIsMessageValue2"]


def test_with_two_ids_there_is_no_abort_marker_and_both_can_commit() -> None:
    world = World.of([PLACE])
    first, second = Producer(world, "anyValue"), Producer(world, "differentValue")
    first.init_transactions()
    first.send("thisIsMessageValue1")
    second.init_transactions()
    second.send("thisIsMessageValue2")
    second.end(committed=True)
    assert dump(world) == [
        "offset: 0 producerId: 0 producerEpoch: 0 payload: thisIsMessageValue1",
        "offset: 1 producerId: 1 producerEpoch: 0 payload: thisIsMessageValue2",
        "offset: 2 producerId: 1 producerEpoch: 0 endTxnMarker: COMMIT coordinatorEpoch: 0",
    ]
    assert first.end(committed=True) == ProducerGranted()
    assert world.partitions[PLACE].visible() == ["thisIsMessageValue2", "thisIsMessageValue1"]


def test_newer_clients_have_an_epoch_for_every_transaction() -> None:
    world = World.of([PLACE])
    used_before(world, "anyValue", times=5)
    first = Producer(world, "anyValue", VERSION_2)
    second = Producer(world, "anyValue", VERSION_2)
    first.init_transactions()
    first.send("thisIsMessageValue1")
    second.init_transactions()
    second.send("thisIsMessageValue2")
    second.end(committed=True)
    second.send("thisIsMessageValue3")
    second.end(committed=False)
    assert dump(world) == [
        "offset: 0 producerId: 0 producerEpoch: 5 payload: thisIsMessageValue1",
        "offset: 1 producerId: 0 producerEpoch: 6 endTxnMarker: ABORT coordinatorEpoch: 0",
        "offset: 2 producerId: 0 producerEpoch: 7 payload: thisIsMessageValue2",
        "offset: 3 producerId: 0 producerEpoch: 8 endTxnMarker: COMMIT coordinatorEpoch: 0",
        "offset: 4 producerId: 0 producerEpoch: 8 payload: thisIsMessageValue3",
        "offset: 5 producerId: 0 producerEpoch: 9 endTxnMarker: ABORT coordinatorEpoch: 0",
    ]
    assert world.partitions[PLACE].visible() == ["thisIsMessageValue2"]


def test_a_coordinator_killed_between_the_phases_completes_what_was_decided() -> None:
    for committed in (True, False):
        world = World.of([PLACE], delivers_at_once=False)
        producer = Producer(world, "anyValue")
        producer.init_transactions()
        producer.send("value")
        producer.end(committed)
        assert world.partitions[PLACE].rows[-1].marker is None
        world.network.clear()
        world.delivers_at_once = True
        world.crash(kept=len(world.log))
        world.fire_due()
        assert dump(world)[-1] == (
            "offset: 1 producerId: 0 producerEpoch: 0 endTxnMarker: "
            f"{'COMMIT' if committed else 'ABORT'} coordinatorEpoch: 1"
        )
        assert world.partitions[PLACE].visible() == (["value"] if committed else [])
