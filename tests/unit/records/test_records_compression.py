from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.errors import ApiError, Error
from moldau.records.compression import Codec, compress, decompress
from tests.support import seeds

MIB = 1024 * 1024
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the river of events flows in one direction; " * 5000


def refused(codec: int, data: bytes, limit_bytes: int = MIB) -> Error:
    with pytest.raises(ApiError) as caught:
        decompress(codec, data, limit_bytes)
    assert caught.value.message
    return caught.value.error


def lz4_frame(data: bytes, **options: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(**options)
    compressor.compress(data)
    return bytes(compressor.finish())


def zstd_frame(*blocks: bytes, descriptor: bytes = b"\x00\x58") -> bytes:
    return struct.pack("<I", 0xFD2FB528) + descriptor + b"".join(blocks)


def zstd_rle(size: int, *, last: bool = False) -> bytes:
    return struct.pack("<I", size << 3 | 1 << 1 | last)[:3] + b"\x00"


def bomb(codec: Codec) -> bytes:
    """About a megabyte that wants to become a gigabyte, as far as the codec can."""
    if codec == Codec.GZIP:
        deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
        head = deflater.compress(b"") + deflater.flush(zlib.Z_FULL_FLUSH)
        zeros = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
        return head + zeros * 1000 + deflater.flush()
    if codec == Codec.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
        blocks = struct.pack(">i", len(block)) + block
        return compress(Codec.SNAPPY, b"")[:16] + blocks * (MIB // len(blocks))
    if codec == Codec.LZ4:
        frame = compress(Codec.LZ4, bytes(64 * 1024))
        head, block, end = frame[:7], frame[7:-4], frame[-4:]
        return head + block * (MIB // len(block)) + end
    return zstd_frame(zstd_rle(128 * 1024) * (MIB // 4), zstd_rle(1, last=True))


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=seeds.times(40), deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 60))
def test_what_was_compressed_comes_back(codec: Codec, data: bytes, times: int) -> None:
    assert bytes(decompress(codec, compress(codec, data * times), 120_000)) == data * times


@pytest.mark.parametrize("codec", CODECS)
def test_compression_takes_any_kind_of_buffer(codec: Codec) -> None:
    for buffer in (TEXT, bytearray(TEXT), memoryview(TEXT), memoryview(bytearray(TEXT))):
        packed = compress(codec, buffer)
        assert len(packed) < len(TEXT) // 10
        assert bytes(decompress(codec, memoryview(bytearray(packed)), MIB)) == TEXT


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-5, 1, 3, 22))],
)
def test_the_levels_of_kafkas_settings_are_taken(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert bytes(decompress(codec, compress(codec, TEXT, level), MIB)) == TEXT


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_the_last_size_that_is_allowed(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT
    assert refused(codec, packed, len(TEXT) - 1) == Error.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for data in (b"\xff", b"garbage " * 20, packed[: len(packed) // 2], packed[:-1], packed[:9]):
        assert refused(codec, data) == Error.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=seeds.times(60), deadline=None)
@given(st.data())
def test_a_damaged_stream_is_refused_or_decoded_and_nothing_else(
    codec: Codec, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, packed, MIB)) <= MIB
    except ApiError as refusal:
        assert refusal.error in (Error.CORRUPT_MESSAGE, Error.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    assert refused(codec, b"") == Error.UNSUPPORTED_COMPRESSION_TYPE


def test_snappy_is_written_in_javas_blocks() -> None:
    packed = compress(Codec.SNAPPY, bytes(32 * 1024 + 1))
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    (first,) = struct.unpack_from(">i", packed, 16)
    (second,) = struct.unpack_from(">i", packed, 20 + first)
    assert len(packed) == 16 + 4 + first + 4 + second


def test_snappy_without_javas_blocks_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert bytes(decompress(Codec.SNAPPY, raw, len(TEXT))) == TEXT
    assert refused(Codec.SNAPPY, raw, len(TEXT) - 1) == Error.MESSAGE_TOO_LARGE


def test_snappy_headers_with_versions_in_the_wrong_byte_order_are_read() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    swapped = packed[:8] + struct.pack("<ii", 1, 1) + packed[16:]
    assert bytes(decompress(Codec.SNAPPY, swapped, len(TEXT))) == TEXT


def test_lz4_is_written_as_javas_reader_needs_it() -> None:
    flags = compress(Codec.LZ4, TEXT)[4]
    assert flags & 0x20, "blocks are independent"


def test_lz4_blocks_that_depend_on_one_another_are_refused_because_java_cannot_read_them() -> None:
    linked = lz4_frame(TEXT, block_linked=True)
    assert refused(Codec.LZ4, linked) == Error.CORRUPT_MESSAGE


def test_lz4_frames_with_checksums_are_read() -> None:
    summed = lz4_frame(TEXT, content_checksum=True, block_linked=False)
    assert bytes(decompress(Codec.LZ4, summed, len(TEXT) + 65536)) == TEXT


def test_several_frames_and_members_are_read_as_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"ab") + gzip.compress(b"cd"), 4) == b"abcd"
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"xyz"
    packed = compress(Codec.ZSTD, b"ab") + skippable + compress(Codec.ZSTD, b"cd")
    assert bytes(decompress(Codec.ZSTD, packed, MIB)) == b"abcd"


def test_more_than_one_lz4_frame_is_refused_because_java_reads_only_the_first() -> None:
    frame = compress(Codec.LZ4, b"ab")
    assert refused(Codec.LZ4, frame + frame) == Error.CORRUPT_MESSAGE
    assert refused(Codec.LZ4, frame + b"x") == Error.CORRUPT_MESSAGE


def test_a_content_size_that_lies_is_refused_without_making_room_for_it() -> None:
    frame = zstd_frame(zstd_rle(10, last=True), descriptor=b"\xe0" + struct.pack("<Q", 1 << 60))
    assert refused(Codec.ZSTD, frame) == Error.CORRUPT_MESSAGE
    raw_snappy = b"\xff\xff\xff\xff\x0f" + bytes(100)
    assert refused(Codec.SNAPPY, raw_snappy) == Error.MESSAGE_TOO_LARGE


def test_many_small_zstd_blocks_that_hold_little_are_read() -> None:
    frame = zstd_frame(*[zstd_rle(1) for _ in range(1000)], zstd_rle(1, last=True))
    assert bytes(decompress(Codec.ZSTD, frame, 1001)) == bytes(1001)
    flushed = cramjam.zstd.Compressor()
    parts = []
    for _ in range(20):
        flushed.compress(TEXT[:44])
        parts.append(bytes(flushed.flush()))
    stream = b"".join(parts) + bytes(flushed.finish())
    # The blocks could hold 20 * 128 KiB, more than the limit; they do not.
    assert bytes(decompress(Codec.ZSTD, stream, 880)) == TEXT[:880]
    assert refused(Codec.ZSTD, stream, 879) == Error.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused(codec: Codec) -> None:
    assert refused(codec, bomb(codec), 16 * MIB) == Error.MESSAGE_TOO_LARGE


def test_a_bomb_costs_no_more_memory_than_a_few_times_the_limit() -> None:
    script = (
        "import resource, sys\n"
        "from moldau.model.errors import ApiError\n"
        "from moldau.records.compression import decompress\n"
        "data = sys.stdin.buffer.read()\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "try: decompress(int(sys.argv[1]), data, 16 << 20)\n"
        "except ApiError: print(peak() - before)\n"
    )
    for codec in CODECS:
        ran = subprocess.run(
            [sys.executable, "-c", script, str(int(codec))],
            input=bomb(codec),
            capture_output=True,
            check=True,
        )
        assert int(ran.stdout) < 3 * 16 * 1024, f"{codec.name} took {ran.stdout!r} KiB"
