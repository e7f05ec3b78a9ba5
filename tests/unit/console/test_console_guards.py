"""What requests have to pass, and how long sessions and log-ins last: without a server."""

from __future__ import annotations

import pytest

from moldau.console.console_settings import ConsoleSettings
from moldau.console.entrance.guards import allowed_names, check_host, check_origin
from moldau.console.entrance.sessions import (
    FAILURE_WINDOW_S,
    FAILURES_MAX,
    IDLE_S,
    LIFE_S,
    SESSIONS_MAX,
    LoginBrake,
    Sessions,
)
from moldau.console.page import PageFault

NAMES = allowed_names(ConsoleSettings("localhost:9092", allowed_hosts=("Kafka.Example",)))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8090", "127.0.0.1:1", "[::1]:8090", "kafka.example", "LOCALHOST"],
)
def test_the_console_answers_to_its_own_names(host: str) -> None:
    check_host(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8090",
        "[::2]",
        "0.0.0.0",
    ],
)
def test_a_foreign_name_is_refused(host: str) -> None:
    with pytest.raises(PageFault) as refused:
        check_host(host, NAMES)
    assert refused.value.status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:8090", "origin": "http://evil.example"},
        {"host": "localhost:8090", "origin": "null"},
        {"host": "localhost:8090", "origin": "http://localhost:8091"},
        {"host": "localhost:8090", "sec-fetch-site": "cross-site"},
        {"host": "localhost:8090", "sec-fetch-site": "same-site"},
    ],
)
def test_a_change_from_a_foreign_page_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(PageFault):
        check_origin(headers)


def test_a_change_from_an_own_page_passes() -> None:
    check_origin({"host": "a:8090", "origin": "http://a:8090", "sec-fetch-site": "same-origin"})


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        (ConsoleSettings("b:9092"), False),
        (ConsoleSettings("b:9092", host="0.0.0.0"), True),
        (ConsoleSettings("b:9092", host="0.0.0.0", certificate="c", key="k"), True),
        (ConsoleSettings("b:9092", {"security.protocol": "SASL_SSL"}, host="0.0.0.0"), True),
        (
            ConsoleSettings(
                "b:9092",
                {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
                host="0.0.0.0",
                certificate="c",
                key="k",
            ),
            False,
        ),
        (
            ConsoleSettings(
                "b:9092",
                {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "p"},
                host="0.0.0.0",
                certificate="c",
                key="k",
            ),
            True,
        ),
        (ConsoleSettings("b:9092", certificate="c"), True),
        (ConsoleSettings("b:9092", path_prefix="x"), True),
    ],
)
def test_other_machines_reach_only_a_console_with_tls_and_a_login(
    settings: ConsoleSettings, is_refused: bool
) -> None:
    assert (settings.refusal() is not None) == is_refused


def test_a_session_ends_when_nobody_uses_it_and_when_it_is_old() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    idle, used = sessions.begin(None), sessions.begin(None)
    clock.now += IDLE_S - 1
    assert sessions.find(used.word) is used
    clock.now += 2
    assert sessions.find(idle.word) is None
    begun = used.begun_at
    while clock.now + IDLE_S / 2 < begun + LIFE_S:
        clock.now += IDLE_S / 2
        assert sessions.find(used.word) is used
    clock.now = begun + LIFE_S + 1
    assert sessions.find(used.word) is None


def test_sessions_are_bounded_and_the_one_unused_longest_goes_first() -> None:
    sessions = Sessions(Clock())
    first, second = sessions.begin(None), sessions.begin(None)
    assert sessions.find(first.word) is first
    for _ in range(SESSIONS_MAX - 1):
        sessions.begin(None)
    assert sessions.find(second.word) is None
    assert sessions.find(first.word) is first


def test_visitors_push_out_nobody_who_has_signed_in() -> None:
    sessions = Sessions(Clock())
    signed_in = sessions.begin(None, owns_link=True)
    for _ in range(2 * SESSIONS_MAX):
        sessions.begin(None)
    assert sessions.find(signed_in.word) is signed_in


def test_a_token_is_of_one_session() -> None:
    sessions = Sessions(Clock())
    one, other = sessions.begin(None), sessions.begin(None)
    assert one.accepts(one.token)
    assert not one.accepts(other.token)
    assert not one.accepts("")
    assert not one.accepts("ü")


def test_who_guesses_has_to_wait_and_others_do_not() -> None:
    clock = Clock()
    brake = LoginBrake(clock)
    for _ in range(FAILURES_MAX):
        assert brake.wait_s("address a", "user u") == 0
        brake.failed("address a", "user u")
    assert brake.wait_s("address a", "user v") > 0
    assert brake.wait_s("address b", "user u") > 0
    assert brake.wait_s("address b", "user v") == 0
    clock.now += FAILURE_WINDOW_S
    assert brake.wait_s("address a", "user u") == 0


def test_a_login_that_worked_is_no_failure() -> None:
    brake = LoginBrake(Clock())
    for _ in range(10 * FAILURES_MAX):
        assert brake.wait_s("address a") == 0
        brake.failed("address a")
        brake.succeeded("address a")
