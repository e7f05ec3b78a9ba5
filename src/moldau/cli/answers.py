"""The one style of JSON in which commands answer: keys in camelCase, a fault under `error`.

Names that come from a cluster (topics, groups, settings) are values, never keys, but for settings
and metrics by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.model.names import TopicPartition

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def camel(title: str) -> str:
    """`size_bytes`, `LOG-END-OFFSET`, `ProducerId`: sizeBytes, logEndOffset, producerId."""
    words: list[str] = [word.lower() for word in WORDS.findall(title)]
    return words[0] + "".join(word.capitalize() for word in words[1:])


def row(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {camel(name): value for name, value in fields.items()}


def rows(titles: Sequence[str], cells: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """A table as data: its titles become keys."""
    keys = [camel(title) for title in titles]
    return [dict(zip(keys, each, strict=True)) for each in cells]


def place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def placed(found: Mapping[TopicPartition, Any], key: str) -> list[dict[str, Any]]:
    """A row for each partition, with what was found under `key`, or why nothing was."""
    return [
        {**place(tp), **({"error": fault_of(it)} if isinstance(it, Exception) else {key: it})}
        for tp, it in sorted(found.items())
    ]


def fault_of(error: BaseException) -> dict[str, Any]:
    return fault(str(error), exception_name(error))


def fault(message: str, name: str = "") -> dict[str, Any]:
    """`name` is the class that Kafka has for it, with or without its package; "" where it has
    none."""
    return {"message": message, "name": name.rpartition(".")[2] or None}


def exception_name(error: BaseException) -> str:
    name = type(error).__name__
    name = {"KafkaTimeoutError": "TimeoutError"}.get(name, name)
    return f"{name.removesuffix('Error')}Exception"
