"""Three modes: `delivery_modes at-most-once|at-least-once|exactly-once`.

Twenty records are worked on by a worker that crashes once, in the middle of a poll. What the
three modes do differently is when the offsets are committed; what differs in the end is whether
records are lost, worked on twice, or neither.
"""

from __future__ import annotations

import sys

from demo_cluster import BOOTSTRAP, fresh_topics

from moldau import Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition

INPUT, OUTPUT = "modes-input", "modes-output"
COUNT, CRASH_AT = 20, 10


class Crash(Exception):
    """Stands for a process that is killed."""


def work(mode: str, *, crashes: bool) -> None:
    reading = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": f"modes-{mode}",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    writing = {"bootstrap.servers": BOOTSTRAP}
    if mode == "exactly-once":
        writing["transactional.id"] = "modes"
    with Consumer(reading) as consumer, Producer(writing) as producer:
        consumer.subscribe([INPUT])
        if mode == "exactly-once":
            producer.init_transactions()
        while records := consumer.poll(4.0):
            end = OffsetAndMetadata(records[-1].offset + 1)
            offsets = {records[-1].topic_partition: end}
            if mode == "at-most-once":
                consumer.commit(offsets)
                copy(producer, records, crashes)
            elif mode == "at-least-once":
                copy(producer, records, crashes)
                consumer.commit(offsets)
            else:
                with producer.transaction():
                    copy(producer, records, crashes)
                    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


def copy(producer: Producer, records, crashes: bool) -> None:
    for record in records:
        if crashes and record.offset == CRASH_AT:
            producer.flush()
            raise Crash
        producer.send(OUTPUT, record.value)
    producer.flush()


def found() -> list[bytes]:
    settings = {"bootstrap.servers": BOOTSTRAP, "isolation.level": "read_committed"}
    values = []
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(OUTPUT, 0)])
        consumer.seek_to_beginning()
        while records := consumer.poll(2.0):
            values += [record.value for record in records]
    return values


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in ("at-most-once", "at-least-once", "exactly-once"):
        print(__doc__, file=sys.stderr)
        return 1
    mode = arguments[0]
    fresh_topics(NewTopic(INPUT, 1), NewTopic(OUTPUT, 1))
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        producer.send_many(INPUT, [str(number).encode() for number in range(COUNT)]).result(30)
    try:
        work(mode, crashes=True)
    except Crash:
        print(f"{mode}: crashed at record {CRASH_AT}; a new worker takes over")
    work(mode, crashes=False)
    values = found()
    lost, doubled = COUNT - len(set(values)), len(values) - len(set(values))
    print(f"{mode}: {lost} lost, {doubled} doubled")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
