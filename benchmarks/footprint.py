"""What one broker takes of its machine, for docs/tuning.md: python -m benchmarks.footprint."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess

SECONDS_MAX = 60.0
CONNECTIONS = 1_000


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="moldau-footprint-") as folder,
        BrokerProcess(Path(folder)) as broker,
    ):
        tell("after the start", broker)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for count in (1_000, 4_000):
            topic = NewTopic(f"topic-{count}", count, 1)
            for future in admin.create_topics([topic], operation_timeout=SECONDS_MAX).values():
                future.result(SECONDS_MAX)
            tell(f"with {count} partitions more", broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(4_000):
            producer.produce("topic-4000", bytes(100), partition=number)
        producer.flush(SECONDS_MAX)
        tell("with a record in each of the 4,000", broker)
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            admin.list_topics(timeout=SECONDS_MAX)
            tell(f"with {CONNECTIONS} connections more", broker)


def tell(when: str, broker: BrokerProcess) -> None:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    (resident,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    descriptors = len(os.listdir(f"/proc/{broker.pid}/fd"))
    print(f"{when}: {int(resident.split()[1]) // 1024} MB resident, {descriptors} files open")


if __name__ == "__main__":
    main()
