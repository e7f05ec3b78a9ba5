"""Read, transform, write, exactly once: `exactly_once_demo PARTITIONS INSTANCES RECORDS`.

Instances share the input topic as a group; each moves its records to the output topic in
transactions that hold the offsets too. In the end the output has every record once.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

from demo_cluster import BOOTSTRAP, fresh_topics

from moldau import Consumer, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition

INPUT, OUTPUT, GROUP = "input-topic", "output-topic", "eos-group"


def fill(count: int) -> None:
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        values = [str(number).encode() for number in range(count)]
        producer.send_many(INPUT, values, keys=values).result(timeout=120)


def instance(number: int, left: threading.Semaphore, done: threading.Event) -> None:
    """One worker: what it reads, the transformed records and its offsets go in together or not."""
    reading = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": GROUP,
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "group.instance.id": f"instance-{number}",
    }
    writing = {"bootstrap.servers": BOOTSTRAP, "transactional.id": f"eos-{number}"}
    with Consumer(reading) as consumer, Producer(writing) as producer:
        # Fences an earlier producer of this name before anything is read.
        producer.init_transactions()
        consumer.subscribe([INPUT])
        while not done.is_set():
            records = consumer.poll(0.2)
            if not records:
                continue
            offsets = {tp: OffsetAndMetadata(some[-1].offset + 1) for tp, some in records.items()}
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(OUTPUT, record.value + b"-ok", key=record.key)
                    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            except KafkaError as error:
                print(f"instance {number}: {error}; reading the same records again")
                go_back(consumer, records)
                continue
            for _ in records:
                left.release()


def go_back(consumer: Consumer, records) -> None:
    for tp, some in records.items():
        if tp in consumer.assignment():
            consumer.seek(tp, some[0].offset)


def check(count: int, partitions: int) -> int:
    settings = {"bootstrap.servers": BOOTSTRAP, "isolation.level": "read_committed"}
    seen: Counter[bytes] = Counter()
    with Consumer(settings) as consumer:
        every = [TopicPartition(OUTPUT, number) for number in range(partitions)]
        consumer.assign(every)
        consumer.seek_to_beginning(every)
        while records := consumer.poll(3.0):
            seen.update(record.value for record in records)
    doubled = sum(times - 1 for times in seen.values())
    print(f"{len(seen)} records of {count} in {OUTPUT}, {doubled} of them doubled")
    return 0 if len(seen) == count and not doubled else 1


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or not all(word.isdigit() for word in arguments):
        print(__doc__, file=sys.stderr)
        return 1
    partitions, instances, count = map(int, arguments)
    fresh_topics(NewTopic(INPUT, partitions), NewTopic(OUTPUT, partitions))
    fill(count)
    print(f"{count} records in {INPUT}; {instances} instances start")
    moved, done = threading.Semaphore(0), threading.Event()
    workers = [
        threading.Thread(target=instance, args=(number, moved, done)) for number in range(instances)
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in range(count):
            moved.acquire()
    finally:
        done.set()
        for worker in workers:
            worker.join()
    return check(count, partitions)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
