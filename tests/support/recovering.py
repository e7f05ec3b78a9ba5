"""An application with a state, run by `moldau.recovery` in a process that kills itself at a step.

Input records are `account quantity`; the state is the position of each account, and each record's
output is `offset position`, so that a lost, doubled or wrongly rebuilt one shows. `full` is the
command to take a full snapshot. Processes come from a fork server, which costs a life next to
nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from moldau import Consumer, ConsumerRecord, Producer, ProducerRecord, TopicPartition
from moldau.recovery import Application, FullSnapshots, StatefulConsumer, Topics

TRADES, POSITIONS, GROUP = "trades", "positions", "clearing"
TOPICS = Topics(TRADES)
Positions = dict[str, int]


def clear(state: Positions, record: ConsumerRecord) -> Iterable[ProducerRecord]:
    account, _, quantity = record.value.decode().partition(" ")
    if quantity:
        state[account] = state.get(account, 0) + int(quantity)
        value = f"{record.offset} {state[account]}"
        yield ProducerRecord(POSITIONS, value.encode(), account.encode(), (), record.partition)


def load(data: bytes) -> Positions:
    loaded: Positions = json.loads(data)
    return loaded


CLEARING: Application[Positions] = Application(
    initial=dict,
    apply=clear,
    dump=lambda state: json.dumps(state).encode(),
    load=load,
    wants_full=lambda record: record.value == b"full",
)


def expected(inputs: Sequence[tuple[int, str]]) -> list[str]:
    """What the model writes for the records of one partition: pairs of offset and value."""
    state: Positions = {}
    written = []
    for offset, value in inputs:
        record = ConsumerRecord(TRADES, 0, offset, 0, 0, None, value.encode(), ())  # type: ignore[arg-type]
        written += [output.value.decode() for output in clear(state, record)]
    return written


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, str]]]:
    """Everything that is committed in a topic, by partition: offsets and values."""
    found: dict[int, list[tuple[int, str]]] = {number: [] for number in range(partitions)}
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        every = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(every)
        ends = consumer.end_offsets(every)
        for tp in every:
            consumer.seek(tp, 0)
        while any(consumer.position(tp) < ends[tp] for tp in every):
            for record in consumer.poll(1.0):
                found[record.partition].append((record.offset, record.value.decode()))
    return found


def feed(bootstrap: str, values: Sequence[str], partitions: int) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for number, value in enumerate(values):
            producer.send(TRADES, value, partition=number % partitions)


def check_against_model(bootstrap: str, partitions: int) -> None:
    inputs = read_all(bootstrap, TRADES, partitions)
    outputs = read_all(bootstrap, POSITIONS, partitions)
    for number in range(partitions):
        assert [value for _, value in outputs[number]] == expected(inputs[number]), number


class Doom:
    """Kills the process at the n-th passage of a step; notes in a file which steps it passed."""

    def __init__(self, step: str, passes: int, notes: Path | None) -> None:
        self._step = step
        self._left = passes
        self._notes = notes
        self._lock = threading.Lock()

    def __call__(self, step: str, partition: TopicPartition) -> None:
        with self._lock:
            if self._notes is not None:
                with self._notes.open("a") as notes:
                    notes.write(f"{os.getpid()} {partition.partition} {step}\n")
            if step == self._step:
                self._left -= 1
                if self._left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)


def work(
    bootstrap: str,
    settings: dict[str, Any],
    doom: tuple[str, int] = ("", 0),
    notes: Path | None = None,
    batch: int = 3,
    records: int = 10,
) -> None:
    """A life: until SIGTERM, or until doom."""
    consumer = StatefulConsumer(
        CLEARING,
        TOPICS,
        {"bootstrap.servers": bootstrap, "group.id": GROUP, **settings},
        fulls=FullSnapshots(records, seconds=3600),
        records_per_transaction=batch,
        observe=Doom(*doom, notes),
    )
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    with consumer:
        consumer.run()


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__, "moldau.client.producer.blocking_producer"])


def start(*args: Any, **kwargs: Any) -> BaseProcess:
    """Somebody who does `work`, in a process."""
    process = _processes.Process(target=work, args=args, kwargs=kwargs, daemon=True)
    process.start()
    return process
