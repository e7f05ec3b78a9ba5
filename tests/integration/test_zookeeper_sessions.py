"""The store's session with a real ZooKeeper: lost, expired, protected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from moldau.metadata.store import NodeExists, SessionState, StoreError, StoreUnavailable
from moldau.metadata.zookeeper import ZooKeeperStore
from moldau.metadata.zookeeper_access import ZooKeeperAccess
from moldau.testing.broker_process import free_ports
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper
from tests.support.mixed_up_answers import MixedUpAnswers

Check = Callable[[], Awaitable[bool]]
CYCLES = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


async def opened(access: ZooKeeperAccess) -> ZooKeeperStore:
    store = ZooKeeperStore(access)
    await store.open()
    return store


async def within_seconds(check: Check, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.02)


def test_an_expired_session_loses_its_nodes_and_a_new_one_follows_by_itself(
    server: ZooKeeperProcess,
) -> None:
    async def main() -> None:
        store = await opened(ZooKeeperAccess(server.connect, session_timeout_ms=4000))
        other = await opened(ZooKeeperAccess(server.connect))
        states: list[SessionState] = []
        told: list[str] = []
        store.on_session(states.append)
        store.watch("/expiry", told.append)
        await store.create("/expiry", b"", ephemeral=True)
        session = store.session_id
        await asyncio.get_running_loop().run_in_executor(None, expire, server, store)

        async def is_back() -> bool:
            return SessionState.CONNECTED in states and await other.exists("/expiry") is None

        await within_seconds(is_back)
        assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
        assert store.session_id != session
        told.clear()
        await other.create("/expiry")

        async def is_told() -> bool:
            return bool(told)

        await within_seconds(is_told)
        await store.close()
        await other.close()

    asyncio.run(main())


# kazoo's thread dies of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_answers_that_are_mixed_up_cost_the_session_and_not_the_store(
    server: ZooKeeperProcess,
) -> None:
    async def main() -> None:
        way = MixedUpAnswers(server.port)
        await way.open()
        access = ZooKeeperAccess(f"127.0.0.1:{way.port}", session_timeout_ms=4000)
        store = await opened(access)
        states: list[SessionState] = []
        told: list[str] = []
        store.on_session(states.append)
        store.watch("/mixed-up", told.append)
        session = store.session_id
        way.mix_up_next = True
        with pytest.raises(StoreError):
            await store.create("/mixed-up", b"", ephemeral=True)

        async def is_back() -> bool:
            return SessionState.CONNECTED in states

        await within_seconds(is_back)
        assert states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
        assert store.session_id != session
        told.clear()
        await store.create("/mixed-up-too", b"")
        other = await opened(ZooKeeperAccess(server.connect))

        async def is_gone() -> bool:
            return await other.exists("/mixed-up") is None

        await within_seconds(is_gone)
        await store.close()
        await other.close()
        await way.close()

    asyncio.run(main())


def test_a_watch_tells_of_a_node_that_comes_and_goes_no_more_often_each_time(
    server: ZooKeeperProcess,
) -> None:
    async def main() -> None:
        store = await opened(ZooKeeperAccess(server.connect))
        other = await opened(ZooKeeperAccess(server.connect))
        told: list[str] = []
        store.watch("/come-and-go", told.append)
        for _ in range(CYCLES):
            for change in (other.create, other.delete):
                await change("/come-and-go")
                # Time to hear of it and to watch again; who is too slow hears less, never more.
                await asyncio.sleep(0.05)
        # Coming fires one watch, going fires those of the node and of its children.
        assert 1 <= len(told) <= 3 * CYCLES
        await store.close()
        await other.close()

    asyncio.run(main())


def expire(server: ZooKeeperProcess, store: ZooKeeperStore) -> None:
    """Whoever knows a session's password can end it: another client does."""
    assert store._client is not None
    thief = KazooClient(server.connect, client_id=store._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


def test_a_session_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    async def main() -> None:
        server = ZooKeeperProcess(tmp_path, free_ports(1)[0])
        loop = asyncio.get_running_loop()
        server.start()
        try:
            await loop.run_in_executor(None, server.wait)
            store = await opened(ZooKeeperAccess(server.connect, session_timeout_ms=20_000))
            states: list[SessionState] = []
            store.on_session(states.append)
            await store.create("/me", b"", ephemeral=True)
            session = store.session_id
            server.kill()
            server.start()
            await loop.run_in_executor(None, server.wait)

            async def is_connected() -> bool:
                return states[-1:] == [SessionState.CONNECTED]

            # A server that starts takes connections before it answers: that is a time-out each.
            await within_seconds(is_connected, 60)
            assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
            assert store.session_id == session
            with pytest.raises(NodeExists):
                await store.create("/me", b"", ephemeral=True)
            await store.close()
        finally:
            server.kill()

    asyncio.run(main())


def test_nobody_answering_is_one_sentence_after_the_time_out() -> None:
    async def main() -> None:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        with pytest.raises(StoreUnavailable, match="ZooKeeper does not answer; waited 300 ms"):
            await opened(ZooKeeperAccess(address, connection_timeout_ms=300))

    asyncio.run(main())


def test_protected_nodes_can_be_changed_with_the_password_only(server: ZooKeeperProcess) -> None:
    async def main() -> None:
        chroot = f"{server.connect}/protected"
        owner = await opened(ZooKeeperAccess(chroot, digest="moldau:secret", protects_nodes=True))
        await owner.create("/a", b"mine")
        await owner.close()
        stranger = await opened(ZooKeeperAccess(chroot, digest="moldau:guess"))
        assert (await stranger.get("/a")).data == b"mine"
        with pytest.raises(StoreError, match="does not let this broker in"):
            await stranger.set_if_version("/a", b"yours")
        await stranger.close()
        again = await opened(ZooKeeperAccess(chroot, digest="moldau:secret"))
        await again.set_if_version("/a", b"still mine")
        await again.close()

    asyncio.run(main())
