"""Shards come with leadership, are loaded from the log, and go with leadership."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pytest

from moldau.engine import shards as shards_module
from moldau.engine.key_hash import partition_for
from moldau.engine.machine import Decision, JournalFault, JournalListener, Reply, Token
from moldau.engine.shards import RETRY_MS, Codec, Shards
from moldau.engine.timers import Timers
from moldau.model.clock import Now
from moldau.model.cluster import ClusterImage, PartitionImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.records.batch import BatchHeader, read_header
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from tests.support.services import turns
from tests.support.virtual_time import ManualTime

HERE, ELSEWHERE = 1, 2
TOPIC = "__words"
NOTHING_THERE = ClusterImage("cluster", HERE)


class Say(NamedTuple):
    word: str


class Said(NamedTuple):
    word: str


class Recall(NamedTuple):
    pass


class Break(NamedTuple):
    pass


class Begin(NamedTuple):
    pass


class Words:
    """Remembers what was said."""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.words: list[str] = []
        self.kept_bytes = 0

    def decide(self, command: object, token: Token, now: Now) -> Decision:
        match command:
            case Say(word):
                return Decision((Said(word),), replies=(Reply(token, len(self.words)),))
            case Break():
                return Decision((Said("break"), Break()), replies=(Reply(token, None),))
            case _:
                return Decision.reply(token, (self.leader_epoch, tuple(self.words)))

    def apply(self, fact: object) -> None:
        assert isinstance(fact, Said), f"{fact} breaks the machine"
        self.words.append(fact.word)


class WordCodec:
    def encode(self, facts: Sequence[object], wall_ms: int) -> list[bytes]:
        words = [fact.word for fact in facts if isinstance(fact, Said)]
        return [encode_batch([Record(value=word.encode()) for word in words])]

    def decode(self, header: BatchHeader, records: list[Record]) -> Iterable[object]:
        for record in records:
            assert record.value is not None
            yield Said(record.value.decode())


class MemoryLog:
    """What one broker after another writes to a partition."""

    def __init__(self) -> None:
        self.content: list[bytes] = []
        self.is_lost = False
        self.is_outdated = False
        """Another epoch has begun, and nobody has told the coordinators yet."""


class MemoryShardLog:
    def __init__(self, log: MemoryLog, codec: Codec) -> None:
        self._log = log
        self._codec = codec
        self._listener: JournalListener | None = None

    @property
    def position(self) -> int:
        return len(self._log.content) - 1

    @property
    def is_current(self) -> bool:
        return not self._log.is_outdated

    @property
    def is_loaded(self) -> bool:
        return True

    async def load(self) -> None:
        pass

    def listen(self, listener: JournalListener) -> None:
        self._listener = listener
        listener.committed(self.position)

    def append(self, facts: Sequence[object]) -> int:
        if self._log.is_lost:
            raise JournalFault(Error.NOT_COORDINATOR, "lost")
        self._log.content += self._codec.encode(facts, 0)
        assert self._listener is not None
        self._listener.committed(self.position)
        return self.position

    def batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        for batch in self._log.content:
            yield read_header(batch), decode_batch(batch)

    def close(self) -> None:
        self._listener = None

    def fail(self, error: Error) -> None:
        assert self._listener is not None
        self._listener.failed(JournalFault(error, "as the test wants it"))


class Topic:
    """The topic in memory, and a broker that follows it."""

    def __init__(self, partitions: int = 2) -> None:
        self.logs = [MemoryLog() for _ in range(partitions)]
        self.image = NOTHING_THERE
        self.time = ManualTime()
        self.observed: list[tuple[int, object]] = []
        self.machines_made = 0
        self.opened: dict[int, MemoryShardLog] = {}
        self.shards = Shards(
            TOPIC,
            HERE,
            open_log=self.open,
            new_machine=self.new_machine,
            new_codec=WordCodec,
            loaded=Begin,
            clock=self.time.clock,
            timers=Timers(self.time.clock, self.time.call_later),
            observe=lambda partition, facts: self.observed.extend((partition, f) for f in facts),
        )

    def open(self, partition: int, codec: Codec) -> MemoryShardLog:
        if self.logs[partition].is_lost:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, "the disk is gone")
        opened = self.opened[partition] = MemoryShardLog(self.logs[partition], codec)
        return opened

    def new_machine(self, partition: int, leader_epoch: int) -> Words:
        self.machines_made += 1
        return Words(leader_epoch)

    def led(self, *leaders: int, epoch: int = 0, topic_id: bytes = b"i" * 16) -> None:
        """The cluster says who leads the partitions."""
        rows = tuple(PartitionImage(leader, epoch, (leader,), (leader,)) for leader in leaders)
        topics = {TOPIC: TopicImage(TOPIC, topic_id, rows)} if leaders else {}
        old, self.image = self.image, ClusterImage("cluster", HERE, topics=topics)
        self.shards.follow(old, self.image)

    async def say(self, partition: int, word: str) -> object:
        return await self.shards.submit_to(partition, Say(word))

    async def recall(self, partition: int) -> object:
        return await self.shards.submit_to(partition, Recall())


def play(scenario: Callable[[Topic], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(Topic())

    asyncio.run(whole())


async def refusal(future: asyncio.Future[object]) -> Error:
    with pytest.raises(ApiError) as refused:
        await future
    return refused.value.error


def test_before_the_topic_exists_there_is_no_coordinator() -> None:
    async def scenario(topic: Topic) -> None:
        assert await refusal(topic.shards.submit("key", Recall())) is (Error.NOT_COORDINATOR)
        with pytest.raises(ApiError) as refused:
            topic.shards.partition_of("key")
        assert refused.value.error is Error.COORDINATOR_NOT_AVAILABLE
        assert topic.shards.partitions() == []

    play(scenario)


def test_a_new_topic_is_ready_at_once() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        assert topic.shards.partitions() == [0, 1]
        assert await topic.say(0, "hello") == 0
        assert await topic.recall(0) == (0, ("hello",))

    play(scenario)


def test_a_key_goes_to_the_partition_that_its_hash_names() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        for key in ("one", "two", "three"):
            await topic.shards.submit(key, Say(key))
            assert topic.shards.partition_of(key) == partition_for(key, 2)
        for partition in (0, 1):
            words = tuple(k for k in ("one", "two", "three") if partition_for(k, 2) == partition)
            assert await topic.recall(partition) == (0, words)

    play(scenario)


def test_what_another_broker_leads_is_refused() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, ELSEWHERE)
        assert topic.shards.partitions() == [0]
        assert await refusal(topic.shards.submit_to(1, Recall())) is Error.NOT_COORDINATOR

    play(scenario)


def test_a_new_leader_loads_what_others_have_written() -> None:
    async def scenario(topic: Topic) -> None:
        topic.logs[0].content += WordCodec().encode([Said("old"), Said("older")], 0)
        topic.led(HERE, HERE, epoch=3)
        assert topic.shards.partitions() == [1]
        assert topic.shards.is_loading
        assert await refusal(topic.shards.submit_to(0, Recall())) is (
            Error.COORDINATOR_LOAD_IN_PROGRESS
        )
        await turns()
        assert not topic.shards.is_loading
        assert await topic.recall(0) == (3, ("old", "older"))

    play(scenario)


def test_a_long_log_is_loaded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "FACTS_PER_TURN", 10)

    async def scenario(topic: Topic) -> None:
        words = [Said(str(number)) for number in range(105)]
        topic.logs[0].content += WordCodec().encode(words, 0)
        topic.led(HERE, HERE)
        turns_taken = 0
        while topic.shards.is_loading:
            await asyncio.sleep(0)
            turns_taken += 1
        assert turns_taken >= 10, "the loop had its turns in between"
        _, found = await topic.recall(0)  # type: ignore[misc]
        assert len(found) == 105

    play(scenario)


def test_those_who_wait_are_told_when_the_leadership_goes() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        await topic.say(0, "kept")
        topic.led(ELSEWHERE, HERE, epoch=1)
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR
        assert topic.shards.partitions() == [1]

    play(scenario)


def test_a_leadership_that_is_over_is_not_used_until_somebody_tells() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE)
        await topic.say(0, "before")
        topic.logs[0].is_outdated = True
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR
        assert await refusal(topic.shards.submit_to(0, Break())) is Error.NOT_COORDINATOR
        topic.logs[0].is_outdated = False
        topic.led(HERE, epoch=1)
        await turns()
        assert await topic.recall(0) == (1, ("before",))

    play(scenario)


def test_an_engine_whose_journal_is_of_an_earlier_epoch_is_not_loaded_anew() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE)
        await topic.say(0, "before")
        topic.logs[0].is_outdated = True
        topic.opened[0].fail(Error.NOT_COORDINATOR)
        assert topic.machines_made == 1
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR

    play(scenario)


def test_a_log_that_was_replaced_in_the_same_epoch_is_opened_anew() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE)
        await topic.say(0, "before")
        # As when its disk was lost and it is back on another one.
        earlier, topic.logs[0] = topic.logs[0], MemoryLog()
        earlier.is_outdated = True
        topic.shards.follow(topic.image, topic.image)
        assert await topic.recall(0) == (0, ())
        assert await topic.say(0, "after") == 0

    play(scenario)


def test_a_new_epoch_of_the_same_leader_loads_anew() -> None:
    """Another broker may have led, and written, in between."""

    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        await topic.say(0, "mine")
        topic.logs[0].content += WordCodec().encode([Said("theirs")], 0)
        topic.led(HERE, HERE, epoch=2)
        await turns()
        assert await topic.recall(0) == (2, ("mine", "theirs"))

    play(scenario)


def test_a_change_that_does_not_touch_the_leadership_leaves_the_shard_alone() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        await topic.say(0, "kept")
        made = topic.machines_made
        topic.led(HERE, HERE)
        assert topic.machines_made == made
        assert await topic.recall(0) == (0, ("kept",))

    play(scenario)


def test_a_topic_made_anew_starts_with_nothing() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        await topic.say(0, "gone")
        topic.logs[0].content.clear()
        topic.led(HERE, HERE, topic_id=b"j" * 16)
        assert await topic.recall(0) == (0, ())
        topic.led()
        assert await refusal(topic.shards.submit("key", Recall())) is (Error.NOT_COORDINATOR)

    play(scenario)


def test_leadership_that_is_lost_while_loading_ends_the_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards_module, "FACTS_PER_TURN", 1)

    async def scenario(topic: Topic) -> None:
        topic.logs[0].content += WordCodec().encode([Said("a"), Said("b"), Said("c")], 0)
        topic.logs[1].content += WordCodec().encode([Said("other")], 0)
        topic.led(HERE, HERE)
        await asyncio.sleep(0)
        topic.led(ELSEWHERE, HERE, epoch=1)
        await turns()
        assert topic.shards.partitions() == [1]
        assert await topic.recall(1) == (1, ("other",))
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR

    play(scenario)


def test_a_log_that_cannot_be_understood_takes_only_its_own_keys_out_of_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(topic: Topic) -> None:
        broken = bytearray(WordCodec().encode([Said("x")], 0)[0])
        broken[-1] ^= 1
        topic.logs[0].content.append(bytes(broken))
        topic.logs[1].content += WordCodec().encode([Said("fine")], 0)
        topic.led(HERE, HERE)
        await turns()
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR
        assert await topic.recall(1) == (0, ("fine",))
        assert "not loaded" in caplog.text
        topic.logs[0].content.clear()
        topic.led(HERE, HERE, epoch=1)
        await turns()
        assert await topic.recall(0) == (1, ())

    play(scenario)


def test_a_log_that_could_not_be_read_is_tried_again_after_a_while() -> None:
    async def scenario(topic: Topic) -> None:
        good = WordCodec().encode([Said("fine")], 0)
        topic.logs[0].content += [b"not a batch"]
        topic.led(HERE)
        await turns()
        for _ in range(3):
            topic.time.pass_ms(RETRY_MS - 1)
            await turns()
            assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR
            topic.time.pass_ms(1)
            await turns()
        topic.logs[0].content[:] = good
        topic.time.pass_ms(RETRY_MS)
        await turns()
        assert await topic.recall(0) == (0, ("fine",))
        assert not topic.time.pending, "it is tried no more"

    play(scenario)


def test_a_log_that_is_led_elsewhere_now_is_not_tried_again() -> None:
    async def scenario(topic: Topic) -> None:
        topic.logs[0].is_lost = True
        topic.led(HERE)
        topic.logs[0].is_lost = False
        topic.led(ELSEWHERE, epoch=1)
        topic.time.pass_ms(RETRY_MS)
        await turns()
        assert topic.shards.partitions() == []

    play(scenario)


def test_a_log_on_a_broken_disk_is_not_coordinated() -> None:
    async def scenario(topic: Topic) -> None:
        topic.logs[0].is_lost = True
        topic.led(HERE, HERE)
        assert topic.shards.partitions() == [1]
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR

    play(scenario)


def test_a_machine_that_breaks_is_loaded_anew_from_its_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        await topic.say(0, "kept")
        assert await refusal(topic.shards.submit_to(0, Break())) is Error.UNKNOWN_SERVER_ERROR
        await turns()
        assert await topic.recall(0) == (0, ("kept", "break"))
        assert "loading anew" in caplog.text

    play(scenario)


def test_committed_facts_are_observed_with_their_partition() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        await topic.say(1, "hello")
        assert topic.observed == [(1, Said("hello"))]

    play(scenario)


def test_nobody_is_needed_to_hear_an_answer() -> None:
    async def scenario(topic: Topic) -> None:
        topic.shards.tell_all(Say("nobody leads"))
        topic.led(HERE, HERE)
        topic.shards.tell_all(Say("all"))
        assert await topic.recall(0) == (0, ("all",))
        assert await topic.recall(1) == (0, ("all",))

    play(scenario)


def test_after_a_stop_nothing_is_taken_any_more() -> None:
    async def scenario(topic: Topic) -> None:
        topic.led(HERE, HERE)
        topic.shards.stop()
        assert await refusal(topic.shards.submit_to(0, Recall())) is Error.NOT_COORDINATOR
        topic.led(HERE, HERE, epoch=1)
        assert topic.shards.partitions() == []

    play(scenario)
