"""Which metrics are wanted of which client, who may push when, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.metrics.otlp.otlp_reading import Point
from moldau.metrics.pushed import client_instances, pushed_values
from moldau.metrics.pushed.client_instances import ClientInstance, ClientInstances
from moldau.metrics.pushed.client_subscriptions import Subscription, wanted_of
from moldau.metrics.pushed.pushed_values import PushedValues, prometheus_name
from moldau.model.errors import ApiError, Error

ID = bytes(range(16))
CLIENT = {"client_id": "orders-1", "client_software_name": "apache-kafka-java"}
MINUTE = 60_000


def stays() -> bool:
    return False


def known(*subscriptions: Subscription) -> ClientInstances:
    instances = ClientInstances(1000, lambda: ID)
    instances.subscribe(subscriptions or [Subscription.of(("a",), MINUTE, ())])
    return instances


def pushed(
    instances: ClientInstances,
    now_ms: int,
    *,
    number: int | None = None,
    ends: bool = False,
    compression: int = 4,
    size: int = 10,
    instance_id: bytes = ID,
    is_gone: Callable[[], bool] = stays,
) -> Error:
    if number is None:
        number = wanted_of(CLIENT, instances._subscriptions, ID).number
    try:
        instances.push(
            instance_id,
            CLIENT,
            is_gone,
            now_ms,
            subscription=number,
            is_terminating=ends,
            compression=compression,
            size_bytes=size,
        )
    except ApiError as refusal:
        return refusal.error
    return Error.NONE


def asked(instances: ClientInstances, now_ms: int, instance_id: bytes = ID) -> Error:
    try:
        instances.ask(instance_id, CLIENT, stays, now_ms)
    except ApiError as refusal:
        return refusal.error
    return Error.NONE


def test_all_that_match_are_wanted_together_as_often_as_one_wants_it() -> None:
    subscriptions = [
        Subscription.of(("b", "a"), MINUTE, ("client_id=orders-.*",)),
        Subscription.of(("c",), 5 * MINUTE, ()),
        Subscription.of(("d",), 100, ("client_id = orders-", "client_software_name=.*")),
        Subscription.of(("e",), 100, ("client_source_port=1",)),
    ]
    wanted = wanted_of(CLIENT, subscriptions, ID)
    assert (wanted.metrics, wanted.interval_ms) == (("a", "b", "c"), MINUTE)
    assert wanted_of(CLIENT, subscriptions[::-1], ID) == wanted
    assert wanted_of(CLIENT, subscriptions[1:], ID).number != wanted.number
    every = wanted_of(CLIENT, [*subscriptions, Subscription.of(("*",), MINUTE, ())], ID)
    assert every.metrics == ("*",)
    assert wanted_of(CLIENT, [], ID)[:2] == ((), 5 * MINUTE)


def test_a_long_text_matches_nothing() -> None:
    subscription = Subscription.of(("a",), MINUTE, ("client_id=.*",))
    assert subscription.means({"client_id": "x" * 255})
    assert not subscription.means({"client_id": "x" * 256})
    assert not subscription.means({})


def test_a_client_that_has_no_id_is_given_one() -> None:
    instances = known()
    assert instances.ask(bytes(16), CLIENT, stays, 0).instance_id == ID
    assert pushed(instances, 1) is Error.NONE
    for reserved in (bytes(16), bytes(15) + b"\x01"):
        assert pushed(instances, 1, instance_id=reserved) is Error.INVALID_REQUEST


def test_who_comes_before_the_interval_is_over_is_told_so() -> None:
    instances = known()
    assert asked(instances, 0) is Error.NONE
    assert asked(instances, MINUTE - 1) is Error.THROTTLING_QUOTA_EXCEEDED
    assert pushed(instances, MINUTE - 1) is Error.NONE, "the first push after a question is due"
    assert pushed(instances, 2 * MINUTE - 2) is Error.THROTTLING_QUOTA_EXCEEDED
    assert pushed(instances, 2 * MINUTE - 1) is Error.NONE
    assert asked(instances, 3 * MINUTE - 2) is Error.THROTTLING_QUOTA_EXCEEDED
    assert instances.throttled == 3
    assert pushed(instances, 2 * MINUTE, ends=True) is Error.NONE, "who ends may be early"


def test_who_has_ended_cannot_push_any_more() -> None:
    instances = known()
    assert pushed(instances, 0, ends=True) is Error.NONE
    assert pushed(instances, MINUTE) is Error.INVALID_REQUEST


def test_a_changed_subscription_is_asked_for_at_once() -> None:
    instances = known()
    assert asked(instances, 0) is Error.NONE
    before = wanted_of(CLIENT, instances._subscriptions, ID).number
    instances.subscribe([Subscription.of(("z",), MINUTE, ())])
    assert pushed(instances, 1, number=before) is Error.UNKNOWN_SUBSCRIPTION_ID
    assert instances.unknown_subscriptions == 1
    assert asked(instances, 2) is Error.NONE
    assert asked(instances, 3) is Error.THROTTLING_QUOTA_EXCEEDED
    assert pushed(instances, MINUTE + 1) is Error.NONE


def test_what_cannot_be_taken_is_refused() -> None:
    assert pushed(known(), 0, compression=5) is Error.UNSUPPORTED_COMPRESSION_TYPE
    assert pushed(known(), 0, compression=0) is Error.NONE
    assert pushed(known(), 0, size=1001) is Error.TELEMETRY_TOO_LARGE
    assert pushed(known(), 0, size=1000) is Error.NONE


def test_a_client_that_has_connected_anew_is_met_anew() -> None:
    instances = known()
    is_gone = False
    assert pushed(instances, 0, is_gone=lambda: is_gone) is Error.NONE
    assert pushed(instances, 1) is Error.THROTTLING_QUOTA_EXCEEDED
    is_gone = True
    assert pushed(instances, 2) is Error.NONE


def test_the_silent_are_forgotten_after_three_intervals_and_not_within_a_minute() -> None:
    instances = known()
    asked(instances, 0)
    assert instances.forget_silent(3 * MINUTE - 1) == []
    assert instances.forget_silent(3 * MINUTE) == [ID]
    quick = known(Subscription.of(("a",), 100, ()))
    asked(quick, 0)
    assert quick.forget_silent(MINUTE - 1) == []
    assert quick.forget_silent(MINUTE) == [ID]
    assert len(quick) == 0


def test_no_more_clients_are_known_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_instances, "INSTANCES_MAX", 2)
    instances = known()
    first, second, third = (bytes(15) + bytes([number]) for number in (2, 3, 4))
    for each in (first, second, first, third):
        asked(instances, 0, each)
    assert len(instances) == 2
    found: dict[bytes, ClientInstance] = dict(instances._instances)
    assert list(found) == [first, third]


# What is kept


def point(name: str, value: float, *, counts: bool = False, delta: bool = False) -> Point:
    return Point(name, (), value, counts, delta)


def told(values: PushedValues) -> dict[str, float]:
    return {
        f"{metric.bean} {dict(zip(metric.tags, labels, strict=True))['client_id']}": value
        for each in values.families()
        if each is not None
        for metric, samples in [each]
        for labels, value in filter(None, samples)
    }


def test_deltas_are_added_up_and_other_values_replaced() -> None:
    values = PushedValues()
    for value in (3, 4):
        rows = [point("n.total", value, counts=True, delta=True), point("now", value)]
        values.take(ID, CLIENT, rows, 0)
    assert told(values) == {
        "kafka_client_n_total orders-1": 7,
        "kafka_client_now orders-1": 4,
    }
    values.forget(ID)
    assert (told(values), values.series_count) == ({}, 0)


def test_a_client_cannot_name_a_metric_of_the_broker_or_another_client() -> None:
    assert prometheus_name("process_open_fds", is_counter=False) == "kafka_client_process_open_fds"
    name = prometheus_name('x{a="b"} 1\n', is_counter=True)
    assert name == "kafka_client_x_a_b_1_total"
    values = PushedValues()
    attributes = (("client_id", "another"), ("__name__", "y"), ("a\nb", "c\n"))
    values.take(ID, CLIENT, [Point("n", attributes, 1, False, False)], 0)
    ((metric, samples),) = [each for each in values.families() if each is not None]
    ((values_told, _),) = [each for each in samples if each is not None]
    labels = dict(zip(metric.tags, values_told, strict=True))
    assert labels["client_id"] == "orders-1"
    assert labels["attribute_name"] == "y"
    assert labels["a_b"] == "c\n", "it is escaped where the text is made"


def test_a_name_that_means_two_things_belongs_to_the_first() -> None:
    values = PushedValues()
    rows = [point("n_total", 1), point("n", 2, counts=True), point("m", float("nan"))]
    values.take(ID, CLIENT, rows, 0)
    assert told(values) == {"kafka_client_n_total orders-1": 1}


def test_no_more_series_are_kept_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_values, "SERIES_OF_CLIENT_MAX", 2)
    monkeypatch.setattr(pushed_values, "SERIES_MAX", 3)
    monkeypatch.setattr(pushed_values, "CLIENTS_MAX", 2)
    values = PushedValues()
    rows = [point(name, 1) for name in "abc"]
    values.take(b"1", CLIENT, rows, 0)
    assert (values.series_count, values.dropped) == (2, 1)
    values.take(b"2", CLIENT, rows, 0)
    assert (values.series_count, values.dropped) == (3, 3)
    values.take(b"3", CLIENT, [], 0)
    assert (len(values), values.series_count) == (2, 1)


def test_what_is_pushed_by_a_client_that_is_not_known_any_more_goes() -> None:
    values = PushedValues()
    for each in (b"1", b"2"):
        values.take(each, CLIENT, [point("n", 1)], 0)
    values.keep(lambda instance_id: instance_id == b"2")
    assert (len(values), values.series_count) == (1, 1)


def test_a_set_of_labels_is_told_once() -> None:
    values = PushedValues()
    rows = [
        Point("n", ((key, "1"),), number, False, False) for number, key in enumerate(("a.b", "a_b"))
    ]
    values.take(ID, CLIENT, rows, 0)
    assert list(told(values).values()) == [0]


def test_a_name_has_no_more_labels_than_there_may_be() -> None:
    """Each series of a name is told with the labels of all."""
    values = PushedValues()
    for client in range(20):
        own = tuple((f"label{client}x{number}", "v") for number in range(30))
        values.take(b"%d" % client, CLIENT, [Point("n", own, 1, False, False)], 0)
    ((metric, samples),) = [each for each in values.families() if each is not None]
    assert len(metric.tags) == pushed_values.LABELS_OF_NAME_MAX
    assert set(pushed_values.LABELS) <= set(metric.tags)
    assert [value for _, value in filter(None, samples)] == [1, 1, 1]
