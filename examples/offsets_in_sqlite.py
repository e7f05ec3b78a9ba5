"""Results and offsets in one SQLite transaction: `offsets_in_sqlite [FILE]`.

The group's offsets are not used at all. Where reading goes on is in the same database as the
sums, so a crash can neither lose a record nor count one twice: run it again and again.
"""

from __future__ import annotations

import sqlite3
import sys

from demo_cluster import BOOTSTRAP

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition

TOPIC, PARTITIONS = "payments", 3
TABLES = """
CREATE TABLE IF NOT EXISTS sums (who TEXT PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
"""


def pay() -> None:
    """Some payments to add up."""
    with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        if TOPIC not in admin.list_topics():
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(300):
            producer.send(TOPIC, str(number % 7), key=("ann", "bob", "eve")[number % 3])


def main(arguments: list[str]) -> int:
    path = arguments[0] if arguments else "payments.sqlite"
    pay()
    base = sqlite3.connect(path)
    base.executescript(TABLES)
    saved = dict(base.execute("SELECT partition, next FROM offsets"))
    with Consumer(bootstrap_servers=BOOTSTRAP) as consumer:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, saved.get(partition.partition, 0))
        while records := consumer.poll(2.0):
            with base:
                for record in records:
                    base.execute(
                        "INSERT INTO sums VALUES (?, ?)"
                        " ON CONFLICT (who) DO UPDATE SET total = total + excluded.total",
                        (record.key.decode(), int(record.value)),
                    )
                    base.execute(
                        "REPLACE INTO offsets VALUES (?, ?)", (record.partition, record.offset + 1)
                    )
    for who, total in base.execute("SELECT who, total FROM sums ORDER BY who"):
        print(f"{who} {total}")
    base.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
