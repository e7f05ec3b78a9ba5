"""Names of MBeans, patterns of them, rates of meters, and what Jolokia's clients ask for."""

from __future__ import annotations

import json

import pytest

from moldau.broker.monitoring.jolokia.jolokia_requests import (
    JolokiaRequest,
    RequestFault,
    from_body,
    from_path,
)
from moldau.broker.monitoring.jolokia.mbean_reading import GROUPS
from moldau.metrics.mbeans.meter_rates import MeterRates
from moldau.metrics.mbeans.object_names import NamePattern, object_name, parse_object_name
from moldau.metrics.table.all_metrics import METRICS


def test_the_order_of_keys_means_nothing() -> None:
    one = object_name("kafka.log", [("type", "Log"), ("name", "Size"), ("topic", "t")])
    assert str(one) == "kafka.log:name=Size,topic=t,type=Log"
    assert one.as_made == "kafka.log:type=Log,name=Size,topic=t"
    assert NamePattern(parse_object_name("kafka.log:type=Log,topic=t,name=Size")).means(one)


@pytest.mark.parametrize(
    ("pattern", "is_meant"),
    [
        ("a:k=v,n=x y", True),
        ("a:k=v", False),
        ("a:k=v,*", True),
        ("*:*", True),
        ("b:*", False),
        ("?:k=*,n=x ?", True),
        ("a:k=*,n=*,m=*", False),
        ("a:k=[uv],*", False),
    ],
)
def test_patterns_are_as_those_of_jmx(pattern: str, is_meant: bool) -> None:
    name = object_name("a", [("k", "v"), ("n", "x y")])
    matcher = NamePattern(parse_object_name(pattern))
    assert matcher.means(name) is is_meant
    assert matcher.may_have("a", [("k", "v")], ["n"]) >= is_meant


def test_values_that_are_no_plain_text_are_quoted_and_found() -> None:
    name = object_name("a", [("k", 'v,"=*\n')])
    assert str(name) == r'a:k="v,\"=\*' + r'\n"'
    assert parse_object_name(str(name)).keys == name.keys


@pytest.mark.parametrize("text", ["", "a", "a:", "a:k", "a:k=v,k=w", "a:k=v,,", 'a:k="v', "a:=v"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_object_name(text)


def test_a_pattern_that_could_take_for_ever_is_refused() -> None:
    with pytest.raises(ValueError, match="9 wildcards"):
        NamePattern(parse_object_name("a:k=" + "*a" * 9))


def test_every_metric_of_kafka_is_an_mbean() -> None:
    told = [metric for group in GROUPS for metric, _ in group.metrics]
    assert {metric.bean for metric in told} == {
        metric.bean
        for metric in METRICS
        if metric.bean.startswith("kafka.")
        and metric.only != "strimzi"  # Kafka has one MBean for each resource
        and not metric.bean.endswith("/FiveMinuteRate")  # every counter's MBean tells its rates
    }


def noted(rates: MeterRates, count: int, seconds: float = 5) -> None:
    assert list(rates.note("b", [((), count), None], seconds)) == [None]


def test_rates_follow_what_is_counted_and_fade() -> None:
    rates = MeterRates()
    noted(rates, 50)
    assert rates.of("b", ()) == (10, 10, 10)
    noted(rates, 100)
    assert rates.of("b", ()) == (10, 10, 10)
    for _ in range(12):
        noted(rates, 100)
    one, five, fifteen = rates.of("b", ())
    assert one == pytest.approx(10 / 2.71828, rel=1e-3)
    assert one < five < fifteen < 10
    list(rates.note("b", [], 5))
    assert rates.of("b", ()) == (0, 0, 0)


def test_a_series_that_begins_between_two_looks_counts_from_nothing() -> None:
    rates = MeterRates()
    list(rates.note("b", [], 5))
    list(rates.note("b", [(("t",), 20)], 5))
    assert rates.of("b", ("t",)) == (4, 4, 4)


def test_what_stands_still_costs_no_arithmetic() -> None:
    rates = MeterRates()
    noted(rates, 0)
    meter = rates._meters["b"][()]
    noted(rates, 0)
    assert rates._meters["b"][()] is meter


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("", JolokiaRequest("version")),
        ("/version", JolokiaRequest("version")),
        ("/read/a:k=v", JolokiaRequest("read", "a:k=v")),
        ("/read/a:k=v!/w!!/X", JolokiaRequest("read", "a:k=v/w!", ("X",), True)),
        ("/read/a:k=%2A/X,Y", JolokiaRequest("read", "a:k=*", ("X", "Y"))),
        ("/search/a:*", JolokiaRequest("search", "a:*")),
        ("/list/a/k=v", JolokiaRequest("list", path=("a", "k=v"))),
    ],
)
def test_a_path_says_what_is_wanted(path: str, request_: JolokiaRequest) -> None:
    assert from_path(path) == request_


def test_a_path_that_says_too_little_is_refused() -> None:
    with pytest.raises(RequestFault, match="read needs the name of an MBean"):
        from_path("/read")
    assert from_path("/read/a:k=v", "canonicalNaming=false").is_canonical is False


def test_a_body_says_what_is_wanted() -> None:
    rows = [
        {"type": "READ", "mbean": "a:k=v", "attribute": "X"},
        {"type": "read", "mbean": "a:k=v", "attribute": ["X", "Y"]},
        {"type": "list", "path": "a", "config": {"canonicalNaming": False}},
    ]
    assert from_body(json.dumps(rows).encode()) == (
        [
            JolokiaRequest("read", "a:k=v", ("X",), True),
            JolokiaRequest("read", "a:k=v", ("X", "Y")),
            JolokiaRequest("list", path=("a",), is_canonical=False),
        ],
        True,
    )
    assert from_body(b'{"type": "version"}') == ([JolokiaRequest("version")], False)


@pytest.mark.parametrize(
    "row",
    [
        5,
        None,
        [],
        {},
        {"type": 5},
        {"type": "read"},
        {"type": "read", "mbean": "a", "attribute": 5},
    ],
)
def test_a_row_that_is_no_request_is_refused_alone(row: object) -> None:
    (found, good), is_bulk = from_body(json.dumps([row, {"type": "version"}]).encode())
    assert is_bulk
    assert isinstance(good, JolokiaRequest)
    assert isinstance(found, RequestFault) or found.kind == ""


def test_more_attributes_than_anybody_needs_are_refused() -> None:
    """Each is looked for in every MBean."""
    names = [f"a{number}" for number in range(201)]
    with pytest.raises(RequestFault, match="201 attributes are more than 200"):
        from_path(f"/read/a:*/{','.join(names)}")
    row = {"type": "read", "mbean": "a:*", "attribute": names}
    (fault,), _ = from_body(json.dumps(row).encode())
    assert isinstance(fault, RequestFault)
    row["attribute"] = names[:200]
    (request,), _ = from_body(json.dumps(row).encode())
    assert isinstance(request, JolokiaRequest)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, json.dumps([{}] * 101).encode()])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(RequestFault):
        from_body(body)
