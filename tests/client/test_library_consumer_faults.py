"""What `moldau.Consumer` promises when brokers go away and come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moldau import Consumer, TopicPartition, errors
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.client.conftest import SETTINGS
from tests.support.eventually import eventually
from tests.support.group_members import Member
from tests.support.topics import create_topic, fill

Names = Callable[[str], str]


def test_a_member_reads_on_when_its_broker_was_killed_and_started_again(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", overrides=SETTINGS) as broker:
        tp = TopicPartition(create_topic(broker.bootstrap, "orders"), 0)
        fill(broker.bootstrap, tp, ["1", "2"])
        member = Member(
            "c0",
            ["orders"],
            bootstrap_servers=broker.bootstrap,
            group_id="g",
            heartbeat_interval_ms=100,
            session_timeout_ms=6_000,
        )
        try:
            eventually(lambda: len(member.values) == 2)
            broker.kill()
            broker.start()
            fill(broker.bootstrap, tp, ["3"])
            eventually(lambda: len(member.values) >= 3)
            assert set(member.values) == {b"1", b"2", b"3"}
        finally:
            member.stop()


def test_a_poll_without_a_broker_returns_nothing_in_time_and_closing_is_quick() -> None:
    with Consumer(bootstrap_servers=f"127.0.0.1:{free_port()}", group_id="g") as consumer:
        consumer.subscribe(["orders"])
        assert consumer.poll(0.3).is_empty()
        with pytest.raises(errors.KafkaTimeoutError):
            consumer.end_offsets([("orders", 0)], timeout=0.3)


def test_pyarrow_missing_is_told_in_one_sentence(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from moldau.client.consumer import arrow_tables as arrow

    monkeypatch.setattr(arrow, "_schema", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        Consumer(bootstrap_servers=bootstrap) as consumer,
        pytest.raises(ImportError, match=r"pip install 'moldau\[arrow\]'"),
    ):
        consumer.poll_arrow(0)
