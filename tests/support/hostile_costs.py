"""Small requests that ask for much work, and what they do to everybody else.

Each row of `ATTACKS` sends valid requests with extreme counts, repeated names or long strings to
a broker, while a healthy client goes on producing on a connection of its own. What counts is how
long that client waits, what held the broker's loop, and how much memory it takes. `python -m
tests.support.hostile_costs` prints the table; names of rows as arguments choose some.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from moldau.net.loop_watch import VARIABLE as LOOP_WATCH
from moldau.records.batch_codec import Record, encode_batch
from moldau.records.compression import Codec
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.group_admin import DeleteGroupsRequest
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from moldau.wire.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.snapshots import CreateSnapshotRequest
from moldau.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.wire.messages.transaction_admin import DescribeProducersRequest, TopicRequest
from moldau.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.wire.request_framing import decode_response, encode_request
from moldau.wire.schema import Message
from tests.support.hostile_batches import batch_of_headers, batch_of_many, messages_of_old
from tests.support.loop_holds import Hold, summary, told_in

GOOD, WIDE, LARGE, HUGE = "good", "wide", "large", "huge"
HUGE_BYTES_MAX = 95_000_000
WIDE_PARTITIONS = 100
MANY_TOPICS = [f"topic-{n}" for n in range(2_000)]
GROUP = "crowd"
GROUP_TOPIC, GROUP_PARTITIONS = "offsets", 5_000
PRODUCERS = 20_000
ANSWER_SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.002


class Client:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api_key: int, version: int, request: Message) -> Message:
        self.socket.sendall(encode_request(api_key, version, 7, "cost", request))
        return decode_response(api_key, version, self.take_frame())

    def take_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._take(4))
        return self._take(size)

    def skip_frame(self) -> int:
        """Read an answer without keeping it; its size."""
        (size,) = struct.unpack(">i", self._take(4))
        left, room = size, bytearray(1 << 20)
        while left:
            count = self.socket.recv_into(room, min(left, len(room)))
            if not count:
                raise ConnectionError("closed in the middle of an answer")
            left -= count
        return int(size)

    def _take(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(min(1 << 20, count - len(data)))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return bytes(data)


def request_of(api_key: int, version: int, request: Message) -> bytes:
    return encode_request(api_key, version, 7, "hostile", request)


def batch_of(value: bytes, producer_id: int = -1, codec: Codec = Codec.NONE) -> bytes:
    now_ms = int(time.time() * 1000)
    rows = [Record(0, now_ms, None, value)]
    if producer_id < 0:
        return encode_batch(rows, codec=codec)
    return encode_batch(rows, producer_id=producer_id, producer_epoch=0, base_sequence=0)


def produce_of(topic: str, batches: dict[int, bytes]) -> ProduceRequest:
    rows = [PartitionProduceData(index=index, records=batch) for index, batch in batches.items()]
    data = TopicProduceData(name=topic, partition_data=rows)
    return ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data])


# Attacks: each is given a port and frames made beforehand


def send_and_read(port: int, frames: list[bytes]) -> None:
    """One connection: all requests at once, then all answers. A refusal is a fine answer."""
    with Client(port) as client, contextlib.suppress(ConnectionError):
        sender = threading.Thread(target=_send, args=(client, frames))
        sender.start()
        try:
            for _ in frames:
                client.skip_frame()
        finally:
            sender.join()


def _send(client: Client, frames: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        for frame in frames:
            client.socket.sendall(frame)


def send_and_never_read(port: int, frames: list[bytes]) -> None:
    """A connection for each request; the answers stay with the broker."""
    with contextlib.ExitStack() as open_clients:
        clients = [open_clients.enter_context(Client(port)) for _ in frames]
        for client, frame in zip(clients, frames, strict=True):
            _send(client, [frame])
        time.sleep(8.0)


def create_topics() -> list[bytes]:
    rows = [
        CreatableTopic(name=f"many-{n}", num_partitions=9_999, replication_factor=1)
        for n in range(2_000)
    ]
    return [request_of(19, 5, CreateTopicsRequest(topics=rows, timeout_ms=60_000))]


def metadata(count: int) -> list[bytes]:
    rows = [MetadataRequestTopic(name=f"auto-{count}-{n}") for n in range(count)]
    return [request_of(3, 9, MetadataRequest(topics=rows))]


def describe_configs() -> list[bytes]:
    rows = [DescribeConfigsResource(resource_type=4, resource_name="0") for _ in range(3_000)]
    request = DescribeConfigsRequest(
        resources=rows, include_synonyms=True, include_documentation=True
    )
    for row in rows:
        row.configuration_keys = None
    return [request_of(32, 4, request)]


def offset_fetch() -> list[bytes]:
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=None) for _ in range(4_000)]
    return [request_of(9, 8, OffsetFetchRequest(groups=groups))]


def offset_commits() -> list[bytes]:
    rows = [
        OffsetCommitRequestPartition(partition_index=n % WIDE_PARTITIONS, committed_offset=n)
        for n in range(20_000)
    ]
    topics = [OffsetCommitRequestTopic(name=WIDE, partitions=rows)]
    return [request_of(8, 8, OffsetCommitRequest(group_id=GROUP, topics=topics))] * 5


def delete_group() -> list[bytes]:
    return [request_of(42, 2, DeleteGroupsRequest(groups_names=[GROUP]))]


def long_transaction(port: int, frames: list[bytes]) -> None:
    """Of 19,980 partitions, then one more at a time, then its end."""
    with Client(port) as client:
        answer = client.ask(22, 1, InitProducerIdRequest(transactional_id=GROUP))
        while getattr(answer, "producer_id") < 0:  # noqa: B009
            client.ask(10, 1, FindCoordinatorRequest(key=GROUP, key_type=1))
            ask = InitProducerIdRequest(transactional_id=GROUP, transaction_timeout_ms=60_000)
            answer = client.ask(22, 1, ask)
        assert isinstance(answer, InitProducerIdResponse)
        producer = answer.producer_id, answer.producer_epoch
        steps = [{"doomed-0": range(9_990), "doomed-1": range(9_990)}]
        steps += [{WIDE: range(n, n + 1)} for n in range(WIDE_PARTITIONS)]
        for step in steps:
            topics = [AddPartitionsToTxnTopic(name=n, partitions=[*p]) for n, p in step.items()]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=GROUP,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=topics,
            )
            added = client.ask(24, 3, request)
            assert isinstance(added, AddPartitionsToTxnResponse)
            (*_, last) = added.results_by_topic_v3_and_below
            assert last.results_by_partition[-1].partition_error_code == 0
        client.ask(
            26, 1, EndTxnRequest(transactional_id=GROUP, producer_id=producer[0], committed=True)
        )
        time.sleep(3.0)  # the markers


def describe_producers() -> list[bytes]:
    return [
        request_of(
            61,
            0,
            DescribeProducersRequest(topics=[TopicRequest(name=LARGE, partition_indexes=[0] * 12)]),
        )
    ]


def zstd_bombs() -> list[bytes]:
    bomb = batch_of(bytes(60_000_000), codec=Codec.ZSTD)
    return [request_of(0, 7, produce_of(WIDE, dict.fromkeys(range(WIDE_PARTITIONS), bomb)))]


def fetch(session_epoch: int) -> list[bytes]:
    rows = [FetchPartition(partition=n, partition_max_bytes=100) for n in range(200_000)]
    topics = [FetchTopic(topic="nowhere", partitions=rows)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=10**6, session_epoch=session_epoch, topics=topics
    )
    return [request_of(1, 11, request)] * (1 if session_epoch < 0 else 4)


def new_producers() -> list[bytes]:
    return [
        request_of(0, 7, produce_of(LARGE, {0: batch_of(b"x", 1_000_000 + n)}))
        for n in range(PRODUCERS)
    ]


def huge_batch(count: int) -> list[bytes]:
    return [request_of(0, 7, produce_of(HUGE, {0: batch_of_many(count)}))] * 2


def many_headers() -> list[bytes]:
    bomb = batch_of_headers(30_000_000, Codec.ZSTD)
    return [request_of(0, 7, produce_of(WIDE, dict.fromkeys(range(10), bomb)))]


def old_messages() -> list[bytes]:
    return [request_of(0, 2, produce_of(HUGE, {0: messages_of_old(2_000_000)}))] * 2


def snapshots() -> list[bytes]:
    return [request_of(20000, 0, CreateSnapshotRequest(name=f"snapshot-{n}")) for n in range(5)]


def list_offsets() -> list[bytes]:
    """Where a long batch of empty records begins to be of any time."""
    rows = [ListOffsetsPartition(partition_index=0, timestamp=1)]
    topics = [ListOffsetsTopic(name=HUGE, partitions=rows)]
    return [request_of(2, 7, ListOffsetsRequest(topics=topics))] * 10


def fetch_old() -> list[bytes]:
    """By a consumer of 0.10, from batches of some kilobytes that hold megabytes each."""
    rows = [FetchPartition(partition=n, partition_max_bytes=65_000) for n in range(10)]
    topics = [FetchTopic(topic=WIDE, partitions=rows)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10**6, topics=topics)
    return [request_of(1, 2, request)] * 4


def delete_large() -> list[bytes]:
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name="doomed", num_partitions=9_990, replication_factor=1)],
        timeout_ms=60_000,
    )
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=60_000)
    return [request_of(19, 5, create), request_of(20, 6, delete)]


def long_answers() -> list[bytes]:
    """Thirty requests of a few KB each, whose answers are tens of megabytes."""
    rows = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in MANY_TOPICS]
    for row in rows:
        row.configuration_keys = None
    request = DescribeConfigsRequest(
        resources=rows, include_synonyms=True, include_documentation=True
    )
    return [request_of(32, 4, request)] * 30


def header_tags() -> list[bytes]:
    """Five kinds of requests, each with 60 MB in a tagged field of its header."""
    frames = []
    junk = bytes(60_000_000)
    size = len(junk)
    varint = bytearray()
    while size > 127:
        varint.append(size & 127 | 128)
        size >>= 7
    varint.append(size)
    tag = b"\x01\x63" + bytes(varint) + junk
    for version in range(9, 14):
        head = struct.pack(">hhih", 3, version, 7, -1) + tag
        body = MetadataRequest(topics=[]).encode(version)
        frames.append(struct.pack(">i", len(head) + len(body)) + head + body)
    return frames


def join_group() -> list[bytes]:
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(60_000_000))
    request = JoinGroupRequest(
        group_id="heavy",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return [request_of(11, 3, request)] * 4


class Attack(NamedTuple):
    frames: Callable[[], list[bytes]]
    run: Callable[[int, list[bytes]], None] = send_and_read
    needs_huge: bool = False
    """A topic that takes batches of HUGE_BYTES_MAX."""


ATTACKS: dict[str, Attack] = {
    "nothing": Attack(list),
    "CreateTopics, 2,000 of 9,999 partitions": Attack(create_topics),
    "Metadata, 200,000 names": Attack(lambda: metadata(200_000)),
    "Metadata, 4,900 names": Attack(lambda: metadata(4_900)),
    "DescribeConfigs, one broker 3,000 times": Attack(describe_configs),
    "OffsetFetch, one group 4,000 times": Attack(offset_fetch),
    "OffsetCommit, 5 times 20,000 offsets": Attack(offset_commits),
    "DeleteGroups, 20,000 offsets": Attack(delete_group),
    "AddPartitionsToTxn, 19,980 and 100 times one": Attack(list, long_transaction),
    "Produce, 20,000 new producer ids": Attack(new_producers),
    "DescribeProducers, one partition 12 times": Attack(describe_producers),
    "Produce, 100 zstd bombs of 60 MB": Attack(zstd_bombs),
    "Produce, 2 batches of 2,000,000 records": Attack(
        lambda: huge_batch(2_000_000), needs_huge=True
    ),
    "Produce, 2 batches of 4,500,000 records": Attack(
        lambda: huge_batch(4_500_000), needs_huge=True
    ),
    "Produce, 10 records of 30,000,000 headers": Attack(many_headers),
    "Produce 2, 2 times 2,000,000 messages": Attack(old_messages, needs_huge=True),
    "ListOffsets, 10 times in 4,000,000 records": Attack(list_offsets, needs_huge=True),
    "Fetch 2, 10 batches that hold 60 MB": Attack(fetch_old),
    "Fetch, 200,000 partitions": Attack(lambda: fetch(-1)),
    "Fetch, 4 sessions of 200,000 partitions": Attack(lambda: fetch(0)),
    "DeleteTopics, 9,990 partitions": Attack(delete_large),
    "CreateSnapshot, 5 times 5,000 partitions": Attack(snapshots),
    "30 unread answers of 20 MB": Attack(long_answers, send_and_never_read),
    "5 header tags of 60 MB": Attack(header_tags),
    "JoinGroup, 4 times 60 MB, then gone": Attack(join_group, send_and_never_read),
}


# The healthy client and the measuring


class Harm(NamedTuple):
    waits_ms: list[float]
    """Of the healthy client, sorted."""
    grown_bytes: int
    """The broker's memory at its height, above what it had before."""
    seconds: float
    holds: list[Hold]
    """What held the broker's loop for more than 50 ms, not counting the load of the machine."""

    @property
    def p99_ms(self) -> float:
        return self.waits_ms[int(len(self.waits_ms) * 0.99)]

    @property
    def longest_ms(self) -> float:
        return self.waits_ms[-1]


def prepare(port: int, attack: Attack) -> None:
    """The topics, the group, the producers that the attack needs."""
    create(port, {GOOD: 1, WIDE: WIDE_PARTITIONS, LARGE: 1})
    if attack.frames is snapshots:
        create(port, {"captured": 5_000})
    if attack.needs_huge:
        create(port, {HUGE: 1}, {"max.message.bytes": str(HUGE_BYTES_MAX)})
    if attack.frames is list_offsets:
        batch = batch_of_many(4_000_000, Codec.ZSTD)
        send_and_read(port, [request_of(0, 7, produce_of(HUGE, {0: batch}))])
    if attack.frames is fetch_old:
        bomb = batch_of(bytes(60_000_000), codec=Codec.GZIP)
        frame = request_of(0, 7, produce_of(WIDE, dict.fromkeys(range(10), bomb)))
        send_and_read(port, [frame])
    if attack.frames is describe_producers:
        send_and_read(port, new_producers())
    if attack.frames is long_answers:
        create(port, dict.fromkeys(MANY_TOPICS, 1))
    if attack.frames is offset_fetch:
        commit_offsets(port, [GROUP_TOPIC])
    if attack.frames is delete_group:
        commit_offsets(port, [f"{GROUP_TOPIC}-{n}" for n in range(4)])
    if attack.frames is offset_commits:
        commit_offsets(port, [])
    if attack.run is long_transaction:
        for name in ("doomed-0", "doomed-1"):
            create(port, {name: 9_990})


def create(port: int, topics: dict[str, int], settings: dict[str, str] | None = None) -> None:
    configs = [
        CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()
    ]
    rows = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=configs)
        for name, count in topics.items()
    ]
    with Client(port) as client:
        client.ask(19, 5, CreateTopicsRequest(topics=rows, timeout_ms=60_000))


def commit_offsets(port: int, topics: list[str]) -> None:
    """A group whose offsets make a long answer."""
    for name in topics:
        create(port, {name: GROUP_PARTITIONS})
    with Client(port) as client:
        client.ask(10, 1, FindCoordinatorRequest(key=GROUP))
        for name, count in {GOOD: 1, **dict.fromkeys(topics, GROUP_PARTITIONS)}.items():
            partitions = [
                OffsetCommitRequestPartition(partition_index=n, committed_metadata="somewhere")
                for n in range(count)
            ]
            topic = OffsetCommitRequestTopic(name=name, partitions=partitions)
            commit = OffsetCommitRequest(group_id=GROUP, topics=[topic])
            while not _is_committed(client.ask(8, 8, commit)):
                time.sleep(0.1)


def _is_committed(response: Message) -> bool:
    assert isinstance(response, OffsetCommitResponse)
    return response.topics[0].partitions[0].error_code == 0


def measure(broker: BrokerProcess, attack: Attack) -> Harm:
    frames = attack.frames()
    good = request_of(0, 7, produce_of(GOOD, {0: batch_of(b"hello")}))
    waits_ms: list[float] = []
    before = peak = resident_bytes(broker.pid)
    running = threading.Thread(target=attack.run, args=(broker.port, frames), daemon=True)
    with Client(broker.port) as client:
        client.socket.sendall(good)
        client.skip_frame()
        begun, begun_ns = time.perf_counter(), time.perf_counter_ns()
        running.start()
        while running.is_alive() or time.perf_counter() - begun < 0.5:
            asked = time.perf_counter()
            client.socket.sendall(good)
            client.skip_frame()
            waits_ms.append((time.perf_counter() - asked) * 1000)
            peak = max(peak, resident_bytes(broker.pid))
            time.sleep(PAUSE_SECONDS)
    seconds = time.perf_counter() - begun
    return Harm(sorted(waits_ms), peak - before, seconds, holds_of(broker, begun_ns))


def watched_broker(folder: Path) -> BrokerProcess:
    """For one attack; its event loop is watched."""
    watch = {LOOP_WATCH: str(folder / "loop")}
    return BrokerProcess(folder, overrides={"offsets.topic.num.partitions": "1"}, environment=watch)


def holds_of(broker: BrokerProcess, since_ns: int) -> list[Hold]:
    """All processes of a machine have this clock."""
    return told_in(broker.directory / "loop", since_ns)


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def main(chosen: list[str]) -> int:
    print(
        f"{'request':45} {'p99 ms':>8} {'longest ms':>11} {'memory MB':>10} {'seconds':>8}"
        f" {'holds':>6} {'held ms':>8}"
    )
    for name, attack in ATTACKS.items():
        if chosen and not any(word.lower() in name.lower() for word in chosen):
            continue
        with (
            tempfile.TemporaryDirectory() as folder,
            watched_broker(Path(folder)) as broker,
        ):
            prepare(broker.port, attack)
            harm = measure(broker, attack)
            row = f"{harm.p99_ms:8.1f} {harm.longest_ms:11.1f} {harm.grown_bytes / 1e6:10.0f}"
            held = f"{len(harm.holds):6} {max((h.held_ms for h in harm.holds), default=0):8.0f}"
            print(f"{name:45} {row} {harm.seconds:8.1f} {held}", flush=True)
            print("".join(f"    {line}\n" for line in summary(harm.holds)), end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
