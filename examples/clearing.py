"""A clearing system that is killed and goes on: `clearing [TRADES]`.

Trades change the position of an account; every new position is written to a topic. The positions
are only in memory. The process that computes them is killed in the middle (kill -9), another one
takes over: it rebuilds the positions from a full snapshot and the trades since then, and no trade
counts twice.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Iterable
from time import monotonic

from demo_cluster import BOOTSTRAP, fresh_topics

from moldau import Consumer, ConsumerRecord, NewTopic, Producer, ProducerRecord, TopicPartition
from moldau.recovery import Application, FullSnapshots, StatefulConsumer, Topics

TRADES, POSITIONS, PARTITIONS = Topics("clearing-trades"), "clearing-positions", 2
ACCOUNTS = [f"account-{number}" for number in range(10)]


def clear(positions: dict[str, int], trade: ConsumerRecord) -> Iterable[ProducerRecord]:
    """One trade: it changes the state, and its output is the account's new position."""
    account = trade.key.decode()
    positions[account] = positions.get(account, 0) + int(trade.value)
    yield ProducerRecord(POSITIONS, str(positions[account]), account, partition=trade.partition)


CLEARING = Application(
    initial=dict,
    apply=clear,
    dump=lambda positions: json.dumps(positions).encode(),
    load=json.loads,
)


def work(dies_after: int) -> None:
    """A worker, until there is nothing to do for two seconds; or until it dies, at its n-th
    committed transaction."""
    seen = {"load": 0, "replay": 0, "committed": 0}
    latest = monotonic()

    def observe(step: str, partition: TopicPartition) -> None:
        nonlocal latest
        latest = monotonic()
        seen[step] = seen.get(step, 0) + 1
        if step == "committed" and seen[step] == dies_after:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": "clearing",
        # So its successor need not wait until the group gives it up.
        "group.instance.id": "clearing-1",
    }
    with StatefulConsumer(
        CLEARING,
        TRADES,
        settings,
        fulls=FullSnapshots(records=100),
        records_per_transaction=20,
        observe=observe,
    ) as consumer:
        consumer.run(until=lambda: seen["committed"] > 0 and monotonic() - latest > 2)
    print(f"{seen['load']} full snapshots loaded, {seen['replay']} trades computed again")


def positions_written() -> list[ConsumerRecord]:
    settings = {"bootstrap.servers": BOOTSTRAP, "isolation.level": "read_committed"}
    found: list[ConsumerRecord] = []
    with Consumer(settings) as consumer:
        every = [TopicPartition(POSITIONS, number) for number in range(PARTITIONS)]
        consumer.assign(every)
        consumer.seek_to_beginning(every)
        ends = consumer.end_offsets(every)
        while any(consumer.position(tp) < ends[tp] for tp in every):
            found += consumer.poll(1.0)
    return found


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else 2000
    kept = [NewTopic(TRADES.increments, PARTITIONS), NewTopic(TRADES.fulls, PARTITIONS)]
    fresh_topics(NewTopic(TRADES.input, PARTITIONS), NewTopic(POSITIONS, PARTITIONS), *kept)
    expected = dict.fromkeys(ACCOUNTS, 0)
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for _ in range(count):
            account, quantity = random.choice(ACCOUNTS), random.randint(-50, 50)
            expected[account] += quantity
            producer.send(TRADES.input, str(quantity), key=account)
    print(f"{count} trades")
    for dies_after in (count // 60, 0):
        worker = multiprocessing.get_context("spawn").Process(target=work, args=(dies_after,))
        worker.start()
        worker.join()
        if worker.exitcode == -signal.SIGKILL:
            print(f"killed, when {len(positions_written())} positions were written")
    written = positions_written()
    last = {record.key.decode(): int(record.value) for record in written}
    is_right = len(written) == count and last == {a: n for a, n in expected.items() if a in last}
    print(f"{len(written)} positions for {count} trades, all right: {is_right}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
