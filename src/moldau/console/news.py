"""What changed in a cluster between two looks at it, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.admin import TopicDescription

NAMES_MAX = 3


class Look(NamedTuple):
    """What is compared."""

    brokers: frozenset[int]
    controller: int
    topics: dict[str, TopicDescription]


class News(NamedTuple):
    ms: int
    text: str


def few(names: Iterable[object]) -> str:
    listed = [str(name) for name in names]
    more = len(listed) - NAMES_MAX
    return ", ".join(listed[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def differences(before: Look, after: Look) -> list[str]:
    found = [f"Broker {broker} has come." for broker in sorted(after.brokers - before.brokers)]
    found += [f"Broker {broker} is gone." for broker in sorted(before.brokers - after.brokers)]
    if before.controller != after.controller:
        found.append(
            f"The controller is {_broker(after.controller)}, no longer {before.controller}."
        )
    found += _topic_news(before.topics, after.topics)
    return found


def _broker(number: int) -> str:
    return f"broker {number}" if number >= 0 else "nobody"


def _topic_news(
    before: dict[str, TopicDescription], after: dict[str, TopicDescription]
) -> list[str]:
    found = []
    new, gone = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    if new:
        found.append(f"New: {_topics(new)}.")
    if gone:
        found.append(f"Deleted: {_topics(gone)}.")
    grown, lost, left, returned = [], [], [], []
    for name, now in after.items():
        then = before.get(name)
        if then is None or then is now:
            continue
        if now.topic_id != then.topic_id:
            found.append(f"The topic {name} was deleted and made anew.")
            continue
        if len(now.partitions) != len(then.partitions):
            grown.append(f"{name} ({len(then.partitions)} → {len(now.partitions)})")
        for old, young in zip(then.partitions, now.partitions, strict=False):
            place = f"{name}-{young.partition}"
            if old.leader >= 0 > young.leader:
                lost.append(place)
            if len(young.isr) < len(old.isr):
                left.append(place)
            elif len(young.isr) > len(old.isr):
                returned.append(place)
    for places, words in (
        (grown, "More partitions: {}."),
        (lost, "Nobody leads {} any more."),
        (left, "Replicas have fallen out of sync: {}."),
        (returned, "Replicas are in sync again: {}."),
    ):
        if places:
            found.append(words.format(few(places)))
    return found


def _topics(names: list[str]) -> str:
    return ("the topic " if len(names) == 1 else f"{len(names)} topics: ") + few(names)
