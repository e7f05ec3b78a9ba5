"""What a broker takes from a mirror and what it refuses, request by request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

import moldau.testing
from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.own.mirrors_admin import MirroredBatches, TopicToMirror
from moldau.client.shared.client_errors import KafkaError
from moldau.config.mirror_source import MirrorSource
from moldau.model.errors import Error
from moldau.records.batch_codec import ControlType, EndMarker, Record, encode_batch, encode_marker
from moldau.testing.local_broker import LocalBroker
from tests.support import seeds

TOPIC_ID = bytes(range(16))
SOURCE = MirrorSource("elsewhere", TOPIC_ID, "orders").text
PRODUCER = 7_000


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with moldau.testing.broker(in_process=True, with_faults=False) as broker:
        yield broker


def batch(base: int, count: int = 5, epoch: int = 3, producer_id: int = -1) -> bytes:
    records = [Record(timestamp=1, value=b"v", offset=base + n) for n in range(count)]
    has_producer = producer_id >= 0
    return encode_batch(
        records,
        base_offset=base,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if has_producer else -1,
        base_sequence=0 if has_producer else -1,
        transactional=has_producer,
    )


def marker(base: int) -> bytes:
    return encode_marker(
        EndMarker(ControlType.COMMIT, 0),
        producer_id=PRODUCER,
        producer_epoch=0,
        timestamp=1,
        base_offset=base,
        leader_epoch=3,
    )


def on_mirror(
    broker: LocalBroker, name: str, work: Callable[[AdminCore, Append], Awaitable[None]]
) -> None:
    async def main() -> None:
        admin = AdminCore(bootstrap_servers=broker.bootstrap)
        try:
            topic = TopicToMirror(name, bytes(16), SOURCE, {}, [3])
            await admin.begin_mirrors([topic])
            (info,) = (await admin.describe_mirrors([name])).values()

            async def append(
                offset: int, records: bytes, log_start: int = 0, source: str = SOURCE
            ) -> int | Error:
                row = MirroredBatches(info.topic_id, source, 0, offset, log_start, records)
                (outcome,) = await admin.append_mirrored([row])
                return outcome.code if isinstance(outcome, KafkaError) else outcome

            await work(admin, append)
        finally:
            await admin.close()

    asyncio.run(main())


Append = Callable[..., Awaitable[int | Error]]


def test_only_what_begins_at_its_end_is_taken(broker: LocalBroker) -> None:
    async def work(admin: AdminCore, append: Append) -> None:
        assert await append(0, batch(0)) == 5
        # The same again, something later, and something else.
        assert await append(0, batch(0)) is Error.OFFSET_OUT_OF_RANGE
        assert await append(9, batch(9)) is Error.OFFSET_OUT_OF_RANGE
        assert await append(5, batch(3)) is Error.OFFSET_OUT_OF_RANGE
        damaged = bytearray(batch(5))
        damaged[-1] ^= 1
        assert await append(5, bytes(damaged)) is Error.CORRUPT_MESSAGE
        # Compaction leaves gaps.
        assert await append(5, batch(8)) == 13

    on_mirror(broker, "ends", work)


def test_what_is_meant_for_another_topic_or_epoch_is_refused(broker: LocalBroker) -> None:
    async def work(admin: AdminCore, append: Append) -> None:
        other = MirrorSource("elsewhere", TOPIC_ID, "payments").text
        assert await append(0, batch(0), source=other) is Error.INVALID_REQUEST
        assert await append(0, batch(0, epoch=4)) is Error.UNKNOWN_LEADER_EPOCH
        (info,) = (await admin.describe_mirrors(["fenced"])).values()
        await admin.raise_mirror_epochs(info.topic_id, SOURCE, {0: 4})
        assert await append(0, batch(0, epoch=4)) == 5
        await admin.promote_mirror("fenced")
        assert await append(5, batch(5, epoch=4)) is Error.INVALID_REQUEST
        with pytest.raises(KafkaError, match="is no mirror"):
            await admin.promote_mirror("fenced")
        with pytest.raises(KafkaError):
            await admin.raise_mirror_epochs(info.topic_id, SOURCE, {0: 9})

    on_mirror(broker, "fenced", work)


def test_a_mirror_begins_where_its_original_begins_and_nowhere_else_later(
    broker: LocalBroker,
) -> None:
    async def work(admin: AdminCore, append: Append) -> None:
        assert await append(40, batch(38), log_start=40) == 43
        (info,) = (await admin.describe_mirrors(["late"])).values()
        assert (info.partitions[0].log_start, info.partitions[0].offset_end) == (40, 43)
        assert await append(60, batch(60), log_start=60) is Error.OFFSET_OUT_OF_RANGE
        # What the original deletes goes here too.
        assert await append(43, batch(43), log_start=45) == 48
        (info,) = (await admin.describe_mirrors(["late"])).values()
        assert info.partitions[0].log_start == 45
        assert await append(48, b"", log_start=47) == 48
        (info,) = (await admin.describe_mirrors(["late"])).values()
        assert (info.partitions[0].log_start, info.partitions[0].offset_end) == (47, 48)

    on_mirror(broker, "late", work)


def test_promotion_aborts_what_is_open_and_leaves_the_rest(broker: LocalBroker) -> None:
    async def work(admin: AdminCore, append: Append) -> None:
        assert await append(0, batch(0, producer_id=PRODUCER) + marker(5)) == 6
        assert await append(6, batch(6, producer_id=PRODUCER + 1)) == 11
        (info,) = (await admin.describe_mirrors(["open"])).values()
        assert info.partitions[0].last_stable_offset == 6
        assert await admin.promote_mirror("open") == 1
        (info,) = (await admin.describe_mirrors(["open"])).values()
        (place,) = info.partitions
        assert (info.source, place.offset_end, place.last_stable_offset) == ("", 12, 12)
        assert place.leader_epoch == place.last_epoch == 1 << 16

    on_mirror(broker, "open", work)
    assert len(broker.read("open", 5, isolation_level="read_committed")) == 5


def test_a_topic_that_becomes_a_mirror_is_cut_and_refuses_its_producers(
    broker: LocalBroker,
) -> None:
    async def work(admin: AdminCore, append: Append) -> None:
        await append(0, batch(0) + batch(5))
        with pytest.raises(KafkaError, match="repeats"):
            await admin.demote_to_mirror("cut", "other/" + SOURCE.split("/", 1)[1], [5])
        await admin.promote_mirror("cut")
        with pytest.raises(KafkaError, match="1 partitions to be cut"):
            await admin.demote_to_mirror("cut", SOURCE, [5, 5])
        await admin.demote_to_mirror("cut", SOURCE, [5])
        (info,) = (await admin.describe_mirrors(["cut"])).values()
        assert (info.source, info.partitions[0].offset_end) == (SOURCE, 5)
        assert info.partitions[0].last_epoch == 3
        assert await append(5, batch(5, 2)) == 7

    on_mirror(broker, "cut", work)


def test_producer_ids_of_the_two_clusters_are_far_apart(broker: LocalBroker) -> None:
    async def work(admin: AdminCore, append: Append) -> None:
        for source_id, least in ((100, 1 << 40), ((1 << 40) + 5, 2 << 40), (100, 2 << 40)):
            await admin.begin_mirrors([], source_producer_id=source_id)
            writer = f"writer-{source_id}-{least}"
            found = (await admin.fence_producers([writer]))[writer]
            assert not isinstance(found, KafkaError)
            assert least <= found.producer_id < least + (1 << 20)

    on_mirror(broker, "apart", work)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_promotion_that_a_crash_cuts_off_is_asked_for_again() -> None:
    chance = seeds.chance()
    names = [f"doomed-{number}" for number in range(60)]
    with moldau.testing.broker(with_faults=False) as broker:

        async def work(admin: AdminCore, append: Append) -> None:
            assert await append(0, batch(0, producer_id=PRODUCER)) == 5

        for name in names:
            on_mirror(broker, name, work)
        states = set()
        while left := mirrors_of(broker):
            states.update(left.values())
            promoting = threading.Thread(target=promote_some, args=(broker, sorted(left)))
            promoting.start()
            time.sleep(chance.uniform(0, 0.1))
            broker.kill()
            promoting.join()
            broker.restart()
        print(sorted(states))
        for name in names:
            assert ends_of(broker, name) == (6, 6)


def promote_some(broker: LocalBroker, names: list[str]) -> None:
    async def main() -> None:
        admin = AdminCore(bootstrap_servers=broker.bootstrap, default_api_timeout_ms=3000)
        try:
            for name in names:
                await admin.promote_mirror(name)
        except KafkaError as fault:
            print(fault)
        finally:
            await admin.close()

    asyncio.run(main())


def mirrors_of(broker: LocalBroker) -> dict[str, str]:
    """With what is being done to them."""

    async def main() -> dict[str, str]:
        admin = AdminCore(bootstrap_servers=broker.bootstrap)
        try:
            return {
                name: info.source.rpartition(" ")[0]
                for name, info in (await admin.describe_mirrors()).items()
            }
        finally:
            await admin.close()

    return asyncio.run(main())


def ends_of(broker: LocalBroker, name: str) -> tuple[int, int]:
    """The log's, and that of what is decided."""

    async def main() -> tuple[int, int]:
        admin = AdminCore(bootstrap_servers=broker.bootstrap)
        try:
            (place,) = (await admin.describe_mirrors([name]))[name].partitions
            return place.offset_end, place.last_stable_offset
        finally:
            await admin.close()

    return asyncio.run(main())
