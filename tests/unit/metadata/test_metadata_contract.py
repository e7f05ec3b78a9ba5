"""What every metadata store promises, run against each form of it. A new store joins STORES."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    StoreError,
    StoreUnavailable,
    Write,
)
from moldau.metadata.zookeeper import ZooKeeperStore
from moldau.metadata.zookeeper_access import ZooKeeperAccess
from moldau.testing.shared_tree import SharedTree
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper

Scenario = Callable[[MetadataStore], Awaitable[None]]


def in_memory(_: Path) -> MetadataStore:
    return EmbeddedStore()


def in_a_file(directory: Path) -> MetadataStore:
    store = EmbeddedStore(directory / "moldau.metadata")
    store.open()
    return store


def in_a_shared_tree(_: Path) -> MetadataStore:
    return SharedTree().session()


STORES = [in_memory, in_a_file, in_a_shared_tree]
chroots = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(
    params=[*STORES, "in_zookeeper"], ids=lambda make: getattr(make, "__name__", str(make))
)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    async def main(scenario: Scenario) -> None:
        store = await opened()
        await scenario(store)
        await store.close()

    async def opened() -> MetadataStore:
        if request.param != "in_zookeeper":
            return cast("MetadataStore", request.param(tmp_path))
        server = request.getfixturevalue("server")
        store = ZooKeeperStore(ZooKeeperAccess(f"{server.connect}/test/{next(chroots)}"))
        await store.open()
        return store

    return lambda scenario: asyncio.run(main(scenario))


Run = Callable[[Scenario], None]


def test_what_was_written_can_be_read(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await store.create("/a", b"one") == "/a"
        assert (await store.get("/a")).data == b"one"
        assert (await store.get("/a")).version == 0
        assert await store.set_if_version("/a", b"two", 0) == 1
        node = await store.exists("/a")
        assert node is not None
        assert (node.data, node.version) == (b"two", 1)

    run(scenario)


def test_a_missing_node_is_refused_by_everything_that_needs_it(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await store.exists("/a") is None
        for call in (
            store.get("/a"),
            store.children("/a"),
            store.set_if_version("/a", b"", 0),
            store.delete("/a"),
            store.create("/a/b"),
        ):
            with pytest.raises(NoNode):
                await call

    run(scenario)


def test_a_node_is_created_once(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a", b"first")
        with pytest.raises(NodeExists):
            await store.create("/a", b"second")
        assert (await store.get("/a")).data == b"first"

    run(scenario)


def test_a_write_with_the_wrong_version_is_refused(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a", b"one")
        await store.set_if_version("/a", b"two", 0)
        for call in (store.set_if_version("/a", b"three", 0), store.delete("/a", 0)):
            with pytest.raises(BadVersion):
                await call
        assert await store.set_if_version("/a", b"any version", -1) == 2
        await store.delete("/a", 2)
        assert await store.exists("/a") is None

    run(scenario)


def test_children_are_listed_by_name_in_order(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a")
        for name in ("z", "b", "y"):
            await store.create(f"/a/{name}")
        await store.create("/a/b/deeper")
        assert await store.children("/a") == ["b", "y", "z"]
        await store.delete("/a/y")
        assert await store.children("/a") == ["b", "z"]
        assert await store.children("/a/z") == []
        assert "a" in await store.children("/")

    run(scenario)


def test_a_node_with_children_cannot_be_deleted(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a")
        await store.create("/a/b")
        with pytest.raises(NotEmpty):
            await store.delete("/a")

    run(scenario)


def test_many_nodes_are_read_at_once_with_none_for_missing_ones(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a", b"1")
        await store.create("/c", b"3")
        nodes = await store.get_many(["/a", "/b", "/c"])
        assert [node and node.data for node in nodes] == [b"1", None, b"3"]

    run(scenario)


def test_sequential_nodes_are_numbered_and_no_number_comes_twice(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/q")
        first = await store.create("/q/job_", sequential=True)
        assert first == "/q/job_0000000000"
        await store.delete(first)
        assert await store.create("/q/job_", sequential=True) == "/q/job_0000000001"

    run(scenario)


def test_a_multi_does_all_or_nothing(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/epoch", b"1")
        with pytest.raises(BadVersion):
            await store.multi([Create("/a"), Create("/a/b"), Check("/epoch", 5)])
        assert await store.exists("/a") is None
        results = await store.multi(
            [Check("/epoch", 0), Create("/a"), Create("/a/b", b"x"), Write("/a/b", b"y")]
        )
        assert results == [None, "/a", "/a/b", 1]
        assert (await store.get("/a/b")).data == b"y"
        assert await store.multi([]) == []

    run(scenario)


def test_an_op_of_a_multi_sees_the_ones_before_it(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.multi([Create("/a"), Create("/a/b"), Delete("/a/b"), Delete("/a")])
        assert await store.exists("/a") is None
        await store.multi([Create("/a"), Create("/a/b"), Create("/a/c")])
        with pytest.raises(NotEmpty):
            await store.multi([Delete("/a/b"), Delete("/a")])
        await store.multi([Delete("/a/b"), Delete("/a/c"), Delete("/a"), Create("/a", b"new")])
        assert (await store.get("/a")).version == 0
        assert await store.children("/a") == []
        with pytest.raises(NodeExists):
            await store.multi([Create("/d"), Create("/d")])

    run(scenario)


def test_transactions_are_numbered_so_that_a_node_made_again_is_another(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a")
        before = await store.get("/a")
        await store.delete("/a")
        await store.create("/a")
        assert (await store.get("/a")).created_by > before.created_by

    run(scenario)


def test_calls_take_effect_in_the_order_they_were_started_in(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/a", b"")
        writes = [store.set_if_version("/a", str(n).encode(), n) for n in range(50)]
        assert await asyncio.gather(*writes) == list(range(1, 51))
        assert (await store.get("/a")).data == b"49"

    run(scenario)


def test_a_watch_tells_of_data_and_children_until_cancelled(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        told: set[str] = set()
        await store.create("/a")
        watches = [store.watch(path, told.add) for path in ("/a", "/a/b")]
        await store.create("/a/b")
        await becomes(told, {"/a", "/a/b"})
        await store.set_if_version("/a/b", b"x", 0)
        # A parent hears of children that come and go, not of their data.
        await becomes(told, {"/a/b"})
        await store.set_if_version("/a", b"x", 0)
        await becomes(told, {"/a"})
        await store.delete("/a/b")
        await becomes(told, {"/a", "/a/b"})
        for watch in watches:
            watch.cancel()
            watch.cancel()
        await store.create("/a/b")
        await store.get("/a/b")
        assert told == set()

    run(scenario)


async def becomes(told: set[str], wanted: set[str]) -> None:
    """What was told since the last look; one change may be told twice, so it is let settle."""
    async with asyncio.timeout(10):
        while told != wanted:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    assert told == wanted
    told.clear()


def test_a_refused_write_tells_nobody(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        told: list[str] = []
        await store.create("/a")
        store.watch("/a", told.append)
        with pytest.raises(BadVersion):
            await store.multi([Write("/a", b"x"), Check("/a", 9)])
        assert told == []

    run(scenario)


def test_an_ephemeral_node_is_like_any_other_but_has_no_children(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create("/me", b"here", ephemeral=True)
        assert (await store.get("/me")).data == b"here"
        await store.set_if_version("/me", b"still", 0)
        with pytest.raises(NoChildrenForEphemerals):
            await store.create("/me/child")
        await store.delete("/me")
        assert await store.exists("/me") is None

    run(scenario)


def test_a_path_has_to_be_absolute_and_without_empty_names(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        for path in ("", "a", "/", "/a/", "//a"):
            with pytest.raises(StoreError):
                await store.create(path)

    run(scenario)


def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        store = in_a_file(tmp_path)
        await store.close()
        await store.close()
        for call in (store.get("/"), store.create("/a")):
            with pytest.raises(StoreUnavailable):
                await call

    asyncio.run(main())


def test_the_number_of_the_last_transaction_grows_with_every_write(run: Run) -> None:
    async def scenario(store: MetadataStore) -> None:
        before = await store.transaction()
        await store.multi([Create("/a"), Create("/b")])
        after = await store.transaction()
        assert after > before
        await store.get("/a")
        assert await store.transaction() == after

    run(scenario)
