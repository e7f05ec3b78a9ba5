"""Signing in to the console in a real Chromium over TLS: with SCRAM each as their own user, with a
certificate as its owner. A user without rights sees nothing that he may not."""

from __future__ import annotations

import json
import shutil
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau import TopicPartition
from moldau.admin import Acl, AclOperation, AclResourceType
from moldau.console.pages import PAGES
from moldau.testing import LocalBroker, Security, broker
from tests.support.chromium import CHROMIUM, Browser, chromium
from tests.support.console_browser import console_process
from tests.support.console_world import write_checkpoint, write_logs

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason="Chromium is not installed"),
]
USERS = {"admin": "admin-word", "alice": "alice-word"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:moldau;User:CN=admin;User:CN=broker",
}
HIDDEN = ("secret-topic", "secret-group", "secret-user", "Disk failed", "wordcount")
SESSION = "moldau_console_"


@pytest.fixture(scope="module")
def made() -> Iterator[LocalBroker]:
    security = Security("SASL_SSL", mechanisms=("SCRAM-SHA-256",), users=USERS)
    with broker(AUTHORIZER, security=security) as started:
        fill(started)
        yield started


def fill(made: LocalBroker) -> None:
    made.create_topic("open")
    made.create_topic("secret-topic")
    with made.producer() as producer:
        for topic in ("open", "secret-topic"):
            producer.send(topic, f"of {topic}".encode()).result(10)
    with made.admin() as admin:
        for principal in ("User:alice", "User:CN=alice"):
            admin.create_acls(
                [
                    Acl(principal, AclResourceType.TOPIC, "open", AclOperation.READ),
                    Acl(principal, AclResourceType.GROUP, "hers", AclOperation.READ),
                    Acl("User:secret-user", AclResourceType.TOPIC, "open", AclOperation.READ),
                ]
            ).check()
        for group in ("hers", "secret-group"):
            admin.alter_group_offsets(group, {TopicPartition("open", 0): 0}).check()


@contextmanager
def browser_of(made: LocalBroker, directory: Path, lines: list[str]) -> Iterator[Browser]:
    config, identity = directory / "login.properties", directory / "console.pem"
    trust = [
        f"security.protocol={made.security.protocol}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={made.security.ca_path}",
    ]
    config.write_text("\n".join([*trust, *lines]) + "\n")
    identity.write_text(made.security.broker_certificate(["127.0.0.1"]))
    write_logs(directory / "logs")
    write_checkpoint(directory / "checkpoints" / "wordcount", {"secret-topic": {"0": 1}})
    flags = [
        *("--command-config", str(config)),
        *("--tls-certificate", str(identity), "--tls-key", str(identity)),
        *("--log-files", str(directory / "logs")),
        *("--checkpoints", str(directory / "checkpoints")),
    ]
    with (
        console_process(made.bootstrap, directory, *flags) as console,
        chromium(console.address, "--ignore-certificate-errors") as started,
    ):
        yield started


@pytest.fixture(scope="module")
def browser(made: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    directory = tmp_path_factory.mktemp("scram")
    with browser_of(made, directory, ["sasl.mechanism=SCRAM-SHA-256"]) as started:
        yield started


def sign_in(browser: Browser, user: str, word: str) -> None:
    browser.driver.delete_all_cookies()
    browser.open("/topics")
    browser.fill("user", user)
    browser.fill("password", word)
    browser.press("Sign in")


def cookie_of(browser: Browser) -> dict[str, object]:
    found = [row for row in browser.driver.get_cookies() if row["name"].startswith(SESSION)]
    assert len(found) == 1
    return dict(found[0])


def pages_of_alice() -> list[str]:
    words = {"{broker}": "0", "{topic}": "open", "{partition}": "0", "{offset}": "0",
             "{group}": "hers", "{transaction}": "none", "{file}": "server.log",
             "{client}": "none", "{pipeline}": "wordcount"}  # fmt: skip
    found = []
    for page in PAGES:
        path = page.path
        if path.endswith("-stream"):
            continue
        for brace, word in words.items():
            path = path.replace(brace, word)
        found.append(path)
    return found


def test_a_wrong_password_is_refused_in_one_sentence(browser: Browser) -> None:
    sign_in(browser, "alice", "not hers")
    browser.until_text("The cluster does not accept this name and password.")
    assert "alice-word" not in browser.driver.page_source


def test_whoever_signs_in_gets_a_session_that_nobody_knew_before(browser: Browser) -> None:
    browser.driver.delete_all_cookies()
    browser.open("/topics")
    before = cookie_of(browser)
    sign_in(browser, "alice", USERS["alice"])
    browser.until_text("Topics")
    assert browser.driver.current_url.endswith("/topics")
    after = cookie_of(browser)
    assert after["value"] != before["value"]
    assert (after["httpOnly"], after["secure"], after["sameSite"]) == (True, True, "Strict")


@pytest.mark.parametrize("path", pages_of_alice())
def test_what_she_may_not_see_is_on_no_page(browser: Browser, path: str) -> None:
    if not browser.all("button") or "alice" not in browser.one("header").text:
        sign_in(browser, "alice", USERS["alice"])
        browser.until_text("Topics")
    if path.endswith(("/raw", "/download")):
        assert not any(word in fetched(browser, path) for word in HIDDEN)
        return
    browser.open(path)
    assert "alice" in browser.one("header").text
    for text in (browser.driver.page_source, fetched(browser, json_of(path))):
        assert not any(word in text for word in HIDDEN)


def json_of(path: str) -> str:
    return ("/overview" if path == "/" else path) + ".json"


def fetched(browser: Browser, path: str) -> str:
    """With the session of the browser, without its window."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    cookie = cookie_of(browser)
    request = urllib.request.Request(
        browser.address + path, headers={"Cookie": f"{cookie['name']}={cookie['value']}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as fault:
        return fault.read().decode()


def test_who_may_do_everything_sees_everything(browser: Browser) -> None:
    sign_in(browser, "admin", USERS["admin"])
    browser.until_text("secret-topic")
    for path, word in (
        ("/acls", "secret-user"),
        ("/groups", "secret-group"),
        ("/logs/server.log", "Disk failed"),
        ("/pipelines", "wordcount"),
    ):
        browser.open(path)
        browser.until_text(word)
    told = json.loads(fetched(browser, "/pipelines.json"))
    assert told["pipelines"][0]["topics"] == ["secret-topic"]


def test_signing_out_ends_the_session_and_what_it_has_open(browser: Browser) -> None:
    sign_in(browser, "alice", USERS["alice"])
    browser.open("/topics/open/tail")
    browser.until_text("Live.")
    live = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.open("/topics")
    browser.press("Sign out")
    browser.until_text("Sign in with your Kafka user")
    browser.driver.close()
    browser.driver.switch_to.window(live)
    browser.until_text("signed out")


@pytest.mark.parametrize(("user", "sees"), [("admin", True), ("alice", False)])
def test_a_certificate_acts_as_its_owner(tmp_path: Path, user: str, sees: bool) -> None:
    security = Security("SSL", client_auth="required", users={"admin": "-"})
    with broker(AUTHORIZER, security=security) as made:
        fill(made)
        key = f"ssl.keystore.location={security.certificate(user)}"
        with browser_of(made, tmp_path, ["ssl.keystore.type=PEM", key]) as browser:
            browser.open("/topics")
            browser.until_text("open")
            assert ("secret-topic" in browser.text) is sees
