"""The controller's journal while the connection to ZooKeeper breaks, again and again.

What is broken off may have been done or not, alone or with some of what was sent behind it; what is
sent next goes over the next connection, perhaps before the journal has heard of anything; and what
is read there may be old. Whatever happens, the tree holds every change once and in order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable

import pytest

from moldau.cluster.tree.metadata_journal import ControllerEpoch, MetadataJournal, Patience
from moldau.controller.controller_facts import ConfigKind, ConfigsChanged, TopicCreated
from moldau.engine.machine import JournalFault
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import Create, Node, Op, StoreUnavailable, Write
from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from tests.support import seeds
from tests.support.virtual_time import ManualTime

LIVES = 100
CHANGES = 40
TOPICS = 7
TIMEOUT_MS = 20_000
TURNS_MAX = 100_000


class BreakingStore(EmbeddedStore):
    """One call after the other over the present connection; `fate` says what becomes of each."""

    def __init__(self, fate: Callable[[], str]) -> None:
        super().__init__()
        self.fate = fate
        self.breaks = 0
        self._connection = 0
        self._turns = asyncio.Lock()
        self._epochs: list[Node] = []

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        connection = self._connection
        async with self._turns:
            await asyncio.sleep(0)
            fate = self.fate()
            if connection != self._connection or fate == "never arrived":
                raise self._broken(connection)
            try:
                results = await super().multi(ops)
            finally:
                self._epochs.append(await super().get(paths.CONTROLLER_EPOCH))
            if fate == "answer lost":
                raise self._broken(connection)
            return results

    async def by_another(self, *ops: Op) -> None:
        await super().multi(ops)

    async def get(self, path: str) -> Node:
        connection = self._connection
        await asyncio.sleep(0)
        fate = self.fate()
        if connection != self._connection or fate == "never arrived":
            raise self._broken(connection)
        if fate == "old" and len(self._epochs) > 1:
            return self._epochs[-2]
        return await super().get(path)

    def _broken(self, connection: int) -> StoreUnavailable:
        if connection == self._connection:
            self._connection += 1
            self.breaks += 1
        return StoreUnavailable("/", "ZooKeeper did not answer: ConnectionLoss")


class Listener:
    def __init__(self) -> None:
        self.committed_up_to = 0
        self.fault: JournalFault | None = None

    def committed(self, position: int) -> None:
        assert position == self.committed_up_to + 1, "in order, none left out"
        self.committed_up_to = position

    def failed(self, fault: JournalFault) -> None:
        self.fault = fault


class Term:
    """A journal of epoch 5 that waits for its store for 20 s of virtual time."""

    def __init__(self, fate: Callable[[], str]) -> None:
        self.time = ManualTime()
        self.store = BreakingStore(lambda: "done")
        self.listener = Listener()
        patience = Patience(Timers(self.time.clock, self.time.call_later), TIMEOUT_MS)
        term = ControllerEpoch(0, 5, 0)
        self.journal = MetadataJournal(self.store, term, patience=patience)
        self.journal.listen(self.listener)
        self._fate = fate

    async def begin(self) -> Term:
        await self.store.by_another(*map(Create, paths.PERSISTENT_PATHS))
        await self.store.by_another(Create(paths.CONTROLLER_EPOCH, b"5"))
        self.store.fate = self._fate
        return self

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(TURNS_MAX):
            if is_so():
                return
            await asyncio.sleep(0)
            self.time.pass_ms(1)
        raise AssertionError("it did not come true")


def created(name: str) -> TopicCreated:
    partition = PartitionImage(0, 0, (0,), (0,))
    return TopicCreated(name, name.encode().ljust(16), (partition,), {})


def configured(name: str, number: int) -> ConfigsChanged:
    return ConfigsChanged(ConfigKind.TOPIC, name, {"retention.ms": str(number)})


async def exists(store: BreakingStore, path: str) -> bool:
    return await EmbeddedStore.exists(store, path) is not None


def test_every_change_is_in_the_tree_once_and_in_order_however_connections_break() -> None:
    breaks = sum(asyncio.run(broken_life(seed)) for seed in seeds.several(LIVES))
    assert breaks > LIVES, "connections broke"


async def broken_life(seed: int) -> int:
    chance = random.Random(seed)

    def fate() -> str:
        return chance.choices(["done", "never arrived", "answer lost", "old"], [12, 1, 1, 2])[0]

    term = await Term(fate).begin()
    store, listener = term.store, term.listener
    last: dict[str, int] = {}
    for number in range(CHANGES):
        name = f"t{number % TOPICS}"
        if name not in last and chance.random() < 0.3:
            # Left by somebody else, while writes are under way.
            await store.by_another(Create(paths.topic_config_path(name), b"{}"))
        fact = configured(name, number) if name in last else created(name)
        last[name] = number
        term.journal.append([fact])
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
            term.time.pass_ms(1)
    await term.until(lambda: listener.committed_up_to == CHANGES or listener.fault is not None)
    assert listener.fault is None
    epoch = await EmbeddedStore.get(store, paths.CONTROLLER_EPOCH)
    assert (epoch.data, epoch.version) == (b"5", CHANGES), "each exactly once"
    for name, number in last.items():
        node = await EmbeddedStore.get(store, paths.topic_config_path(name))
        assert paths.decode_config(node.data) == {"retention.ms": str(number)}
    return store.breaks


def test_a_controller_that_was_replaced_while_it_waited_writes_nothing_more() -> None:
    fates = ["never arrived"]

    async def story() -> None:
        term = await Term(lambda: fates.pop() if fates else "done").begin()
        term.journal.append([created("t")])
        # Another is elected before this one is connected again.
        await term.store.by_another(Write(paths.CONTROLLER_EPOCH, b"6"))
        await term.until(lambda: term.listener.fault is not None)
        assert term.listener.fault is not None
        assert term.listener.fault.error is Error.NOT_CONTROLLER
        assert term.listener.committed_up_to == 0
        assert not await exists(term.store, paths.topic_path("t"))
        with pytest.raises(JournalFault):
            term.journal.append([created("u")])

    asyncio.run(story())


def test_a_controller_that_hears_nothing_for_as_long_as_a_session_lasts_resigns() -> None:
    async def story() -> None:
        term = await Term(lambda: "never arrived").begin()
        began_ms = term.time.clock.now_ms
        term.journal.append([created("t")])
        await term.until(lambda: term.listener.fault is not None)
        assert TIMEOUT_MS <= term.time.clock.now_ms - began_ms <= TIMEOUT_MS * 1.1
        assert term.listener.fault is not None
        assert term.listener.fault.error is Error.KAFKA_STORAGE_ERROR
        assert "ConnectionLoss" in term.listener.fault.message

    asyncio.run(story())


def test_a_term_that_ends_while_the_journal_waits_writes_nothing_more() -> None:
    async def story() -> None:
        term = await Term(lambda: "never arrived").begin()
        term.journal.append([created("t")])
        await term.until(lambda: term.store.breaks == 2)
        term.journal.close()
        term.store.fate = lambda: "done"
        for _ in range(100):
            await asyncio.sleep(0)
            term.time.pass_ms(100)
        assert not await exists(term.store, paths.topic_path("t"))
        assert (term.listener.committed_up_to, term.listener.fault) == (0, None)

    asyncio.run(story())
