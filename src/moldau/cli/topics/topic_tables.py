"""A topic as `topics --describe` shows it: plain, as a table, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.cli.files.java_hash_order import hash_order
from moldau.cli.flags import Given
from moldau.cli.output import BOLD, Output

if TYPE_CHECKING:
    from moldau.client.admin.admin_results import ConfigEntry, TopicDescription, TopicPartitionInfo

MIN_ISR = "min.insync.replicas"
FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)


class Described:
    """One topic as --describe shows it."""

    def __init__(
        self,
        topic: TopicDescription,
        entries: list[ConfigEntry],
        moving: dict[Any, Any],
        alive: set[int],
        given: Given,
    ) -> None:
        self.topic = topic
        named = {entry.name: entry for entry in entries}
        ordered = (named[name] for name in hash_order(named))
        self.entries = [entry for entry in ordered if not entry.is_default]
        self.min_isr = next((int(e.value or 1) for e in entries if e.name == MIN_ISR), 1)
        self.moving = moving
        self.alive = alive
        filters = [each for each in FILTERS if given.has(each)]
        self.shows_topic = not filters and (
            not given.has("topics-with-overrides") or bool(self.entries)
        )
        self.partitions = [
            row
            for row in topic.partitions
            if not given.has("topics-with-overrides")
            and (not filters or any(self._is(each, row) for each in filters))
        ]

    def _is(self, filter_name: str, row: TopicPartitionInfo) -> bool:
        match filter_name:
            case "under-replicated-partitions":
                return self.replication_factor(row) > len(row.isr)
            case "unavailable-partitions":
                return row.leader < 0 or row.leader not in self.alive
            case "under-min-isr-partitions":
                return row.leader < 0 or len(row.isr) < self.min_isr
            case _:
                return len(row.isr) == self.min_isr

    def replication_factor(self, row: TopicPartitionInfo) -> int:
        """A partition that is being moved counts as it will be."""
        change = self.moving.get((self.topic.name, row.partition))
        if change is None:
            return len(row.replicas)
        return len(change.replicas) - len(change.adding_replicas)

    @property
    def configs_text(self) -> str:
        return ",".join(f"{entry.name}={entry.value}" for entry in self.entries)

    def print_plain(self, out: Output) -> None:
        name = self.topic.name
        if self.shows_topic:
            factor = self.replication_factor(self.topic.partitions[0])
            id_text = f"\tTopicId: {self.topic.topic_id_text}" if self.topic.topic_id_text else ""
            out.line(
                f"Topic: {name}{id_text}\tPartitionCount: {len(self.topic.partitions)}"
                f"\tReplicationFactor: {factor}\tConfigs: {self.configs_text}"
            )
        for row in self.partitions:
            leader = "none" if row.leader < 0 else row.leader
            line = (
                f"\tTopic: {name}\tPartition: {row.partition}\tLeader: {leader}"
                f"\tReplicas: {commas(row.replicas)}\tIsr: {commas(row.isr)}"
            )
            change = self.moving.get((name, row.partition))
            if change is not None:
                line += f"\tAdding Replicas: {commas(change.adding_replicas)}"
                line += f"\tRemoving Replicas: {commas(change.removing_replicas)}"
            line += f"\tElr: {commas_or(row.eligible_leader_replicas)}"
            line += f"\tLastKnownElr: {commas_or(row.last_known_elr)}"
            out.line(line)

    def print_table(self, out: Output) -> None:
        if self.shows_topic:
            count = len(self.topic.partitions)
            factor = self.replication_factor(self.topic.partitions[0])
            out.line(
                f"{out.paint(self.topic.name, BOLD)}  id {self.topic.topic_id_text or '-'}"
                f"  partitions {count}  replication factor {factor}"
            )
            for entry in self.entries:
                out.line(f"  {entry.name} = {entry.value}")
        rows = [
            (
                self.topic.name,
                row.partition,
                "none" if row.leader < 0 else row.leader,
                commas(row.replicas),
                commas(row.isr),
                "" if len(row.isr) >= len(row.replicas) else "under-replicated",
            )
            for row in self.partitions
        ]
        if rows:
            out.table(("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", ""), rows)
            out.line()

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic.name,
            "topicId": self.topic.topic_id_text or None,
            "configs": {entry.name: entry.value for entry in self.entries},
            "partitions": [
                {
                    "partition": row.partition,
                    "leader": None if row.leader < 0 else row.leader,
                    "replicas": row.replicas,
                    "isr": row.isr,
                    "elr": row.eligible_leader_replicas,
                    "lastKnownElr": row.last_known_elr,
                }
                for row in self.partitions
            ],
        }


def commas(numbers: list[int]) -> str:
    return ",".join(str(number) for number in numbers)


def commas_or(numbers: list[int] | None) -> str:
    return "N/A" if numbers is None else commas(numbers)
