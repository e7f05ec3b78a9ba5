"""A producer and a consumer beside each other: `producer_consumer_demo [sync] [COUNT]`.

With `sync` the producer waits for each record to be stored; otherwise a callback tells. Without a
count both go on until Ctrl-C.
"""

from __future__ import annotations

import itertools
import sys
import threading

from demo_cluster import BOOTSTRAP, fresh_topics

from moldau import Consumer, NewTopic, Producer, errors

TOPIC = "demo-topic"


def produce(is_sync: bool, count: int | None, stop: threading.Event) -> None:
    def told(metadata, error) -> None:
        print(
            f"not sent: {error}" if error else f"sent to {metadata.partition} at {metadata.offset}"
        )

    with Producer(bootstrap_servers=BOOTSTRAP, client_id="demo-producer") as producer:
        for number in itertools.count() if count is None else range(count):
            if stop.is_set():
                return
            value = f"test{number}"
            if is_sync:
                metadata = producer.send(TOPIC, value, key=str(number)).result(timeout=30)
                print(f"sent {value} to {metadata.partition} at {metadata.offset}")
            else:
                producer.send(TOPIC, value, key=str(number), on_delivery=told)


def consume(consumer: Consumer, count: int | None) -> int:
    received = 0
    while count is None or received < count:
        for record in consumer.poll(1.0):
            received += 1
            print(f"received {record.value.decode()} from {record.partition} at {record.offset}")
    return received


def main(arguments: list[str]) -> int:
    is_sync = "sync" in arguments
    numbers = [int(word) for word in arguments if word.isdigit()]
    count = numbers[0] if numbers else None
    fresh_topics(NewTopic(TOPIC, partitions=3))
    stop = threading.Event()
    sender = threading.Thread(target=produce, args=(is_sync, count, stop))
    settings = {"bootstrap.servers": BOOTSTRAP, "auto.offset.reset": "earliest"}
    with Consumer(settings, group_id="demo-group") as consumer:
        consumer.subscribe([TOPIC])
        sender.start()
        try:
            print(f"received {consume(consumer, count)} records")
        except (KeyboardInterrupt, errors.WakeupError):
            pass
        finally:
            stop.set()
            sender.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
