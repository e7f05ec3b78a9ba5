"""OTLP's MetricsData, written and read; what is no such message is refused."""

from __future__ import annotations

import pytest

from moldau.metrics.otlp.otlp_reading import Point, read_points
from moldau.metrics.otlp.otlp_writing import DELTA, Family, Series, metrics_data, with_resource
from moldau.metrics.otlp.protobuf_fields import (
    bytes_field,
    double_field,
    number_field,
    text_field,
    unsigned_field,
)
from tests.support import seeds

FAMILIES = [
    Family("a.total", "All.", True, [Series((("topic", "t"),), 3), Series((), -1)]),
    Family("b", "Now.", False, [Series((), 1.5)]),
]


def test_what_is_written_is_read() -> None:
    data = metrics_data({"service.name": "x"}, "scope", FAMILIES, 1, 2)
    assert read_points(data) == [
        Point("a.total", (("service.name", "x"), ("topic", "t")), 3, True, False),
        Point("a.total", (("service.name", "x"),), -1, True, False),
        Point("b", (("service.name", "x"),), 1.5, False, False),
    ]
    delta = read_points(metrics_data({}, "scope", FAMILIES, 1, 2, temporality=DELTA))
    assert [point.is_delta for point in delta] == [True, True, False]


def test_a_resource_is_told_more_and_keeps_what_it_has() -> None:
    data = metrics_data({"own": "1"}, "scope", FAMILIES[1:], 1, 2)
    more = with_resource(memoryview(data), {"client_id": "c"})
    (point,) = read_points(more)
    assert point.attributes == (("own", "1"), ("client_id", "c"))


def test_of_histograms_and_summaries_count_and_sum_are_taken() -> None:
    row = unsigned_field(4, 7) + double_field(5, 2.5)
    metrics = [
        text_field(1, "h") + bytes_field(9, bytes_field(1, row) + number_field(2, DELTA)),
        text_field(1, "e") + bytes_field(10, bytes_field(1, row)),
        text_field(1, "s") + bytes_field(11, bytes_field(1, row)),
    ]
    scope = b"".join(bytes_field(2, metric) for metric in metrics)
    points = read_points(bytes_field(1, bytes_field(2, scope)))
    assert [(point.name, point.value, point.is_delta) for point in points] == [
        ("h.count", 7, True),
        ("h.sum", 2.5, True),
        ("e.count", 7, False),
        ("e.sum", 2.5, False),
        ("s.count", 7, False),
        ("s.sum", 2.5, False),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x0a\x05abc",
        b"\x08" + b"\x80" * 11,
        b"\x0b",
        bytes_field(1, bytes_field(2, bytes_field(2, text_field(1, "")))),
        bytes_field(1, bytes_field(2, bytes_field(2, bytes_field(1, b"\xff\xfe")))),
        number_field(1, 5),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_points(data)


def test_more_points_than_enough_are_refused() -> None:
    data = metrics_data({}, "s", [Family("n", "", False, [Series((), 1)] * 11)], 1, 2)
    assert len(read_points(data, 11)) == 11
    with pytest.raises(ValueError, match="more than 10 points"):
        read_points(data, 10)


def test_a_point_says_no_more_of_itself_than_enough() -> None:
    one = [Family("n", "", False, [Series((("a", "1"),), 1)])]
    many = {f"k{number}": "v" for number in range(31)}
    ((_, attributes, *_),) = read_points(metrics_data(many, "s", one, 1, 2))
    assert len(attributes) == 32
    with pytest.raises(ValueError, match="33 attributes, more than 32"):
        read_points(metrics_data({**many, "k": "v"}, "s", one, 1, 2))
    with pytest.raises(ValueError, match="attributes of 2049 characters, more than 2048"):
        read_points(metrics_data({"k": "v" * 2046}, "s", one, 1, 2))
    # A resource may be told in many pieces, all of which each of its points would have.
    piece = metrics_data({f"k{number}": "v" for number in range(30)}, "s", [], 1, 2)[3:]
    with pytest.raises(ValueError, match="60 attributes, more than 32"):
        read_points(bytes_field(1, piece * 2))


def test_points_are_counted_before_they_are_read() -> None:
    rows = bytes_field(1, b"") * 10_001
    metric = text_field(1, "n") + bytes_field(5, rows)
    with pytest.raises(ValueError, match="more than 10000 points"):
        read_points(bytes_field(1, bytes_field(2, bytes_field(2, metric))))


def test_damaged_messages_are_refused_or_read_and_nothing_else() -> None:
    dice = seeds.chance()
    whole = metrics_data({"service.name": "x"}, "scope", FAMILIES, 1, 2)
    for _ in range(seeds.times(2000)):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        for read in (read_points, lambda text: with_resource(memoryview(text), {"a": "b"})):
            try:
                read(bytes(data[: dice.randint(0, len(data))]))
            except ValueError:
                continue
