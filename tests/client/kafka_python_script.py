"""One program for two libraries: kafka-python, and Moldau's stand-in for it.

Run as `python kafka_python_script.py MODULE BOOTSTRAP NAME`; prints what a user would see as JSON.
Nothing here knows which library it runs on.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

MODULE, BOOTSTRAP, NAME = sys.argv[1:]
kafka = import_module(MODULE)
errors = import_module(f"{MODULE}.errors")
admin_module = kafka if hasattr(kafka, "NewTopic") else import_module(f"{MODULE}.admin")
seen: dict[str, Any] = {}
NAMES = (
    "KafkaError",
    "KafkaTimeoutError",
    "TopicAlreadyExistsError",
    "CommitFailedError",
    "NotLeaderForPartitionError",
    "MessageSizeTooLargeError",
    "IllegalStateError",
    "NoOffsetForPartitionError",
    "UnknownTopicOrPartitionError",
    "KafkaConfigurationError",
)
PLAIN = (TypeError, ValueError, StopIteration)


def told(what: Any, *args: Any, **kwargs: Any) -> str:
    try:
        return f"gave {what(*args, **kwargs)!r}"
    except Exception as error:
        known = [name for name in NAMES if isinstance(error, getattr(errors, name))]
        plain = [kind.__name__ for kind in PLAIN if isinstance(error, kind)]
        return f"raised {known or plain}"


def take(consumer: Any, count: int) -> list[Any]:
    return [next(consumer) for _ in range(count)]


def administer() -> None:
    with_admin = kafka.KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    made = with_admin.create_topics([admin_module.NewTopic(NAME, 2, 1)])
    seen["created"] = [(row["name"], row["error_code"]) for row in made["topics"]]
    seen["created again"] = told(with_admin.create_topics, [admin_module.NewTopic(NAME, 2, 1)])
    seen["not raised"] = with_admin.create_topics(
        [admin_module.NewTopic(NAME, 2, 1)], raise_errors=False
    )["topics"][0]["error_code"]
    seen["listed"] = NAME in with_admin.list_topics()
    (row,) = with_admin.describe_topics([NAME])
    seen["described"] = (row["name"], len(row["partitions"]))
    seen["deleted absent"] = told(with_admin.delete_topics, [f"{NAME}-absent"])
    with_admin.close()


def produce() -> None:
    called: list[int] = []
    producer = kafka.KafkaProducer(
        bootstrap_servers=[BOOTSTRAP],
        value_serializer=lambda value: json.dumps(value).encode(),
        key_serializer=str.encode,
    )
    for number in range(20):
        future = producer.send(NAME, {"n": number}, key=f"k{number}", partition=number % 2)
        future.add_callback(lambda metadata: called.append(metadata.offset))
    last = producer.send(
        NAME, "last", key="k", headers=[("h", b"1")], partition=0, timestamp_ms=1234
    ).get(timeout=30)
    producer.flush(timeout=30)
    seen["callbacks"] = sorted(called)
    seen["last"] = [*last._asdict().items()]
    seen["partitions"] = sorted(producer.partitions_for(NAME))
    seen["nothing"] = told(producer.send, NAME, key_or_value := None)
    seen["bad headers"] = told(producer.send, NAME, 1, key="k", headers={"h": b"1"})
    producer.close()
    seen["closed"] = told(producer.send, NAME, 1)
    plain = kafka.KafkaProducer(bootstrap_servers=BOOTSTRAP)
    seen["text"] = told(plain.send, NAME, "text")
    plain.close(timeout=10)
    del key_or_value


def consume() -> None:
    one = kafka.TopicPartition(NAME, 0)
    consumer = kafka.KafkaConsumer(
        NAME,
        bootstrap_servers=BOOTSTRAP,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
        value_deserializer=json.loads,
    )
    rows = take(consumer, 21)
    seen["iterated"] = sorted(
        (r.partition, r.offset, r.key.decode(), r.value["n"]) for r in rows if r.value != "last"
    )
    (record,) = [row for row in rows if row.value == "last"]
    fields = record._asdict()
    seen["record"] = [(name, str(value)) for name, value in fields.items()]
    seen["subscription"] = sorted(consumer.subscription())
    seen["assignment"] = sorted(map(tuple, consumer.assignment()))
    seen["ends"] = sorted((tuple(tp), n) for tp, n in consumer.end_offsets([one]).items())
    seen["position"] = consumer.position(one)
    seen["no group"] = told(consumer.commit)
    consumer.seek(one, 3)
    polled: dict[Any, Any] = {}
    while not polled:
        polled = consumer.poll(timeout_ms=5000, max_records=2)
    seen["polled"] = [(tuple(tp), [r.offset for r in some]) for tp, some in polled.items()]
    seen["poll in milliseconds"] = told(consumer.poll, timeout_ms=-1)
    seen["seek unassigned"] = told(consumer.seek, kafka.TopicPartition(NAME, 9), 0)
    seen["seek badly"] = told(consumer.seek, one, -1)
    seen["tuple"] = told(consumer.position, (NAME, 0))
    seen["partitions for"] = sorted(consumer.partitions_for_topic(NAME))
    seen["topics"] = NAME in consumer.topics()
    seen["times"] = [
        None if row is None else row.offset for row in consumer.offsets_for_times({one: 0}).values()
    ]
    idle = kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP, consumer_timeout_ms=300)
    idle.assign([one])
    seen["an iteration ends"] = len(list(idle))
    idle.close()
    consumer.pause(one)
    seen["paused"] = sorted(map(tuple, consumer.paused()))
    consumer.close()
    seen["poll closed"] = told(consumer.poll)
    seen["next closed"] = told(next, consumer)


def consume_in_a_group() -> None:
    settings = {
        "bootstrap_servers": BOOTSTRAP,
        "group_id": NAME,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "consumer_timeout_ms": 60_000,
    }
    consumer = kafka.KafkaConsumer(NAME, **settings)
    record = take(consumer, 5)[-1]
    consumer.commit()
    committed = [consumer.committed(kafka.TopicPartition(NAME, p)) or 0 for p in (0, 1)]
    seen["committed what was seen"] = sum(committed)
    seen["committed with its note"] = [
        type(
            consumer.committed(kafka.TopicPartition(NAME, record.partition), metadata=True)
        ).__name__
    ]
    consumer.close()
    again = kafka.KafkaConsumer(NAME, **settings)
    seen["the rest"] = len({(r.partition, r.offset) for r in take(again, 16)})
    again.close()


def close_without_commit() -> None:
    settings = {
        "bootstrap_servers": BOOTSTRAP,
        "group_id": f"{NAME}-auto",
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 60_000,
    }
    for is_committed in (False, True):
        consumer = kafka.KafkaConsumer(NAME, auto_commit_interval_ms=600_000, **settings)
        take(consumer, 21)
        consumer.close(autocommit=is_committed)
        with_group = kafka.KafkaConsumer(**settings)
        places = [kafka.TopicPartition(NAME, number) for number in (0, 1)]
        seen[f"closed with a commit: {is_committed}"] = [with_group.committed(p) for p in places]
        with_group.close()


def refuse() -> None:
    seen["unknown setting"] = told(kafka.KafkaProducer, bootstrap_servers=BOOTSTRAP, nonsense=1)
    seen["nobody there"] = told(
        kafka.KafkaProducer, bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=500
    )
    seen["errors"] = [issubclass(getattr(errors, name), errors.KafkaError) for name in NAMES]
    seen["retriable"] = [getattr(errors, name).retriable for name in NAMES]


administer()
produce()
consume()
consume_in_a_group()
close_without_commit()
refuse()
print(json.dumps(seen, indent=1))
