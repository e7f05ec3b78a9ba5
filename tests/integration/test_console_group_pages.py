"""The pages of groups and transactions, from a console process beside a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import TopicPartition
from moldau.testing import LocalBroker, broker
from tests.support.console_browser import Console, console_process
from tests.support.eventually import eventually

RECORDS = 40
READ = 15


@pytest.fixture(scope="module")
def made() -> Iterator[LocalBroker]:
    with broker() as started:
        started.create_topic("orders", 2)
        with started.producer() as producer:
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number, partition=number % 2)
        started.create_topic("paid")
        yield started


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def console(made: LocalBroker, directory: Path) -> Iterator[Console]:
    with console_process(made.bootstrap, directory) as started:
        yield started


@pytest.fixture
def group(made: LocalBroker, request: pytest.FixtureRequest) -> str:
    """A group without members that has read the first records of one partition."""
    name = f"group of {request.node.name}/1"
    with made.admin() as admin:
        admin.alter_group_offsets(name, {TopicPartition("orders", 0): READ}).check()
    return name


def path_of(name: str) -> str:
    """Twice quoted, as the console's own links are."""
    once = name.replace(" ", "%20").replace("/", "%2F")
    return "/groups/" + once.replace("%", "%25")


def committed(made: LocalBroker, name: str) -> dict[TopicPartition, int]:
    with made.admin() as admin:
        found = admin.list_group_offsets([name]).check()[name]
    return {tp: row.offset for tp, row in found.items() if row is not None}


def test_a_group_shows_its_lag_in_records_and_in_seconds(console: Console, group: str) -> None:
    seen = console.get(path_of(group) + ".json").json
    assert seen["name"] == group and seen["group"]["state"] == "Empty"
    row = seen["rows"][0]
    assert (row["partition"], row["committed"], row["end"]) == (0, READ, RECORDS // 2)
    assert row["lag"] == seen["lag"] == RECORDS // 2 - READ
    assert 0 < row["seconds"] < time.time()

    def is_listed() -> bool:
        # The list may be some seconds old.
        listed = console.get("/groups.json", find=group).json["groups"]
        return [each["name"] for each in listed] == [group]

    eventually(is_listed)


def test_members_and_what_they_read_are_shown(console: Console, made: LocalBroker) -> None:
    with made.consumer(group_id="live", auto_offset_reset="earliest", client_id="reader") as reader:
        reader.subscribe(["orders"])
        while not reader.poll(1.0):
            pass
        reader.commit()
        seen = console.get("/groups/live.json").json
        assert seen["group"]["state"] == "Stable"
        assert {(row["topic"], row["partition"], row["member"]) for row in seen["rows"]} == {
            ("orders", 0, "reader"), ("orders", 1, "reader"),
        }  # fmt: skip
        refused = console.post("/groups/live/reset", {"scenario": "to-earliest"})
        assert refused.status == 409 and "stop its members first" in refused.text


@pytest.mark.parametrize(
    ("scenario", "amount", "expected"),
    [
        ("to-earliest", "", 0),
        ("to-latest", "", RECORDS // 2),
        ("to-offset", "7", 7),
        ("to-offset", "700", RECORDS // 2),
        ("shift-by", "-5", READ - 5),
        ("to-datetime", "2020-01-01T00:00", 0),
        ("by-duration", "P1D", 0),
    ],
)
def test_a_reset_is_shown_first_and_done_when_confirmed(
    console: Console, made: LocalBroker, group: str, scenario: str, amount: str, expected: int
) -> None:
    fields = {"scenario": scenario, "amount": amount}
    preview = console.post(path_of(group) + "/reset", fields)
    assert preview.status == 200 and "--reset-offsets" in preview.text
    cells = f'<td class="number">{READ}</td><td class="number">{expected}</td>'
    assert cells in preview.text
    assert committed(made, group) == {TopicPartition("orders", 0): READ}
    done = console.post(path_of(group) + "/reset", {**fields, "confirmed": "yes"})
    assert done.status == 303
    assert committed(made, group) == {TopicPartition("orders", 0): expected}


def test_a_reset_that_makes_no_sense_is_refused(
    console: Console, made: LocalBroker, group: str
) -> None:
    for fields, words in (
        ({"scenario": "to-offset", "amount": "soon"}, "not a whole number"),
        ({"scenario": "by-duration", "amount": "an hour"}, "not a duration"),
        ({"scenario": "to-datetime", "amount": ""}, "not a time"),
        ({"scenario": "elsewhere"}, "A reset can go to"),
        ({"scenario": "to-earliest", "topic": "no-such-topic"}, ""),
    ):
        answer = console.post(path_of(group) + "/reset", {**fields, "confirmed": "yes"})
        assert 400 <= answer.status < 500 and words in answer.text, fields
    assert committed(made, group) == {TopicPartition("orders", 0): READ}


def test_deleting_asks_for_the_name_and_is_written_down(
    console: Console, made: LocalBroker, group: str, directory: Path
) -> None:
    path = path_of(group) + "/delete"
    console.post(path, {"confirmed": "yes", "typed": "another"})
    assert committed(made, group)
    assert console.post(path, {"confirmed": "yes", "typed": group}).status == 303
    assert not committed(made, group)
    rows = [json.loads(line) for line in (directory / "audit.jsonl").read_text().splitlines()]
    assert [row["outcome"] for row in rows if row["group"] == group] == ["begun", "done"]


def test_offsets_of_one_topic_are_deleted(console: Console, made: LocalBroker, group: str) -> None:
    path = path_of(group) + "/delete-offsets"
    answer = console.post(path, {"topic": "orders", "confirmed": "yes", "typed": "orders"})
    assert answer.status == 303 and not committed(made, group)
    assert console.post(path, {"topic": "orders"}).status == 404


def test_an_open_transaction_is_shown_and_aborted(console: Console, made: LocalBroker) -> None:
    writer = made.producer(transactional_id="payments")
    writer.init_transactions()
    writer.begin_transaction()
    sent = writer.send("paid", b"1").result(10)
    seen = console.get("/transactions/payments.json").json
    assert seen["transaction"]["state"] == "Ongoing" and seen["is_open"]
    behind = console.get("/topics/paid/records.json", text="1").json["unread"]
    assert len(behind) == 1 and f"offsets {sent.offset} to {sent.offset} wait" in behind[0]
    rows = console.get("/topics/paid/producers.json", partition=0).json["producers"]
    producer = next(row for row in rows if row["transaction_start_offset"] == sent.offset)
    fields = {"partition": "0", "producer": str(producer["producer_id"])}
    shown = console.post("/topics/paid/abort", fields)
    assert shown.status == 200 and f"since offset {sent.offset}" in shown.text
    done = console.post("/topics/paid/abort", {**fields, "confirmed": "yes", "typed": "paid"})
    assert done.status == 303
    rows = console.get("/topics/paid/producers.json", partition=0).json["producers"]
    assert all(row["transaction_start_offset"] == -1 for row in rows)
    hanging = console.get("/hanging-transactions.json", look="yes", minutes=0).json
    assert hanging["hanging"] == [] and hanging["looked"] >= 3


def test_what_an_id_has_open_is_ended(console: Console, made: LocalBroker) -> None:
    writer = made.producer(transactional_id="stuck")
    writer.init_transactions()
    writer.begin_transaction()
    writer.send("paid", b"2").result(10)
    done = console.post("/transactions/stuck/end", {"confirmed": "yes", "typed": "stuck"})
    assert done.status == 303
    assert console.get("/transactions/stuck.json").json["transaction"]["state"] != "Ongoing"
    assert console.get("/transactions/no-such-id.json").status in (404, 409)
