"""What is to become of each topic of a mirror, and the file that says which."""

from __future__ import annotations

import pytest

from moldau.client.admin.own.mirrors_admin import MirroredInfo, MirroredPlace
from moldau.config.mirror_source import MirrorSource, MirrorState
from moldau.config.topic_config import MIRROR_SOURCE
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.mirror_file import MirrorFile
from moldau.mirroring.source_cluster import SourceTopic
from moldau.mirroring.topic_judgement import (
    Action,
    Configure,
    Follow,
    Grow,
    Make,
    RaiseEpochs,
    Stop,
    Target,
    judge,
)

ROWS = {"source.bootstrap.servers": "a:1", "target.bootstrap.servers": "b:1"}
OLD, NEW = b"o" * 16, b"n" * 16
ORDERS = MirrorSource("here", OLD, "orders")


def file(**rows: str) -> MirrorFile:
    named = {key.replace("_", "."): value for key, value in rows.items()}
    return MirrorFile.parse({**ROWS, "topics.regex": ".*", **named})


def topic(*epochs: int, topic_id: bytes = OLD, repeats: str = "", **configs: str) -> SourceTopic:
    own = {key.replace("_", "."): value for key, value in configs.items()}
    return SourceTopic("orders", topic_id, epochs or (0,), own, repeats)


def info(*epochs: int, source: str = ORDERS.text, name: str = "orders") -> MirroredInfo:
    places = tuple(MirroredPlace(0, 5, epoch, 0, 5) for epoch in epochs or (0,))
    return MirroredInfo(name, OLD, source, places)


def judged(
    found: SourceTopic | None,
    mirror: MirroredInfo | None,
    names: tuple[str, ...] = (),
    configs: dict[str, str] | None = None,
    **rows: str,
) -> list[Action]:
    target = Target(
        "there",
        frozenset(names),
        {} if mirror is None else {mirror.name: mirror},
        {"orders": {MIRROR_SOURCE: "", **(configs or {})}},
    )
    topics = {} if found is None else {"orders": found}
    return judge(file(**rows), "here", topics, target)


def test_a_topic_is_made_once_and_then_followed() -> None:
    assert judged(topic(), None) == [Make("orders", ORDERS, topic())]
    assert judged(topic(), None, prefix="a.") == [Make("a.orders", ORDERS, topic())]
    assert judged(topic(), info()) == [Follow(topic(), info())]


def test_partitions_settings_and_epochs_follow() -> None:
    wanted = topic(3, 4, retention_ms="1")
    actions = judged(wanted, info(3), configs={"segment.bytes": "2"})
    assert actions == [
        Grow("orders", 2),
        Configure("orders", {"retention.ms": "1", "segment.bytes": None}),
        Follow(wanted, info(3)),
    ]
    assert judged(topic(9, 4), info(3, 4)) == [
        RaiseEpochs(info(3, 4), {0: 9}),
        Follow(topic(9, 4), info(3, 4)),
    ]
    assert judged(topic(retention_ms="1"), info(), copy="groups") == [
        Follow(topic(retention_ms="1"), info())
    ]


@pytest.mark.parametrize(
    ("found", "mirror", "names", "reason"),
    [
        (topic(topic_id=NEW), info(), (), "deleted and made anew"),
        (None, info(), (), "no such topic any more"),
        (topic(), None, ("orders",), "no mirror, or was promoted"),
        (topic(), info(source=ORDERS._replace(cluster_id="x").text), (), "repeats x/"),
        (topic(), info(0, 0), (), "has 2 partitions, the source's 1"),
        (
            topic(),
            info(source=ORDERS._replace(state=MirrorState.PROMOTING).text),
            (),
            "is promoting just now",
        ),
    ],
)
def test_what_would_be_a_guess_is_stopped(
    found: SourceTopic | None, mirror: MirroredInfo | None, names: tuple[str, ...], reason: str
) -> None:
    (action,) = judged(found, mirror, names)
    assert isinstance(action, Stop)
    assert reason in action.reason


def test_mirrors_are_not_mirrored_unless_they_are_named_and_never_back() -> None:
    of_third = MirrorSource("third", OLD, "orders").text
    of_target = MirrorSource("there", OLD, "orders").text
    assert judged(topic(repeats=of_third), None) == []
    assert judged(topic(repeats=of_target), None, topics="orders") == []
    (made,) = judged(topic(repeats=of_third), None, topics="orders")
    assert isinstance(made, Make)


def test_a_mirror_goes_back_to_the_names_that_topics_had() -> None:
    there = file(prefix="a.", topics_exclude="secret.*")
    back = there.reversed()
    assert there.target_name("orders") == "a.orders"
    assert back.target_name("a.orders") == "orders"
    assert back.wants("a.orders") and not back.wants("orders") and not back.wants("a.secret1")
    assert back.reversed() == there
    assert back.source["bootstrap.servers"] == "b:1"


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ({"topics.regex": "("}, "topics.regex is no regular expression"),
        ({"topics.regex": ""}, "name topics, or topics.regex"),
        ({"topic": "x"}, "a mirror has no setting topic:"),
        ({"copy": "all"}, "copy is of settings, groups, acls, not all"),
        ({"refresh.ms": "1"}, "refresh.ms is at least 100, not 1"),
        ({"source.bootstrap.servers": ""}, "source.bootstrap.servers is missing"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(rows: dict[str, str], fault: str) -> None:
    with pytest.raises(MirrorFault, match=fault.replace("(", r"\(")):
        MirrorFile.parse({**ROWS, "topics.regex": ".*", **rows})


def test_what_a_topic_repeats_is_one_line_of_text() -> None:
    for state in MirrorState:
        source = MirrorSource("Cluster_1-x", bytes(range(16)), "some.topic_1", state)
        assert MirrorSource.parse(source.text) == source
    for text in ("", "a/b/c", "odd a/AAAAAAAAAAAAAAAAAAAAAA/c", "a//c", "a"):
        assert MirrorSource.parse(text) is None
