"""Thousands of interleavings of producers, fences, time-outs, lost messages and crashes.

Producers of both versions share transactional ids and do not know of one another. Whatever happens,
a committed transaction is visible whole and an aborted one never, what is decided stays decided,
only one producer of an id is alive, and everybody is answered once. A failure prints its seed;
`MOLDAU_SEED=…` replays it.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from moldau.model.clock import Now
from moldau.model.cluster import NO_LEADER
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.records.batch_codec import ControlType, decode_batch
from moldau.transactions.transaction_commands import (
    AbortTimedOut,
    ExpireTransactionalIds,
    InitProducer,
    MarkersWritten,
    ResendMarkers,
    TimedOut,
)
from moldau.transactions.transaction_facts import EPOCH_LAST, VERSION_1, VERSION_2, TransactionMoved
from moldau.transactions.transaction_states import State
from tests.support import seeds
from tests.support.random_producers import (
    CODEC,
    IDS,
    PLACES,
    SETTINGS,
    TIMEOUT_MS,
    Client,
)
from tests.support.transaction_world import World

RUNS = 500
RUNS_LONG = 3_000
STEPS = 600


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World.of(
            PLACES, settings=SETTINGS, commits_at_once=False, delivers_at_once=False
        )
        self.clients: list[Client] = []
        self.repeated: list[MarkersWritten] = []
        self.live: dict[str, list[Client]] = {name: [] for name in IDS}
        if self.rng.random() < 0.3:
            self._use_up_epochs()
        for name in IDS:
            self.start_client(name)

    def _use_up_epochs(self) -> None:
        """Some runs begin near the last epoch."""
        for name in IDS:
            producer_id = next(self.world.producer_ids)
            command = InitProducer(name, TIMEOUT_MS, new_producer_id=producer_id)
            decision = self.world.machine.decide(command, 0, Now(0, 0))
            (fact,) = decision.facts
            assert isinstance(fact, TransactionMoved)
            old = fact.after._replace(producer_epoch=EPOCH_LAST - self.rng.randrange(6))
            self.world.log += CODEC.encode([TransactionMoved(old)], self.world.wall_ms)
        self.world.crash(kept=len(self.world.log))

    def start_client(self, transactional_id: str) -> None:
        version = self.rng.choice([VERSION_1, VERSION_2])
        name = f"{transactional_id}.{len(self.clients)}"
        client = Client(self.world, self.rng, name, transactional_id, version)
        self.clients.append(client)
        self.live[transactional_id].append(client)

    def step(self) -> None:
        world, rng = self.world, self.rng
        kind = rng.random()
        if kind < 0.48:
            self.act()
        elif kind < 0.66:
            world.commit(rng.randint(world.committed, len(world.log)))
        elif kind < 0.91:
            self.network_step()
        elif kind < 0.96:
            world.now_ms += rng.choice([1, 10, 60, 400])
            world.fire_due()
            self.job()
        elif kind < 0.967:
            kept = rng.randint(world.committed, len(world.log))
            world.crash(kept, is_same_process=rng.random() < 0.5)
        elif kind < 0.99:
            self.move_leader(rng.choice(PLACES))
        else:
            self.start_client(rng.choice(IDS))

    def act(self) -> None:
        clients = [client for each in self.live.values() for client in each]
        if clients:
            self.rng.choice(clients).act()
        late = [client for client in self.clients if client.late_writes]
        if late and self.rng.random() < 0.2:
            self.late_write(self.rng.choice(late))
        repeating = [client for client in self.clients if client.late_requests]
        if repeating and self.rng.random() < 0.1:
            # Nobody waits for what becomes of it.
            self.world.submit(self.rng.choice(repeating).late_requests.pop(0))
        for name, each in self.live.items():
            self.live[name] = [client for client in each if not client.is_dead]
            if not self.live[name]:
                self.start_client(name)

    def late_write(self, client: Client) -> None:
        late = client.late_writes.pop(0)
        try:
            self.world.partitions[late.place].append(*late[1:])
        except ApiError as refusal:
            assert refusal.error is Error.INVALID_PRODUCER_EPOCH, refusal

    def network_step(self) -> None:
        world, rng = self.world, self.rng
        queues = [broker for broker, queue in world.network.items() if queue]
        if world.answers and (not queues or rng.random() < 0.5):
            answer = world.answers.popleft()
            fate = rng.random()
            if fate < 0.1:
                return
            if fate < 0.2:
                self.repeat_later(answer)
            world.submit_answer(answer)
        elif self.repeated and rng.random() < 0.05:
            world.submit_answer(self.repeated.pop(0))
        elif queues:
            broker = rng.choice(queues)
            if rng.random() < 0.05:
                message = world.network[broker].popleft().message
                if rng.random() < 0.5:
                    world.answers.append(message.failed(Error.NETWORK_EXCEPTION))
                return
            world.answers.append(world.deliver(broker, self.fault))

    def repeat_later(self, answer: MarkersWritten) -> None:
        """Each message is answered once, by whoever delivers it; what arrives again is old news of
        a marker that is written. A failure told twice would be a lie about the marker that was
        sent in between."""
        written = {place: error for place, error in answer.results.items() if not error}
        self.repeated.append(replace(answer, results=written))

    def move_leader(self, place: TopicPartition) -> None:
        """What a broker was sent it carries out before it can lead again: a marker that waits
        there for longer could end a later transaction of an older client."""
        for broker, queue in self.world.network.items():
            while queue:
                self.world.answers.append(self.world.deliver(broker, self.fault))
        self.world.lead(place, self.rng.choice([1, 2, 1, 2, NO_LEADER]))

    def fault(self) -> Error:
        if self.rng.random() < 0.9:
            return Error.NONE
        return self.rng.choice([Error.NOT_ENOUGH_REPLICAS, Error.KAFKA_STORAGE_ERROR])

    def job(self) -> None:
        world = self.world
        new_ids = tuple(next(world.producer_ids) for _ in range(2))
        command = self.rng.choice(
            [
                AbortTimedOut(new_ids),
                AbortTimedOut(),
                ResendMarkers(),
                ExpireTransactionalIds(),
            ]
        )
        world.submit(command)

    def settle(self) -> None:
        """No more faults: everything that was begun comes to its end."""
        world = self.world
        for client in self.clients:
            if not client.is_dead:
                client.die()
        for place in PLACES:
            world.lead(place, 1)
        world.commits_at_once = world.delivers_at_once = True
        world.commit(len(world.log))
        for _ in range(30):
            world.now_ms += TIMEOUT_MS + 1
            world.fire_due()
            self.ask_job(ResendMarkers())
            timed_out = self.ask_job(AbortTimedOut())
            assert isinstance(timed_out, TimedOut)
            ids = tuple(next(world.producer_ids) for _ in range(timed_out.producer_ids_needed))
            self.ask_job(AbortTimedOut(ids))
        for client in self.clients:
            while client.late_writes:
                self.late_write(client)

    def ask_job(self, command: object) -> object:
        return self.world.outcomes.pop(self.world.submit(command))

    # What must hold

    def check(self) -> None:
        world = self.world
        assert not world.waiting, "somebody was never answered"
        for name, transaction in world.machine.transactions.items():
            assert transaction.state in (
                State.EMPTY,
                State.COMPLETE_COMMIT,
                State.COMPLETE_ABORT,
            ), f"{name} is left in {transaction.state.label}"
        kept_bytes = sum(each.kept_bytes for each in world.machine.transactions.values())
        assert world.machine.kept_bytes == kept_bytes
        self.check_alone()
        self.check_markers()
        self.check_epochs()
        self.check_visible()

    def check_alone(self) -> None:
        """Once a producer has an id, nothing succeeds for those that had it before."""
        for name in IDS:
            owner = None
            successes = [
                success
                for client in self.clients
                if client.transactional_id == name
                for success in client.successes
            ]
            for success in sorted(successes, key=lambda each: each.token):
                if success.is_grant:
                    owner = success.client
                assert success.client is owner, f"{success.client.name} is still alive"

    def check_markers(self) -> None:
        world = self.world
        written = {
            (row.decided, name): row
            for name, partition in world.partitions.items()
            for row in partition.rows
            if row.marker is not None
        }
        for name, partition in world.partitions.items():
            undecided = partition.producers.first_unstable_offset(1 << 62)
            assert undecided is None, f"{name} has an open one"
            for row in partition.rows:
                if row.marker is None:
                    continue
                decided = world.decided[row.decided].after
                committed = decided.state is State.PREPARE_COMMIT
                assert row.marker is (ControlType.COMMIT if committed else ControlType.ABORT)
                assert (row.producer_id, row.producer_epoch) == (
                    decided.producer_id,
                    decided.producer_epoch,
                )
        for place, fact in enumerate(world.decided):
            for name in fact.after.partitions:
                assert (place, name) in written, f"{name} got no marker of {fact.after}"

    def check_epochs(self) -> None:
        latest: dict[str, tuple[int, int]] = {}
        used: dict[int, str] = {}
        for batch in self.world.log:
            for fact in CODEC.decode(read_header(batch), decode_batch(batch)):
                if not isinstance(fact, TransactionMoved):
                    continue
                after = fact.after
                name = after.transactional_id
                assert used.setdefault(after.producer_id, name) == name
                producer_id, epoch = latest.get(name, (-1, -1))
                if after.producer_id == producer_id:
                    assert after.producer_epoch >= epoch, f"{name} went back to {after}"
                else:
                    assert after.producer_id > producer_id
                latest[name] = after.producer_id, after.producer_epoch

    def check_visible(self) -> None:
        visible = {
            (name, payload)
            for name, partition in self.world.partitions.items()
            for payload in partition.visible()
        }
        for partition in self.world.partitions.values():
            assert len(partition.visible()) == len(set(partition.visible())), "a record twice"
        for client in self.clients:
            for attempt in client.attempts:
                rows = set(attempt.appended)
                shown = rows & visible
                if attempt.outcome == "committed":
                    assert shown == rows, f"{attempt.label} is not visible whole"
                elif attempt.outcome == "aborted":
                    assert not shown, f"{attempt.label} was aborted and is visible"
                else:
                    assert attempt.outcome == "unknown"
                    assert shown in (set(), rows), f"{attempt.label} is visible in part"


def simulate(seed: int) -> Simulation:
    simulation = Simulation(seed)
    try:
        for _ in range(STEPS):
            simulation.step()
        simulation.settle()
        simulation.check()
    except Exception as fault:
        raise AssertionError(f"MOLDAU_SEED={seed} shows it again") from fault
    return simulation


def test_transactions_hold_their_promises_in_random_interleavings() -> None:
    simulations = [simulate(seed) for seed in seeds.several(RUNS)]
    outcomes = [
        attempt.outcome
        for simulation in simulations
        for client in simulation.clients
        for attempt in client.attempts
        if attempt.appended
    ]
    if len(simulations) > 1:
        # A simulation in which nothing happens proves nothing.
        assert min(outcomes.count(each) for each in ("committed", "aborted", "unknown")) > RUNS // 4


@pytest.mark.long
def test_transactions_hold_their_promises_in_very_many_interleavings() -> None:
    for seed in seeds.several(RUNS_LONG):
        simulate(seed)
