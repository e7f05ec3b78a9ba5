"""Every page of the console in a real Chromium, on Moldau and on Apache Kafka 4.3.1: nothing of
what clients wrote runs, nothing is fetched from elsewhere, axe-core finds nothing serious."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from moldau import Admin, NewTopic
from tests.compat.clients.program import build, fresh_copy
from tests.support.apache_kafka import ApacheKafka
from tests.support.chromium import CHROMIUM, NARROW, Browser, chromium
from tests.support.console_browser import Console, console_process
from tests.support.console_pages import pages
from tests.support.console_world import World, filled, world

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="Chromium is not installed"),
]
CUT_OFF = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""No name leads anywhere, as without a network."""
WIDE = 1280
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
GRAVE = ("moderate", "serious", "critical")
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: arguments[0]}).then(
  found => done(found.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)])),
  fault => done([["critical", String(fault), []]]));
"""
KAFKA = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module", params=["moldau", "apache-kafka"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "moldau":
        with world(directory) as started:
            yield started
        return
    kafka = ApacheKafka(directory, KAFKA)
    # The number that Moldau's broker has too.
    voters = f"0@127.0.0.1:{kafka.controller_port}"
    kafka.settings |= {"node.id": "0", "controller.quorum.voters": voters}
    kafka.start()
    try:
        with filled(kafka.bootstrap, directory / "files") as started:
            yield started
    finally:
        kafka.stop()


@pytest.fixture(scope="module")
def console(made: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    directory = tmp_path_factory.mktemp("console")
    with console_process(made.bootstrap, directory, *made.flags) as started:
        yield started


@pytest.fixture(scope="module")
def browser(console: Console) -> Iterator[Browser]:
    with chromium(console.address, CUT_OFF) as started:
        yield started


@pytest.fixture(scope="module")
def axe() -> str:
    folder = fresh_copy("axe")
    build(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def grave_faults(browser: Browser, axe: str) -> list[Any]:
    browser.driver.execute_script(axe)
    found: list[Any] = browser.driver.execute_async_script(AXE, list(RULES))
    return [each for each in found if each[0] in GRAVE]


@pytest.mark.parametrize("name", pages())
def test_a_page_is_whole_safe_and_can_be_used_by_everybody(
    browser: Browser, axe: str, name: str
) -> None:
    for theme in ("light", "dark"):
        browser.set_theme(theme)
        assert not browser.open_at(WIDE, pages()[name]), "it must not be moved sideways"
        assert grave_faults(browser, axe) == []
    assert not browser.open_at(NARROW, pages()[name]), "it must not be moved sideways"
    assert grave_faults(browser, axe) == []
    assert browser.driver.execute_script("return window.stolen") is None
    assert browser.foreign() == []
    complaints = browser.complaints()
    assert complaints == [] or name == "missing"


def test_a_list_is_refreshed_under_the_hands_of_who_reads_it(browser: Browser, made: World) -> None:
    browser.open_at(WIDE, "/topics")
    browser.driver.execute_script("window.isSamePage = true")
    browser.one("a[href$='/topics/orders']").send_keys("")
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        admin.create_topics([NewTopic("fresh-one", 1, 1)]).check()
    browser.until_text("fresh-one")
    assert browser.driver.execute_script("return window.isSamePage") is True
    focused = "return document.activeElement.textContent"
    assert browser.driver.execute_script(focused) == "orders", "the focus has to stay"


def test_the_theme_is_chosen_and_kept(browser: Browser) -> None:
    browser.set_theme("light")
    browser.open_at(WIDE, "/topics")
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = browser.driver.execute_script(colour)
    for label in ("Theme: system", "Theme: light"):
        browser.press(label)
    dark = browser.driver.execute_script(colour)
    assert dark != light
    browser.open("/groups")
    assert browser.driver.execute_script(colour) == dark
    browser.press("Theme: dark")


def test_a_foreign_page_changes_nothing(browser: Browser, tmp_path: Path, made: World) -> None:
    """It knows the address and what a form would say, not the session."""
    page = tmp_path / "foreign.html"
    page.write_text(
        f'<form id="f" method="post" action="{browser.address}/topics/shipments/delete">'
        '<input name="confirmed" value="yes"><input name="typed" value="shipments"></form>'
        "<script>document.getElementById('f').submit()</script>"
    )
    browser.open("/topics")
    browser.driver.get(page.as_uri())
    browser.until_text("must come from a page of this console")
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        assert "shipments" in admin.list_topics()
    browser.complaints()


def test_a_foreign_name_for_this_machine_is_refused(console: Console) -> None:
    place = urlsplit(console.address)
    for host in ("evil.example", f"evil.example:{place.port}", "localhost.evil.example", ""):
        connection = HTTPConnection(place.hostname or "", place.port, timeout=30)
        connection.request("GET", "/topics.json", headers={"Host": host})
        answer = connection.getresponse()
        assert answer.status == 421 and b"orders" not in answer.read()
        connection.close()


def test_it_works_below_a_path(made: World, tmp_path: Path) -> None:
    flags = ("--path-prefix", "/tools/kafka", *made.flags)
    with (
        console_process(made.bootstrap, tmp_path, *flags) as console,
        chromium(console.address.removesuffix("/tools/kafka"), CUT_OFF) as browser,
    ):
        browser.open("/tools/kafka/")
        links = [each.get_attribute("href") for each in browser.all("nav a")]
        assert len(links) > 12
        for link in links:
            browser.driver.get(link)
            assert urlsplit(link).path.startswith("/tools/kafka/")
            assert "not possible" not in browser.text.lower()
        browser.open("/tools/kafka/topics/orders/records")
        assert browser.one("#records a").get_attribute("href").count("/tools/kafka/") == 1
        browser.open("/tools/kafka/topics/shipments/produce")
        browser.fill("value", "below a path")
        browser.press("Send")
        browser.until_text("below a path")
        assert browser.complaints() == []
