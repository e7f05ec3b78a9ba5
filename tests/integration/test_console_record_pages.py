"""The pages of records as a browser gets them, from a console process beside a real broker."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import LocalBroker, broker
from tests.support.console_browser import Console, console_process
from tests.support.eventually import eventually

RECORDS = 300
BYTES = bytes(range(216, 256))
"""No text."""


@pytest.fixture(scope="module")
def made() -> Iterator[LocalBroker]:
    with broker() as started:
        started.create_topic("orders", 2)
        begun = int(time.time() * 1000) - 2 * RECORDS
        with started.producer(compression_type="lz4") as producer:
            for number in range(RECORDS):
                document = {"id": number, "status": "paid" if number % 3 else "failed"}
                producer.send(
                    "orders", json.dumps(document).encode(), b"key-%d" % number,
                    [("source", b"web")], number % 2, begun + number,
                )  # fmt: skip
            producer.send("orders", BYTES, (7).to_bytes(8, "big"), partition=1)
            producer.send("orders", None, b"<script>alert(1)</script>", partition=1)
        yield started


@pytest.fixture(scope="module")
def console(made: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with console_process(made.bootstrap, tmp_path_factory.mktemp("console")) as started:
        yield started


def test_pages_lead_back_and_forth_over_the_same_records(console: Console) -> None:
    first = console.get("/topics/orders/records.json", count=20).json
    assert len(first["page"]["rows"]) == 20 and first["page"]["newer"] == ""
    older = console.get("/topics/orders/records.json?" + first["page"]["older"]).json
    back = console.get("/topics/orders/records.json?" + older["page"]["newer"]).json
    assert [r["offset"] for r in back["page"]["rows"]] == [
        r["offset"] for r in first["page"]["rows"]
    ]
    oldest = console.get("/topics/orders/records.json", **{"from": "oldest"}).json
    assert [json.loads(r["value"]["text"])["id"] for r in oldest["page"]["rows"]] == list(range(50))


def test_what_a_record_holds_never_becomes_part_of_the_page(console: Console) -> None:
    page = console.get("/topics/orders/records", partitions="1").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<script>alert" not in page


def test_a_search_says_what_it_looked_at_and_goes_on_where_it_stopped(console: Console) -> None:
    found: list[int] = []
    words = 'filter=value.status+%3D+"failed"&count=50'
    page = console.get(f"/topics/orders/records.json?{words}").json["search"]
    while True:
        found += [json.loads(row["value"]["text"])["id"] for row in page["rows"]]
        assert page["found"] == len(found) and page["offsets_total"] == RECORDS + 2
        if not page["go_on"]:
            break
        page = console.get("/topics/orders/records.json?" + page["go_on"]).json["search"]
    assert sorted(found) == list(range(0, RECORDS, 3))
    assert page["is_done"] and page["records"] == RECORDS + 2


def test_a_streamed_search_tells_its_progress_and_where_it_stands(console: Console) -> None:
    events = list(console.events("/topics/orders/search-stream", text='"failed"'))
    kinds = [kind for kind, _, _ in events]
    assert kinds[0] == "progress" and kinds[-1] == "end"
    done = [data["offsets_done"] for _, _, data in events]
    assert done == sorted(done)
    assert sum(len(data.get("rows", [])) for _, _, data in events) == 100
    standing = [id for _, id, _ in events if id][-1]
    rest = console.get("/topics/orders/records.json", text='"failed"', standing=standing).json
    assert rest["search"]["is_done"] and rest["search"]["rows"] == []


def test_a_wrong_question_is_answered_by_one_sentence(console: Console) -> None:
    for query, words in (
        ({"filter": "value ="}, "its end stands where a text in quotes"),
        ({"partitions": "9"}, "no partition 9"),
        ({"from": "time", "time": "soon"}, "'soon' is not a time"),
        ({"text": "x", "standing": "1.2.3"}, "no place in a search"),
    ):
        answer = console.get("/topics/orders/records.json", **query)
        assert 400 <= answer.status < 500 and words in answer.json["fault"], query
    missing = console.get("/topics/no-such-topic/records.json")
    assert missing.status == 404 and "There is no topic" in missing.json["fault"]
    assert console.get("/topics/orders/records/0/100000.json").status == 404


def test_new_records_arrive_while_somebody_looks(console: Console, made: LocalBroker) -> None:
    made.create_topic("live")
    events = console.events("/topics/live/tail-stream", text="wanted")
    assert next(events)[0] == "records"
    with made.producer() as producer:
        producer.send("live", b"other")
        producer.send("live", b"wanted 1")
    row = next(data["rows"] for _, _, data in events if data["rows"])
    assert [each["value"]["text"] for each in row] == ["wanted 1"]
    events.close()


def test_a_record_is_sent_as_it_was_filled_in(console: Console, made: LocalBroker) -> None:
    made.create_topic("inbox", 2)
    path = "/topics/inbox/produce"
    fields = {"value": '{"a":\r\n1}', "value_kind": "json", "key": "00 ff", "key_kind": "hex",
              "headers": "trace-id: 7\r\nb: c:d", "partition": "1"}  # fmt: skip
    assert console.post(path, fields).status == 303
    assert "to partition 1, offset 0" in console.get("/topics/inbox/records").text
    record = made.read("inbox", count=1)[0]
    assert (record.key, record.value, record.partition) == (b"\x00\xff", b'{"a":\n1}', 1)
    assert record.headers == (("trace-id", b"7"), ("b", b"c:d"))
    assert console.post(path, {"value_kind": "null", "key": "k"}).status == 303
    assert None in [record.value for record in made.read("inbox", count=2)]
    for wrong in (
        {"value": "{", "value_kind": "json"},
        {"value": "zz", "value_kind": "hex"},
        {"value": "x", "headers": "no colon"},
        {"value": "x", "partition": "5"},
    ):
        assert 400 <= console.post(path, wrong).status < 500, wrong
    assert console.post(path, {"value": "x"}, token="wrong").status == 403
    assert len(made.read("inbox", count=2)) == 2


def test_a_console_that_only_reads_sends_nothing(made: LocalBroker, tmp_path: Path) -> None:
    with console_process(made.bootstrap, tmp_path, "--read-only") as reading:
        answer = reading.post("/topics/orders/produce", {"value": "x"})
        assert answer.status == 403 and "read-only" in answer.text


def test_downloads_hold_all_that_was_asked_for_and_say_if_not(console: Console) -> None:
    path = "/topics/orders/download"
    lines = console.get(path, format="jsonl", **{"from": "oldest"}).text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == RECORDS + 2
    assert "value_base64" in rows[-2] and rows[-1]["value"] is None
    cut = console.get(path, format="jsonl", most=5).text.splitlines()
    assert len(cut) == 6 and "Cut after 5 records" in json.loads(cut[-1])["note"]
    answer = console.get(path, format="csv", filter='value.status = "failed"', partitions="0")
    table = list(csv.reader(io.StringIO(answer.text)))
    assert table[0][:4] == ["partition", "offset", "timestamp", "key"]
    assert [json.loads(row[4])["id"] for row in table[1:]] == list(range(0, RECORDS, 6))
    assert "attachment" in answer.headers["content-disposition"]
    raw = console.get(f"/topics/orders/records/1/{RECORDS // 2}/raw")
    assert raw.body == BYTES
    assert raw.headers["content-type"] == "application/octet-stream"


def test_a_spreadsheet_gets_no_formula_from_those_who_write_records(
    console: Console, made: LocalBroker
) -> None:
    made.create_topic("sheet", 1)
    formulas = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "＝1"]
    plain = ["-5", "+1.5e3", "a=b", "", "'=1"]
    with made.producer() as producer:
        for text in formulas + plain:
            producer.send("sheet", text.encode(), text.encode())
    place = "/topics/sheet/download"
    answer = console.get(place, format="csv", **{"from": "oldest"})
    rows = list(csv.reader(io.StringIO(answer.body.decode(), newline="")))[1:]
    assert [row[3] for row in rows] == [row[4] for row in rows]
    assert [row[4] for row in rows] == [f"'{text}" for text in formulas] + plain
    lines = console.get(place, format="jsonl", **{"from": "oldest"}).text.splitlines()
    assert [json.loads(line)["value"] for line in lines] == formulas + plain


def test_keys_and_values_are_shown_as_what_was_chosen(console: Console) -> None:
    place = f"/topics/orders/records/1/{RECORDS // 2}.json"
    assert console.get(place).json["record"]["value"]["kind"] == "hex"
    chosen = console.get(place, key="int64", value="int32").json["record"]
    assert chosen["key"]["text"] == "7" and chosen["key"]["kind"] == "int64"
    assert chosen["value"]["kind"] == "hex" and "has 4 bytes" in chosen["value"]["fault"]
    searched = console.get("/topics/orders/records.json", filter="key = 7", key="int64").json
    assert [row["offset"] for row in searched["search"]["rows"]] == [RECORDS // 2]


def test_more_streams_than_allowed_are_refused(console: Console, made: LocalBroker) -> None:
    opened = [console.events("/topics/orders/tail-stream") for _ in range(6)]
    assert all(next(events)[0] == "records" for events in opened)
    refused = console.get("/topics/orders/tail-stream")
    assert refused.status == 429
    for events in opened:
        events.close()
    # The console notices a closed stream when it next has something to say.
    eventually(lambda: console.get("/topics/orders/download", most=1).status == 200)


def test_a_stream_that_is_closed_leaves_no_connection(console: Console, made: LocalBroker) -> None:
    before = console.descriptors
    opened = [console.events("/topics/orders/tail-stream") for _ in range(4)]
    assert all(next(events)[0] == "records" for events in opened)
    assert console.descriptors > before
    for events in opened:
        events.close()
    eventually(lambda: console.descriptors <= before)


def test_a_range_of_time_holds_the_records_of_that_time(console: Console) -> None:
    oldest = console.get("/topics/orders/records.json", count=500, **{"from": "oldest"}).json
    times = {(r["partition"], r["offset"]): r["timestamp"] for r in oldest["page"]["rows"]}
    since, until = min(times.values()) + 100, min(times.values()) + 150
    words = {"from": "time", "time": since, "until": until}
    found = console.get("/topics/orders/records.json", **words).json["search"]["rows"]
    assert {(r["partition"], r["offset"]) for r in found} == {
        place for place, time in times.items() if since <= time < until
    }
    assert len(found) == 50
