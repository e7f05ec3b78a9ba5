"""A Python data source over confluent-kafka, the usual way to read Kafka in Python: the peer.

As good as that way can be made: a task reads its range with large `consume` calls and gives Spark
Arrow batches. Same columns as `format("moldau")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from moldau.pipelines.source.data_source import schema_of
from moldau.pipelines.source.source_options import parse_options

CONSUME_RECORDS = 20_000
POLL_SECONDS = 5.0


class ConfluentSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "confluent"

    def schema(self) -> StructType:
        return schema_of(parse_options(self.options, is_stream=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        return ConfluentReader(dict(self.options), schema)


class ConfluentReader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self.settings = {
            "bootstrap.servers": options["kafka.bootstrap.servers"],
            "group.id": "confluent-source",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
        }
        self.topic = options["subscribe"]
        self.spark_schema = schema

    def partitions(self) -> list[InputPartition]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(self.settings)
        found = consumer.list_topics(self.topic, timeout=10).topics[self.topic].partitions
        ranges = []
        for partition in found:
            tp = TopicPartition(self.topic, partition)
            ranges.append((partition, *consumer.get_watermark_offsets(tp, timeout=10)))
        consumer.close()
        return [InputPartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa
        from confluent_kafka import Consumer, TopicPartition
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self.spark_schema, timezone="UTC")
        number, offset, end = partition.value
        consumer = Consumer(self.settings)
        consumer.assign([TopicPartition(self.topic, number, offset)])
        while offset < end:
            messages = consumer.consume(min(CONSUME_RECORDS, end - offset), POLL_SECONDS)
            if not messages:
                raise RuntimeError(f"no record of {self.topic}-{number} from {offset} on")
            stamps = [message.timestamp() for message in messages]
            columns = [
                [message.key() for message in messages],
                [message.value() for message in messages],
                [self.topic] * len(messages),
                [number] * len(messages),
                [message.offset() for message in messages],
                pa.array([stamp[1] for stamp in stamps], pa.timestamp("ms", "UTC")).cast(
                    schema.field("timestamp").type
                ),
                [stamp[0] - 1 for stamp in stamps],
            ]
            arrays = [
                each if isinstance(each, pa.Array) else pa.array(each, field.type)
                for each, field in zip(columns, schema, strict=True)
            ]
            offset = (messages[-1].offset() or 0) + 1
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        consumer.close()
