"""The brokers: who they are, what each carries, and how evenly that is spread."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from moldau.client.shared.client_errors import KafkaError
from moldau.console import cluster_answers
from moldau.console.cluster_answers import Sizes, Topics, part
from moldau.console.page import Asked, PageFault, Shown
from moldau.console.recent_answers import Told


class BrokerRow(NamedTuple):
    id: int
    address: str
    rack: str
    is_controller: bool
    leads: int
    replicas: int
    out_of_sync: int
    leads_skew: float | None
    """How far it is from an even share, in hundredths: 25 means a quarter more than that."""
    replicas_skew: float | None
    size_bytes: int | None


async def listed(asked: Asked) -> Shown:
    link = asked.link
    told = await cluster_answers.cluster(link)
    topics = await part(cluster_answers.topics(link))
    sizes = await part(cluster_answers.sizes(link))
    cluster = told.value
    controller = -1 if cluster.controller is None else cluster.controller.id
    known = topics.value.value if topics.value else {}
    leads, replicas, behind = carried(known)
    numbers = [node.id for node in cluster.nodes]
    rows = [
        BrokerRow(
            node.id,
            f"{node.host}:{node.port}",
            node.rack or "",
            node.id == controller,
            leads[node.id],
            replicas[node.id],
            behind[node.id],
            skew(leads, node.id, numbers),
            skew(replicas, node.id, numbers),
            _size(sizes.value, node.id),
        )
        for node in sorted(cluster.nodes)
    ]
    here = set(numbers)
    return {
        "when": told.when,
        "cluster_id": cluster.cluster_id,
        "brokers": rows,
        "missing": sorted(number for number in replicas if number not in here),
        "dirs": [] if sizes.value is None else sizes.value.value.dirs,
        "faults": [each for each in (topics.fault, sizes.fault) if each]
        + ([] if sizes.value is None else sizes.value.value.faults),
    }


async def one(asked: Asked) -> Shown:
    name = asked.path["broker"]
    if not name.isdigit():
        raise PageFault(404, f"A broker has a number, not the name '{name[:40]}'.")
    shown = await listed(asked)
    assert isinstance(shown, dict)
    found = [row for row in shown["brokers"] if row.id == int(name)]
    if not found:
        raise PageFault(404, f"There is no broker {name} now.")
    try:
        features = await asked.link.admin.describe_features(int(name))
        apis = len(await asked.link.admin.api_versions(int(name)))
    except KafkaError:
        features, apis = None, None
    return {
        "broker": name,
        "row": found[0],
        "dirs": [row for row in shown["dirs"] if row.broker == int(name)],
        "faults": shown["faults"],
        "features": {} if features is None else features.finalized,
        "apis": apis,
    }


def carried(topics: Topics) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """Partitions that each broker leads, replicas that it has, and those of them out of sync."""
    leads, replicas, behind = Counter[int](), Counter[int](), Counter[int]()
    for topic in topics.values():
        for row in topic.partitions:
            if row.leader >= 0:
                leads[row.leader] += 1
            replicas.update(row.replicas)
            behind.update(set(row.replicas) - set(row.isr))
    return leads, replicas, behind


def skew(counts: Counter[int], broker: int, brokers: list[int]) -> float | None:
    total = sum(counts[each] for each in brokers)
    if not total or len(brokers) < 2:
        return None
    return counts[broker] * len(brokers) / total * 100 - 100


def _size(sizes: Told[Sizes] | None, broker: int) -> int | None:
    if sizes is None:
        return None
    found = [row.used_bytes for row in sizes.value.dirs if row.broker == broker]
    return sum(found) if found else None
