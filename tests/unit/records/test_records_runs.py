"""Runs of batches, compiled and as plain Python: opened, measured and made columns of."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from moldau.records import batch_runs as installed
from moldau.records.batch_codec import Record, encode_batch, write_checksum
from moldau.records.batch_kernel import scan_batches
from moldau.records.column_decoding import Columns
from moldau.records.compression import Codec
from tests.support.uncompiled import uncompiled

PLAIN = uncompiled(installed)
KERNELS = [PLAIN, installed] if installed.COMPILED else [PLAIN]


@pytest.fixture(params=KERNELS, ids=lambda module: "compiled" if module.COMPILED else "plain")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def batches_in(*data: bytes) -> tuple[memoryview, list[Any]]:
    view = memoryview(b"".join(data))
    return view, scan_batches(view, 0, len(view))[::-1]


def three() -> tuple[memoryview, list[Any]]:
    return batches_in(
        encode_batch([Record(timestamp=5, key=b"k", value=b"ab"), Record(timestamp=6)]),
        encode_batch([Record(timestamp=1, value=b"c")], base_offset=2, log_append_time_ms=77),
        encode_batch([Record(headers=(("h", b"x"),))], base_offset=3),
    )


def opened(kernel: ModuleType, view: memoryview, batches: list[Any], **limits: int) -> Any:
    count, size_max = limits.get("count", 9), limits.get("size_max", 1 << 20)
    return kernel.open_batches(view, batches, count, size_max, True)


def test_a_run_becomes_columns_from_an_offset_on(kernel: ModuleType) -> None:
    view, batches = three()
    parts, records, last = opened(kernel, view, batches)
    assert (len(parts), records, last[2], batches) == (3, 4, 3, [])
    measure, broken = kernel.measure_run(view, parts, 1)
    assert (measure, broken) == ((-1, 3, 0, 1, 1, 1, 1), None)
    columns = Columns(measure)
    kernel.add_run(columns, view, parts, 1)
    assert list(memoryview(columns.offsets)) == [1, 2, 3]
    assert list(memoryview(columns.timestamps)) == [6, 77, -1]
    assert bytes(memoryview(columns.values)) == b"c"
    assert list(memoryview(columns.header_ends)) == [0, 0, 0, 1]


def test_a_run_ends_when_it_holds_enough(kernel: ModuleType) -> None:
    for limits, wanted in (({"count": 1}, 1), ({"count": 3}, 2), ({"size_max": 1}, 1)):
        view, batches = three()
        parts, _, last = opened(kernel, view, batches, **limits)
        assert (len(parts), len(batches)) == (wanted, 3 - wanted)
        assert last == scan_batches(view, 0, len(view))[wanted - 1]


def test_a_run_ends_before_a_compressed_batch_and_before_a_wrong_checksum(
    kernel: ModuleType,
) -> None:
    packed = encode_batch([Record()], base_offset=1, codec=Codec.GZIP)
    torn = bytearray(encode_batch([Record()], base_offset=1))
    torn[-1] ^= 1
    for bad in (packed, bytes(torn)):
        view, batches = batches_in(encode_batch([Record()]), bad)
        assert len(opened(kernel, view, batches)[0]) == 1
        assert opened(kernel, view, batches) == ([], 0, None)
        assert len(batches) == 1
    assert len(kernel.open_batches(view, batches, 9, 1 << 20, False)[0]) == 1


def test_a_broken_record_is_told_with_its_batch(kernel: ModuleType) -> None:
    bad = bytearray(encode_batch([Record(), Record()], base_offset=1))
    bad[-1] ^= 1
    write_checksum(bad)
    view, batches = batches_in(encode_batch([Record()]), bytes(bad))
    parts, _, _ = opened(kernel, view, batches)
    measure, broken = kernel.measure_run(view, parts, 0)
    assert (measure[0], broken[2]) == (1, 1)
