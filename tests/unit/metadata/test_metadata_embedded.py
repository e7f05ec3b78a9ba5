"""The embedded store's durability: what was answered survives, what was torn is dropped."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from moldau.metadata import embedded
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.journal_file import FILE_HEADER, JournalFile
from moldau.metadata.store import Create, Delete, StoreError, StoreUnavailable, Write
from tests.support import seeds


async def at_once(work: Callable[[], None]) -> None:
    work()


class SlowDisk:
    """Holds every sync until the test lets it finish, or breaks it."""

    def __init__(self) -> None:
        self.syncs: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    async def offload(self, work: Callable[[], None]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.syncs.append((work, done))
        await done

    async def finish(self) -> None:
        work, done = self.syncs.pop(0)
        work()
        done.set_result(None)
        await turns()

    async def fail(self, error: int) -> None:
        _, done = self.syncs.pop(0)
        done.set_exception(OSError(error, os.strerror(error)))
        await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def opened(path: Path, **kwargs: Callable[[Callable[[], None]], Awaitable[None]]) -> EmbeddedStore:
    store = EmbeddedStore(path, offload=kwargs.get("offload", at_once))
    store.open()
    return store


def nodes_in(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Everything a fresh start finds."""
    store = opened(path)
    found = {put.path: (put.data, put.version, put.created_by) for put in store._tree.snapshot()}
    asyncio.run(store.close())
    return found


async def some_history(store: EmbeddedStore) -> None:
    await store.create("/a", b"one")
    await store.multi([Create("/a/b", b"two"), Create("/a/c"), Write("/a", b"uno")])
    await store.delete("/a/c")
    await store.create("/a/d_", b"three", sequential=True)
    await store.set_if_version("/a/b", b"dos", 0)


def test_nobody_else_may_read_the_file_also_after_it_was_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "metadata"
    store = opened(path)
    asyncio.run(some_history(store))
    assert path.stat().st_mode & 0o777 == 0o600
    # As an earlier version made it.
    path.chmod(0o644)
    store._file.rewrite(b"")
    assert path.stat().st_mode & 0o777 == 0o600
    asyncio.run(store.close())


def test_a_restart_finds_data_versions_and_numbering(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened(tmp_path / "m")
        await some_history(store)
        before = nodes_of(store)
        await store.close()
        again = opened(tmp_path / "m")
        assert nodes_of(again) == before
        assert await again.create("/a/d_", sequential=True) == "/a/d_0000000003"
        await again.close()

    asyncio.run(main())


def nodes_of(store: EmbeddedStore) -> dict[str, tuple[bytes, int, int]]:
    return {put.path: (put.data, put.version, put.created_by) for put in store._tree.snapshot()}


def test_ephemeral_nodes_do_not_survive_their_session(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened(tmp_path / "m")
        await store.multi([Create("/kept"), Create("/gone", b"", ephemeral=True)])
        await store.close()
        again = opened(tmp_path / "m")
        assert await again.children("/") == ["kept"]
        await again.close()

    asyncio.run(main())


def test_a_crash_at_any_byte_of_the_last_write_leaves_what_was_there_before(tmp_path: Path) -> None:
    path = tmp_path / "m"

    async def write() -> bytes:
        store = opened(path)
        await some_history(store)
        before = path.read_bytes()
        await store.multi([Create("/new", b"torn"), Write("/a", b"changed"), Delete("/a/b")])
        await store.close()
        return before

    before = asyncio.run(write())
    whole = path.read_bytes()
    path.write_bytes(before)
    expected = nodes_in(path)
    for length in range(len(before), len(whole)):
        path.write_bytes(whole[:length])
        assert nodes_in(path) == expected, length
        assert path.read_bytes() == before, "the torn tail is gone, so that a new one can follow"
    for broken in range(len(before), len(whole)):
        damaged = bytearray(whole)
        damaged[broken] ^= 0x55
        path.write_bytes(damaged)
        assert nodes_in(path) == expected, broken
    path.write_bytes(whole)
    assert "/new" in nodes_in(path)


def test_a_crash_at_any_byte_of_the_whole_file_leaves_a_prefix_of_the_history(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m"
    states: list[dict[str, tuple[bytes, int, int]]] = []

    async def write() -> None:
        store = opened(path)
        states.append(nodes_of(store))
        for number in range(6):
            await store.create(f"/n{number}", bytes(number))
            states.append(nodes_of(store))
        await store.close()

    asyncio.run(write())
    whole = path.read_bytes()
    reached = 0
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        state = states.index(nodes_in(path))
        assert state >= reached
        reached = state
    assert reached == 6


def test_zeros_behind_the_last_write_are_cut_off(tmp_path: Path) -> None:
    """Some file systems leave these after a power failure."""
    path = tmp_path / "m"

    async def write() -> None:
        store = opened(path)
        await store.create("/a")
        await store.close()

    asyncio.run(write())
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(5000))
    assert "/a" in nodes_in(path)
    assert path.read_bytes() == whole


def test_damage_to_durable_data_is_refused_and_nothing_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "m"

    async def write() -> int:
        store = opened(path)
        await store.create("/a", b"precious")
        end = path.stat().st_size
        await store.create("/b")
        await store.close()
        return end

    first_end = asyncio.run(write())
    whole = path.read_bytes()
    for broken in range(len(FILE_HEADER), first_end):
        damaged = bytearray(whole)
        damaged[broken] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(StoreUnavailable, match="damaged at byte 16"):
            opened(path)
        assert path.read_bytes() == damaged


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"something else entirely")
    with pytest.raises(StoreUnavailable, match="not a metadata journal"):
        opened(tmp_path / "m")


def test_a_directory_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        opened(tmp_path / "missing" / "m")


def test_two_brokers_cannot_share_a_file(tmp_path: Path) -> None:
    async def main() -> None:
        store = opened(tmp_path / "m")
        with pytest.raises(StoreUnavailable, match="Failed to acquire lock on file m in"):
            opened(tmp_path / "m")
        await store.close()
        await opened(tmp_path / "m").close()

    asyncio.run(main())


def test_nothing_is_answered_before_it_is_on_disk(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        store = opened(tmp_path / "m", offload=disk.offload)
        created = asyncio.create_task(store.create("/a", b"x"))
        await turns()
        reading = asyncio.create_task(store.get("/a"))
        told: list[str] = []
        store.watch("/a", told.append)
        await turns()
        assert not created.done()
        assert not reading.done(), "a reader must not see what a crash could take back"
        assert told == []
        await disk.finish()
        assert await created == "/a"
        assert (await reading).data == b"x"
        assert told == ["/a"]
        await store.close()

    asyncio.run(main())


def test_writes_that_arrive_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        store = opened(tmp_path / "m", offload=disk.offload)
        first = asyncio.create_task(store.create("/first"))
        await turns()
        rest = [asyncio.create_task(store.create(f"/n{number}")) for number in range(100)]
        await turns()
        assert len(disk.syncs) == 1
        await disk.finish()
        assert first.done()
        assert not any(each.done() for each in rest)
        assert len(disk.syncs) == 1
        await disk.finish()
        assert all(each.done() for each in rest)
        await store.close()

    asyncio.run(main())


def test_a_failing_disk_is_told_to_all_who_wait_and_what_was_durable_stays(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        store = opened(tmp_path / "m", offload=disk.offload)
        await store.create("/me", ephemeral=True)
        assert disk.syncs == [], "a session's node needs no disk"
        kept = asyncio.create_task(store.create("/kept"))
        await turns()
        await disk.finish()
        await kept
        waiting = [asyncio.create_task(store.create("/lost"))]
        await turns()
        waiting += [asyncio.create_task(store.create("/too")), asyncio.create_task(store.get("/"))]
        await turns()
        await disk.fail(errno.EIO)
        for each in waiting:
            with pytest.raises(StoreUnavailable, match="cannot be written"):
                await each
        assert await store.children("/") == ["kept", "me"], "and the session goes on"
        again = asyncio.create_task(store.create("/lost"))
        await turns()
        await disk.finish()
        assert await again == "/lost"
        await store.close()

    asyncio.run(main())
    assert set(nodes_in(tmp_path / "m")) == {"/", "/kept", "/lost"}


def test_a_write_that_fails_half_way_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = JournalFile(str(tmp_path / "m"))
    file.open()
    file.append(b"x" * 10)
    write = os.pwrite

    def half_full(fd: int, data: memoryview, position: int) -> int:
        if position > file.size_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:3], position)

    monkeypatch.setattr(os, "pwrite", half_full)
    with pytest.raises(OSError, match="No space left"):
        file.append(b"y" * 10)
    monkeypatch.undo()
    assert (tmp_path / "m").stat().st_size == file.size_bytes == len(FILE_HEADER) + 10
    file.close()


def test_the_file_is_compacted_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "COMPACT_FROM_BYTES", 2000)
    before = asyncio.run(_write_often(tmp_path / "m"))
    assert (tmp_path / "m").stat().st_size < 5000
    assert nodes_in(tmp_path / "m") == before
    assert os.listdir(tmp_path) == ["m"]


def test_the_file_is_compacted_at_start_when_most_of_it_is_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.run(_write_often(tmp_path / "m"))
    assert (tmp_path / "m").stat().st_size > 20_000
    monkeypatch.setattr(embedded, "COMPACT_FROM_BYTES", 2000)
    assert nodes_in(tmp_path / "m") == before
    assert (tmp_path / "m").stat().st_size < 1000
    assert nodes_in(tmp_path / "m") == before, "and once more, from the compacted file"
    assert os.listdir(tmp_path) == ["m"]


def test_a_crash_while_compacting_leaves_the_old_file(tmp_path: Path) -> None:
    before = asyncio.run(_write_often(tmp_path / "m"))
    (tmp_path / "m.tmp").write_bytes(FILE_HEADER + b"half a snapshot")
    assert nodes_in(tmp_path / "m") == before


async def _write_often(path: Path) -> dict[str, tuple[bytes, int, int]]:
    store = opened(path)
    await store.multi([Create("/a"), Create("/b")])
    for number in range(500):
        await store.set_if_version("/a", b"%d" % number)
    await store.close()
    return nodes_of(store)


def test_random_histories_survive_a_crash_between_any_two_of_their_writes(tmp_path: Path) -> None:
    for seed in seeds.several(20, first=0):
        asyncio.run(_random_history(tmp_path / f"m{seed}", random.Random(seed)))


async def _random_history(path: Path, rng: random.Random) -> None:
    store = opened(path)
    copy = path.with_name(path.name + ".crashed")
    names = [f"/{a}" for a in "abc"] + [f"/{a}/{b}" for a in "abc" for b in "xyz"]
    for _ in range(60):
        name = rng.choice(names)
        try:
            action = rng.random()
            if action < 0.5:
                await store.create(name, rng.randbytes(rng.randrange(30)))
            elif action < 0.8:
                await store.set_if_version(name, rng.randbytes(5))
            else:
                await store.delete(name)
        except StoreError:
            continue
        copy.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(4)))
        crashed = opened(copy)
        assert nodes_of(crashed) == nodes_of(store)
        await crashed.close()
    await store.close()


def test_a_long_write_lets_others_have_turns_and_is_not_overtaken_by_the_next() -> None:
    async def play() -> tuple[int, list[str]]:
        store = EmbeddedStore()
        paths = ["/t", *(f"/t/{n}" for n in range(5 * embedded.OPS_PER_TURN))]
        ended: list[str] = []
        turns_of_others = 0

        def count() -> None:
            nonlocal turns_of_others
            if not ended:
                turns_of_others += 1
                asyncio.get_running_loop().call_soon(count)

        async def write(name: str, writing: Awaitable[object]) -> None:
            await writing
            ended.append(name)

        count()
        await asyncio.gather(
            write("all", store.multi([Create(path, b"") for path in paths])),
            write("the last", store.set_if_version(paths[-1], b"new", 0)),
            write("all again", store.multi([Write(path, b"x") for path in paths])),
            write("the first", store.set_if_version("/t", b"newest", 1)),
        )
        node = await store.exists("/t")
        assert node is not None and node.data == b"newest"
        return turns_of_others, ended

    turns_of_others, ended = asyncio.run(play())
    assert turns_of_others >= 5
    assert ended == ["all", "the last", "all again", "the first"]


def test_a_long_write_that_is_refused_changes_nothing_and_holds_up_nobody() -> None:
    async def play() -> None:
        store = EmbeddedStore()
        ops = [Create(f"/n{n}", b"") for n in range(2 * embedded.OPS_PER_TURN)]
        with pytest.raises(StoreError):
            await store.multi([*ops, Create("/nobody/there", b"")])
        assert await store.children("/") == []
        await store.multi(ops)
        assert len(await store.children("/")) == len(ops)

    asyncio.run(play())
