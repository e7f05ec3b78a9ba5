"""A consumer of librdkafka that asks for committed offsets while their coordinator moves.

After an assignment it asks once. If the answer is that another broker has become the coordinator it
tells its application so and does not ask again: the partitions stay its own and are never fetched,
until the next rebalance (librdkafka 2.16; Apache Kafka gives the same answer). An application has
to subscribe again, and so have the clients of tests that move coordinators.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

TOLD = "Failed to fetch committed offsets"


def has_lost_offsets(fault: KafkaError) -> bool:
    return fault.str().startswith(TOLD)
