"""What a user of the console may see of records and groups is what Kafka's lists allow him."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import TopicPartition
from moldau.admin import Acl, AclOperation, AclResourceType
from moldau.testing import LocalBroker, Security, broker
from tests.support.console_browser import Console, console_process

USERS = {"admin": "admin-word", "alice": "alice-word"}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:moldau",
}
WORD = b"nobody may read this"


def allow(kind: AclResourceType, name: str, operation: AclOperation) -> Acl:
    return Acl("User:alice", kind, name, operation)


@pytest.fixture(scope="module")
def made() -> Iterator[LocalBroker]:
    security = Security("SASL_PLAINTEXT", mechanisms=("SCRAM-SHA-256",), users=USERS)
    with broker(SETTINGS, security=security) as started:
        for topic in ("open", "told", "secret"):
            started.create_topic(topic)
            with started.producer() as producer:
                producer.send(topic, WORD).result(10)
        with started.admin() as admin:
            topic, group = AclResourceType.TOPIC, AclResourceType.GROUP
            admin.create_acls(
                [
                    allow(topic, "open", AclOperation.READ),
                    # May know of it, not read it.
                    allow(topic, "told", AclOperation.DESCRIBE),
                    allow(group, "hers", AclOperation.READ),
                ]
            ).check()
            for name in ("hers", "others"):
                admin.alter_group_offsets(name, {TopicPartition("open", 0): 0}).check()
        yield started


@pytest.fixture(scope="module")
def alice(made: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    directory = tmp_path_factory.mktemp("console")
    config = directory / "login.properties"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n")
    with console_process(made.bootstrap, directory, "--command-config", str(config)) as console:
        assert console.get("/topics/open/records").status == 303
        signed = console.post("/login", {"user": "alice", "password": USERS["alice"]})
        assert signed.status == 303
        yield console


def test_what_she_may_read_she_sees(alice: Console) -> None:
    assert WORD.decode() in alice.get("/topics/open/records").text
    assert alice.get("/topics/open/records.json", text="nobody").json["search"]["found"] == 1
    assert [row["name"] for row in alice.get("/groups.json").json["groups"]] == ["hers"]
    assert alice.get("/groups/hers.json").json["rows"][0]["lag"] == 1


@pytest.mark.parametrize("topic", ["told", "secret"])
@pytest.mark.parametrize(
    "path",
    [
        "/topics/{}/records",
        "/topics/{}/records.json",
        "/topics/{}/records.json?text=nobody",
        "/topics/{}/records/0/0",
        "/topics/{}/records/0/0/raw",
        "/topics/{}/search-stream?text=nobody",
        "/topics/{}/tail-stream",
        "/topics/{}/download",
        "/topics/{}/producers",
    ],
)
def test_what_she_may_not_read_she_sees_nowhere(alice: Console, topic: str, path: str) -> None:
    if path.endswith("tail-stream") and topic == "told":
        return  # Nothing new comes there: it has nothing to show or to refuse.
    answer = alice.get(path.format(topic))
    assert WORD not in answer.body
    assert answer.status in (403, 404) or b"uthoriz" in answer.body, answer.text


def test_what_she_may_not_change_stays(alice: Console, made: LocalBroker) -> None:
    sent = alice.post("/topics/open/produce", {"value": "x"})
    assert sent.status == 403
    for path, fields in (
        ("/groups/others/reset", {"scenario": "to-latest"}),
        ("/groups/others/delete", {"typed": "others"}),
    ):
        answer = alice.post(path, {**fields, "confirmed": "yes"})
        assert answer.status in (403, 404), answer.text
    with made.admin() as admin:
        kept = admin.list_group_offsets(["others"]).check()["others"]
    assert kept[TopicPartition("open", 0)] is not None
    assert len(made.read("open", count=1)) == 1
