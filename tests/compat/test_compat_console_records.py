"""Records and groups of the console in a real Chromium: on Moldau, and on Apache Kafka 4.3.1."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from moldau import Admin, NewTopic, Producer, TopicPartition
from moldau.testing.broker_process import BrokerProcess
from tests.support.apache_kafka import ApacheKafka
from tests.support.chromium import CHROMIUM, NARROW, Browser, chromium
from tests.support.console_browser import console_process

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="Chromium is not installed"),
]
RECORDS = 400


class World(NamedTuple):
    bootstrap: str
    browser: Browser


@pytest.fixture(scope="module", params=["moldau", "apache-kafka"])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "moldau":
        with BrokerProcess(directory) as process:
            yield process.bootstrap
        return
    kafka = ApacheKafka(directory).start()
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


@pytest.fixture(scope="module")
def world(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2, 1), NewTopic("inbox", 1, 1)]).check()
        with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
            for number in range(RECORDS):
                document = {"id": number, "status": "paid" if number % 100 else "failed"}
                producer.send("orders", json.dumps(document).encode(), b"%d" % number)
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 3}).check()
    with (
        console_process(bootstrap, tmp_path_factory.mktemp("console")) as console,
        chromium(console.address) as browser,
    ):
        yield World(bootstrap, browser)


def test_a_search_runs_to_its_end_while_somebody_looks(world: World) -> None:
    browser = world.browser
    browser.open("/topics/orders/records")
    browser.fill("filter", 'value.status = "failed"')
    browser.press("Show")
    browser.until_text("All was searched.")
    assert f"{RECORDS} of {RECORDS} offsets" in browser.text
    assert len(browser.all("#records > li")) == RECORDS // 100
    assert browser.complaints() == []


def test_a_search_with_many_matches_stops_and_goes_on(world: World) -> None:
    browser = world.browser
    browser.open("/topics/orders/records?text=paid")
    browser.until_text("enough was found")
    shown = len(browser.all("#records > li"))
    assert shown == 200  # A hundred of the page, a hundred of its stream.
    browser.one("[data-role=go-on]").click()
    browser.until_text("All was searched.")
    assert shown + len(browser.all("#records > li")) == RECORDS - RECORDS // 100


def test_new_records_appear_by_themselves(world: World) -> None:
    browser = world.browser
    browser.open("/topics/inbox/tail")
    browser.until_text("Live.")
    with Producer(bootstrap_servers=world.bootstrap) as producer:
        producer.send("inbox", b"fresh <b>news</b>").result(30)
    browser.until_text("fresh <b>news</b>")
    browser.press("Pause")
    browser.until_text("Paused")
    assert browser.complaints() == []


def test_a_record_is_sent_by_a_form(world: World) -> None:
    browser = world.browser
    browser.open("/topics/inbox/produce")
    browser.fill("value_kind", "json")
    browser.fill("value", '{"sent": "by hand"}')
    browser.fill("headers", "source: browser")
    browser.press("Send")
    browser.until_text("to partition 0, offset")
    browser.until_text('{"sent": "by hand"}')
    browser.one("#records a").click()
    browser.until_text("Header source")
    assert browser.complaints() == []


def test_a_reset_is_previewed_and_done(world: World) -> None:
    browser = world.browser
    browser.open("/groups/billing")
    browser.until_text("Records behind")
    browser.fill("scenario", "to-offset")
    browser.fill("amount", "1")
    browser.press("Preview")
    browser.until_text("moldau consumer-groups")
    cells = [each.text for each in browser.all("tbody td")]
    assert cells == ["orders", "0", "3", "1", "-2"]
    browser.press("Reset the offsets of billing")
    browser.until_text("1 offset of the group billing set.")
    with Admin(bootstrap_servers=world.bootstrap) as admin:
        found = admin.list_group_offsets(["billing"]).check()["billing"]
    assert found[TopicPartition("orders", 0)].offset == 1  # type: ignore[union-attr]


PATHS = (
    "/topics/orders/records",
    "/topics/orders/records?text=paid",
    "/topics/orders/records/0/0",
    "/topics/orders/tail",
    "/topics/orders/produce",
    "/topics/orders/producers",
    "/groups",
    "/groups/billing",
    "/transactions",
    "/hanging-transactions?look=yes",
)


@pytest.mark.parametrize("path", PATHS)
def test_pages_fit_on_a_telephone_and_load_without_a_fault(world: World, path: str) -> None:
    world.browser.open(path)
    assert world.browser.one("h1").text
    assert not world.browser.is_too_wide(NARROW)
    assert world.browser.complaints() == []
    world.browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
