"""The table of what is done with a batch, by what checkpoint and markers say of it."""

from __future__ import annotations

import random

import pytest

from moldau.model.names import TopicPartition
from moldau.pipelines.sink.batch_continuation import Plan, is_written
from moldau.pipelines.sink.batch_markers import Marker
from moldau.pipelines.sink.sink_options import ContinuationError
from tests.support import seeds

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def marker(batch_id: int, end: int, digest: str | None = None) -> Marker:
    return Marker("q", batch_id, {ONE: end}, sources=digest or f"digest {end}")


def plans(*ends: int) -> list[Plan]:
    return [Plan({ONE: end}, f"digest {end}") for end in ends]


@pytest.mark.parametrize(
    ("batch_id", "markers", "checkpoint", "expected"),
    [
        pytest.param(0, [], plans(10), False, id="the first of all"),
        pytest.param(1, [marker(0, 10)], plans(10, 20), False, id="the next"),
        pytest.param(0, [marker(0, 10)], plans(10), True, id="repeated"),
        pytest.param(1, [marker(0, 10), marker(1, 20)], plans(10, 20), True, id="repeated later"),
        pytest.param(
            0, [marker(0, 10), marker(1, 20)], plans(10), True, id="fallen back, planned the same"
        ),
        pytest.param(
            1, [Marker("q", 1, {ONE: 20})], plans(10, 20), True, id="a marker without a digest"
        ),
        pytest.param(1, [marker(1, 30), marker(1, 20)], plans(10, 20), True, id="the last counts"),
    ],
)
def test_a_batch_that_fits_is_written_once(
    batch_id: int, markers: list[Marker], checkpoint: list[Plan], expected: bool
) -> None:
    assert is_written("app", batch_id, markers, checkpoint.__getitem__) is expected


@pytest.mark.parametrize(
    ("batch_id", "markers", "checkpoint", "reason"),
    [
        pytest.param(1, [], plans(10, 20), "no marker", id="markers lost"),
        pytest.param(
            *(1, [marker(1, 20)], plans(10, 30)),
            "t-0 was read up to offset 20, the checkpoint up to offset 30",
            id="planned anew",
        ),
        pytest.param(0, [marker(1, 20)], plans(10), "its marker is gone", id="far behind"),
        pytest.param(2, [marker(1, 20)], plans(10, 15, 30), "does not begin where", id="torn"),
        pytest.param(3, [marker(1, 20)], plans(10, 20, 25, 30), "does not begin where", id="a gap"),
        pytest.param(
            *(0, [Marker("q", 0, {ONE: 10, TWO: 3})], plans(10)),
            "t-1 was read up to offset 3, the checkpoint not at all",
            id="a partition less",
        ),
        pytest.param(
            0, [marker(0, 10, "files")], plans(10), "have noted something else", id="other sources"
        ),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_in_a_sentence(
    batch_id: int, markers: list[Marker], checkpoint: list[Plan], reason: str
) -> None:
    with pytest.raises(ContinuationError, match=reason) as refusal:
        is_written("app", batch_id, markers, checkpoint.__getitem__)
    told = str(refusal.value)
    assert "Nothing was written" in told
    if markers:
        end = markers[-1].offsets[ONE]
        assert f'startingOffsets=\'{{"t":{{"0":{end}' in told


def test_a_marker_is_read_as_it_was_written_also_one_of_an_older_version() -> None:
    whole = Marker("q", 3, {ONE: 5, TWO: 7}, None, "digest")
    assert Marker.decode(whole.encode()) == whole
    old = b'{"version":1,"query":"q","batch":3,"offsets":{"t":{"0":5}},"snapshot":null}'
    assert Marker.decode(old) == Marker("q", 3, {ONE: 5})


class Pipeline:
    """A driver with a checkpoint that is killed, saved and restored at random.

    The output is the offsets that batches have written, in order."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.end = 0
        self.planned: list[int] = []
        self.committed = 0
        self.backups: list[tuple[list[int], int]] = []
        self.markers: list[Marker] = []
        self.output: list[int] = []
        self.refusals = 0

    def run_batch(self) -> None:
        if self.committed == len(self.planned):
            start = self.planned[-1] if self.planned else 0
            if start == self.end:
                return
            self.planned.append(self.chance.randint(start + 1, self.end))
        batch_id = self.committed
        if not is_written("app", batch_id, self.markers, lambda n: plans(*self.planned)[n]):
            start = self.planned[batch_id - 1] if batch_id else 0
            self.output += range(start, self.planned[batch_id])
            self.markers.append(marker(batch_id, self.planned[batch_id]))
        if self.chance.random() < 0.7:
            # Otherwise the driver dies before Spark has noted that the batch is done.
            self.committed += 1

    def step(self) -> None:
        match self.chance.choice(("send", "run", "run", "save", "restore", "compact")):
            case "send":
                self.end += self.chance.randint(1, 5)
            case "save":
                self.backups.append((list(self.planned), self.committed))
            case "restore" if self.backups:
                planned, self.committed = self.chance.choice(self.backups)
                self.planned = list(planned)
            case "compact":
                del self.markers[:-1]
            case "run":
                newest = (list(self.planned), self.committed)
                try:
                    self.run_batch()
                except ContinuationError:
                    self.refusals += 1
                    self.planned, self.committed = newest


def test_whatever_checkpoint_is_restored_no_offset_is_written_twice_or_left_out() -> None:
    refusals = 0
    for seed in seeds.several(200):
        pipeline = Pipeline(random.Random(seed))
        for _ in range(60):
            pipeline.step()
            assert pipeline.output == list(range(len(pipeline.output)))
        refusals += pipeline.refusals
    assert refusals or seeds.given() is not None
