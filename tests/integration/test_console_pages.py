"""Every page of a console beside a real broker: that it shows what is there, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Admin, Producer
from moldau.console.pages import PAGES
from tests.support.console_browser import TOKEN, Console, console_process
from tests.support.console_pages import pages
from tests.support.console_world import HOSTILE, World, world

NAMES = [name for name in pages() if name != "missing"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as started:
        yield started


@pytest.fixture(scope="module")
def console(made: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    directory = tmp_path_factory.mktemp("console")
    with console_process(made.bootstrap, directory, *made.flags) as started:
        yield started


def json_of(path: str) -> str:
    place, question, query = path.partition("?")
    return ("/overview" if place == "/" else place) + ".json" + question + query


def test_no_page_is_forgotten() -> None:
    shown = {place.partition("?")[0].count("/") for place in pages().values()}
    assert shown
    menu = {page.path for page in PAGES if page.nav}
    assert menu <= {place.partition("?")[0] for place in pages().values()}


@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_shown_and_has_its_json(console: Console, name: str) -> None:
    path = pages()[name]
    page = console.get(path)
    assert page.status == 200, page.text[-600:]
    assert HOSTILE not in page.text and "<img src=x" not in page.text
    told = console.get(json_of(path))
    assert told.status == 200
    assert told.headers["content-type"] == "application/json"
    assert isinstance(told.json, dict)


def test_a_transaction_is_open_until_it_ends(console: Console, made: World) -> None:
    with Producer(bootstrap_servers=made.bootstrap, transactional_id="short") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("payments", b"x").result(10)
        assert console.get("/transactions/short.json").json["open_seconds"] >= 0
        producer.commit_transaction()
        told = console.get("/transactions/short.json").json
        assert (told["is_open"], told["open_seconds"]) == (False, None)
        assert "none is open" in console.get("/transactions/short").text


def test_snapshots_are_listed_taken_and_deleted(console: Console, made: World) -> None:
    seen = console.get("/snapshots.json").json
    assert [row["name"] for row in seen["snapshots"]] == ["before-release"]
    assert "moldau fork" in seen["fork"] and "before-release" in seen["fork"]
    asked = console.post("/snapshots", {"name": "second"})
    assert asked.status == 200 and "moldau snapshot create" in asked.text
    assert console.post("/snapshots", {"name": "second", "confirmed": "yes"}).status == 303
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        assert {row.name for row in admin.describe_snapshots()} == {"before-release", "second"}
    fields = {"confirmed": "yes", "typed": "something else"}
    assert console.post("/snapshots/second/delete", fields).status == 400
    assert console.post("/snapshots/second/delete", {**fields, "typed": "second"}).status == 303
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        assert [row.name for row in admin.describe_snapshots()] == ["before-release"]


def test_changes_are_shown_with_their_outcome(console: Console) -> None:
    assert console.post("/new-topic", {"name": "noted", "confirmed": "yes"}).status == 303
    fields = {"confirmed": "yes", "typed": "noted"}
    assert console.post("/topics/noted/delete", fields).status == 303
    page = console.get("/audit")
    assert page.status == 200 and "moldau topics --bootstrap-server" in page.text
    rows = console.get("/audit.json").json["changes"]
    assert [row["change"] for row in rows[:2]] == [
        "Delete the topic noted",
        "Create the topic noted",
    ]
    assert {row["outcome"] for row in rows} == {"done"}


def test_log_files_are_listed_and_searched(console: Console) -> None:
    listed = console.get("/logs.json").json["files"]
    assert {row["name"] for row in listed} == {
        "server.log", "controller.log.2026-11-19-06", "state-change.log",
    }  # fmt: skip
    entries = console.get("/logs/server.log.json").json["entries"]
    assert [row["level"] for row in entries] == ["ERROR", "WARN", "INFO"] * 30
    assert entries[0]["text"].endswith("\njava.io.IOException: No space left on device")
    grave = console.get("/logs/server.log.json", level="ERROR").json["entries"]
    assert grave == [row for row in entries if row["level"] == "ERROR"]
    found = console.get("/logs/server.log.json", find="no SPACE left").json["entries"]
    assert found == grave, "the lines behind an error belong to it"


@pytest.mark.parametrize("name", ["..%252F..%252Fetc%252Fpasswd", "passwd", "link.log"])
def test_nothing_outside_the_logs_is_read(console: Console, made: World, name: str) -> None:
    folder = Path(made.flags[made.flags.index("--log-files") + 1])
    link = folder / "link.log"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    assert console.get(f"/logs/{name}").status == 404
    assert "link.log" not in {row["name"] for row in console.get("/logs.json").json["files"]}


def test_a_pipeline_shows_its_batches_lag_and_state(console: Console) -> None:
    row = console.get("/pipelines.json").json["pipelines"][0]
    assert (row["name"], row["state"], row["batches"]) == ("wordcount", "in a batch", 12)
    seen = console.get("/pipelines/wordcount.json").json
    assert [each["read_to"] for each in seen["sources"]] == [73, 64, 55]
    assert seen["pipeline"]["lag"] == sum(each["end"] - each["read_to"] for each in seen["sources"])
    assert seen["batches"][0]["seconds"] is None and seen["batches"][1]["seconds"] == 4.0
    assert seen["batches"][1]["records"] > 0
    assert seen["state"] == [{"operator": "0", "partitions": 2, "files": 2, "size_bytes": 10_000}]
    assert console.get("/pipelines/..%252Flogs").status == 404


def test_clients_are_shown_with_their_connections(console: Console) -> None:
    seen = console.get("/clients.json").json
    assert [(row["name"], row["group"]) for row in seen["members"]] == [(HOSTILE, "shipping")]
    assert seen["listeners"][0]["connections"] >= 3
    assert any("moldau" in row["what"] for row in seen["software"])
    assert seen["faults"] == []


def test_what_brokers_measure_is_drawn(console: Console) -> None:
    assert [each["title"] for each in console.get("/charts.json").json["measured"]] == [
        "Produce, 99 of 100 take less",
        "Fetch of consumers, 99 of 100 take less",
        "Written, in bytes",
        "Read by consumers, in bytes",
    ]


def test_json_of_a_page_is_json_even_where_names_are_no_text(console: Console) -> None:
    text = console.get("/topics/orders/records.json", **{"from": "oldest"}).body
    assert json.loads(text)["page"]["rows"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Cookie": ""}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
def test_a_change_that_is_not_asked_by_an_own_page_is_refused(
    console: Console, made: World, headers: dict[str, str], status: int
) -> None:
    fields = {"name": "by-a-trick", "confirmed": "yes"}
    answer = console.post("/new-topic", fields, headers=headers)
    assert answer.status == status, answer.text[-300:]
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        assert "by-a-trick" not in admin.list_topics()


def test_the_token_of_another_session_is_refused(console: Console) -> None:
    other = Console(console.address, 0)
    token = TOKEN.search(other.get("/new-topic").text)
    assert token is not None
    fields = {"name": "by-a-trick", "confirmed": "yes"}
    assert console.post("/new-topic", fields, token=token[1]).status == 403


def test_a_page_that_is_missing_says_so(console: Console) -> None:
    page = console.get("/topics/not-there")
    assert page.status == 404 and "There is no such topic" in page.text
    assert console.get("/topics/not-there.json").json["fault"].startswith("There is no such topic")
    assert console.get("/nowhere").status == 404
