"""kafka-python's classes on Moldau's client library: names, units, iteration and exceptions.

    from moldau.compat.kafka_python import KafkaConsumer, KafkaProducer
    from moldau.compat.kafka_python.errors import KafkaError

As kafka-python 3.0 has them; a test runs the same script on both libraries.
"""

from __future__ import annotations

from moldau.client.consumer.consumer_coordinator import ConsumerRebalanceListener
from moldau.client.consumer.consumer_records import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from moldau.compat.kafka_python.kafka_admin_client import (
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
)
from moldau.compat.kafka_python.kafka_consumer import ConsumerRecord, KafkaConsumer
from moldau.compat.kafka_python.kafka_producer import (
    FutureRecordMetadata,
    KafkaProducer,
    RecordMetadata,
)
from moldau.model.names import TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "FutureRecordMetadata",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]
