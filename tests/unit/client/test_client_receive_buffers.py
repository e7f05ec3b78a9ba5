"""Buffers are used again, but never while somebody looks at them."""

from __future__ import annotations

from moldau.client.network.receive_buffers import STEP_BYTES, BufferPool

MB = 1024 * 1024


def test_a_buffer_is_used_again_once_nobody_looks_at_it() -> None:
    pool = BufferPool(8 * MB)
    first = pool.take(MB)
    buffer = first.obj
    del first
    assert pool.take(MB - STEP_BYTES).obj is buffer


def test_a_buffer_is_not_used_again_while_a_part_of_it_is_looked_at() -> None:
    pool = BufferPool(8 * MB)
    first = pool.take(MB)
    first[100] = 7
    part = first[100:101]
    first.release()
    second = pool.take(MB)
    assert second.obj is not part.obj
    second[:] = bytes(MB)
    assert part[0] == 7


def test_the_room_is_exactly_what_was_asked_for() -> None:
    pool = BufferPool(8 * MB)
    assert [len(pool.take(size)) for size in (0, 1, MB, MB + 1, 9 * MB)] == [
        *(0, 1, MB, MB + 1, 9 * MB)
    ]


def test_a_buffer_that_is_much_larger_is_left_for_others() -> None:
    pool = BufferPool(8 * MB)
    large = pool.take(4 * MB).obj
    assert pool.take(MB // 2).obj is not large
    assert pool.take(2 * MB).obj is large


def test_no_more_is_kept_than_allowed() -> None:
    pool = BufferPool(3 * MB)
    looked_at = [pool.take(MB) for _ in range(5)]
    buffers = [view.obj for view in looked_at]
    looked_at.clear()
    again = [pool.take(MB) for _ in range(5)]
    assert sum(any(view.obj is buffer for buffer in buffers) for view in again) == 3
