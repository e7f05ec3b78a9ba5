"""Who came after whom: dependencies between transactions, and circles among them (as Elle's).

ww: both wrote to a partition, one behind the other. wr: one read what the other wrote. rw: one read
up to where the other wrote later. so: one client did one after the other.

A circle of ww alone is G0, one of ww, wr and so is G1c, one with a single rw G-single, with more
G2. Kafka promises less than serializable transactions: those of two transactional ids that are open
at the same time may stand in either order in each partition, and a reader has no snapshot. So ww
counts only between transactions of one id, which are never open together, and rw not at all;
`strict` counts everything, for histories that must be serial.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Iterator

from tests.support.histories.index import Index
from tests.support.histories.model import Anomaly, Operation, Outcome, Place

Edges = dict[int, dict[int, str]]
"""From and to by number, and the strongest kind of dependency between them."""

STRENGTH = ("ww", "wr", "so", "rw")


def cycles(index: Index, strict: bool = False) -> Iterator[Anomaly]:
    nodes = [each for each in index.transactions if each.outcome is not Outcome.FAIL]
    numbers = {id(each): number for number, each in enumerate(nodes)}
    edges: Edges = defaultdict(dict)
    for kind, one, other in _dependencies(index, nodes, strict):
        if one is not other and id(one) in numbers and id(other) in numbers:
            known = edges[numbers[id(one)]]
            before = known.get(numbers[id(other)], "rw")
            known[numbers[id(other)]] = min(kind, before, key=STRENGTH.index)
    for group in _circles(edges, len(nodes)):
        circle = _shortest(edges, group)
        kinds = [edges[one][other] for one, other in itertools.pairwise(circle)]
        steps = [f"{kind} → {nodes[to]}" for kind, to in zip(kinds, circle[1:], strict=True)]
        yield Anomaly(_name(kinds), " ".join([str(nodes[circle[0]]), *steps]))


def _name(kinds: list[str]) -> str:
    if set(kinds) == {"ww"}:
        return "G0"
    backward = kinds.count("rw")
    return ("G1c", "G-single")[backward] if backward < 2 else "G2"


def _dependencies(
    index: Index, nodes: list[Operation], strict: bool
) -> Iterator[tuple[str, Operation, Operation]]:
    order: dict[Place, list[tuple[int, Operation]]] = {}
    for place, records in index.history.logs.items():
        known = [(o, index.writers[value][0]) for o, value in records if value in index.writers]
        order[place] = sorted(known, key=lambda each: each[0])
    for written in order.values():
        last: dict[str | None, Operation] = {}
        for _, operation in written:
            chain = None if strict else operation.identity
            if chain in last and (strict or chain is not None):
                yield "ww", last[chain], operation
            last[chain] = operation
    for operation in nodes:
        for read in operation.reads:
            for _, value in read.records:
                if value in index.writers:
                    yield "wr", index.writers[value][0], operation
            if strict:
                later = [each for o, each in order.get(read.place, []) if o >= read.end]
                if later:
                    yield "rw", operation, later[0]
    sessions: dict[str, Operation] = {}
    for operation in sorted(nodes, key=lambda each: each.invoked):
        if operation.process in sessions:
            yield "so", sessions[operation.process], operation
        sessions[operation.process] = operation


def _circles(edges: Edges, count: int) -> list[set[int]]:
    """The strongly connected groups of more than one (Tarjan's way, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[set[int]] = []
    for root in range(count):
        if root in index:
            continue
        work = [(root, iter(edges.get(root, {})))]
        while work:
            node, others = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for other in others:
                if other not in index:
                    work.append((other, iter(edges.get(other, {}))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group: set[int] = set()
                    while node not in group:
                        group.add(stack.pop())
                    on_stack -= group
                    if len(group) > 1:
                        found.append(group)
    return found


def _shortest(edges: Edges, group: set[int]) -> list[int]:
    """A shortest circle in the group; it begins and ends with the same number."""
    best: list[int] = []
    for start in group:
        came: dict[int, int] = {}
        queue = deque([start])
        while queue and start not in came:
            node = queue.popleft()
            for other in edges.get(node, {}):
                if other in group and other not in came:
                    came[other] = node
                    queue.append(other)
        path = [start]
        while len(path) == 1 or path[-1] != start:
            path.append(came[path[-1]])
        if not best or len(path) < len(best):
            best = path[::-1]
    return best
