"""One topic: its partitions and its groups. Its settings are in `configs.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.admin import ListedOffset, OffsetSpec, TopicPartition
from moldau.client.shared.client_errors import KafkaError
from moldau.console import cluster_answers
from moldau.console.charts import chart
from moldau.console.page import Asked, Shown
from moldau.console.rendering import rate_text

SHOWN_MAX = 2_000


class PartitionRow(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    start: int | None
    end: int | None
    size_bytes: int | None
    """Of the leader's copy."""

    @property
    def records(self) -> int | None:
        return None if self.start is None or self.end is None else max(0, self.end - self.start)


class GroupRow(NamedTuple):
    group: str
    state: str
    lag: int


async def partitions(asked: Asked) -> Shown:
    name, link = asked.path["topic"], asked.link
    topic = (await link.admin.describe_topics([name]))[name]
    shown = topic.partitions[:SHOWN_MAX]
    asking = [TopicPartition(name, row.partition) for row in shown if row.leader >= 0]
    offsets_fault = ""
    starts: Mapping[TopicPartition, ListedOffset] = {}
    ends: Mapping[TopicPartition, ListedOffset] = {}
    try:
        if asking:
            starts = await link.admin.list_offsets(
                dict.fromkeys(asking, OffsetSpec.EARLIEST), raise_errors=False
            )
            ends = await link.admin.list_offsets(
                dict.fromkeys(asking, OffsetSpec.LATEST), raise_errors=False
            )
    except KafkaError as error:
        offsets_fault = error.message
    sizes = cluster_answers.peek_sizes(link)
    by_replica = {} if sizes is None else sizes.value.replicas
    rows = [
        PartitionRow(
            row.partition,
            row.leader,
            row.leader_epoch,
            row.replicas,
            row.isr,
            row.offline_replicas,
            starts[tp].offset if tp in starts else None,
            ends[tp].offset if tp in ends else None,
            by_replica.get((name, row.partition, row.leader)),
        )
        for row in shown
        for tp in (TopicPartition(name, row.partition),)
    ]
    history = link.history
    return {
        "topic": name,
        "topic_id": topic.topic_id_text,
        "is_internal": topic.is_internal,
        "partitions": rows,
        "left_out": max(0, len(topic.partitions) - SHOWN_MAX),
        "offsets_fault": offsets_fault,
        "size_bytes": None if sizes is None else sizes.value.topics.get(name),
        "records": sum(row.records or 0 for row in rows) if ends else None,
        "rate": None if history is None else history.rates.get(name),
        "rates": None
        if history is None
        else chart("Written", "records/s", history.points("topic", name), rate_text),
    }


async def groups(asked: Asked) -> Shown:
    name, link = asked.path["topic"], asked.link
    await link.admin.describe_topics([name])
    told = await cluster_answers.lags(link)
    lags = told.value
    rows = [
        GroupRow(group, lags.states.get(group, ""), lag)
        for group, lag in sorted(lags.by_topic.get(name, {}).items(), key=lambda row: -row[1])
    ]
    return {"topic": name, "when": told.when, "groups": rows}
