"""An authorizer by a Python path: loaded or refused in a sentence, asked, and never believed
blindly."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.authorization import Authorizer, Operation, Question, ResourceType
from moldau.broker.access.own_authorizer import SLOW_SECONDS, OwnAuthorizer, loaded
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.handlers.authorization import topic
from moldau.handlers.request_context import RequestContext
from moldau.security.naming.principal import Principal

PRODUCE = 0


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("ours")]:
        del sys.modules[name]


def config(authorizer: str, **more: str) -> BrokerConfig:
    given = {"authorizer.class.name": authorizer, **more}
    return BrokerConfig.parse(given)[0]


RULES = """
from moldau.authorization import Authorizer

class Rules(Authorizer):
    def configure(self, settings):
        self.settings = settings
        if "our.color" not in settings:
            raise ValueError("our.color is missing")

    def allows(self, question):
        return question.resource_name.startswith(self.settings["our.color"])
"""


def test_it_is_loaded_with_the_settings_that_are_no_secrets(path: Path) -> None:
    (path / "ours_rules.py").write_text(RULES)
    more = {"our.color": "red", "ssl.key.password": "s3cret", "num.partitions": "3"}
    made = loaded(config("ours_rules:Rules", **more))
    assert made.settings["our.color"] == "red" and made.settings["num.partitions"] == "3"
    assert "s3cret" not in made.settings.values()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ours_missing:Rules", "No module named 'ours_missing'"),
        ("ours_rules:Other", "has no attribute 'Other'"),
        ("ours_rules:Rules", "our.color is missing"),
        ("ours_rules:__name__", "not callable"),
        ("ours_broken:Rules", "SyntaxError"),
        ("collections:OrderedDict", "it has no method allows"),
    ],
)
def test_what_cannot_be_loaded_stops_the_start_in_one_sentence(
    path: Path, name: str, reason: str
) -> None:
    (path / "ours_rules.py").write_text(RULES)
    (path / "ours_broken.py").write_text("def broken(:\n")
    with pytest.raises(ConfigError, match=reason) as refusal:
        loaded(config(name))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["kafka.other.Authorizer", "a:", ":b", "a:b c", "a;b:c"])
def test_what_is_no_path_is_refused_before_anything_is_loaded(name: str) -> None:
    with pytest.raises(ConfigError, match="written as module:Class"):
        config(name)


class Recording(Authorizer):
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: Any = True

    def allows(self, question: Question) -> bool:
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]

    def allows_somewhere(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        self.asked.append((principal, host, operation, resource_type))
        return self.allows(Question(principal, host, operation, resource_type, "", ""))


def asking(recording: Recording, super_users: frozenset[str] = frozenset()) -> OwnAuthorizer:
    return OwnAuthorizer(recording, "ours:Rules", super_users)


def caller() -> RequestContext:
    return RequestContext(PRODUCE, 7, "me", "PLAINTEXT", Principal("User", "alice"), "10.0.0.1")


def test_it_is_told_who_wants_to_do_what_to_which_thing() -> None:
    recording = Recording()
    assert asking(recording).allows(caller(), Operation.WRITE, topic("t"))
    (question,) = recording.asked
    assert question == Question(
        str(caller().principal),
        caller().client_host,
        Operation.WRITE,
        ResourceType.TOPIC,
        "t",
        "Produce",
    )


def test_its_decisions_stand_in_the_audit_log_with_its_name_as_the_rule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recording = Recording()
    authorizer = asking(recording)
    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
        authorizer.allows(caller(), Operation.WRITE, topic("t"), count=lambda: 3)
        recording.answer = False
        authorizer.allows(caller(), Operation.WRITE, topic("t"), is_logged=False)
        authorizer.allows(caller(), Operation.WRITE, topic("t"))
    allowed, denied = [
        record for record in caplog.records if record.name == "kafka.authorizer.logger"
    ]
    assert allowed.levelno == logging.DEBUG and denied.levelno == logging.INFO
    assert "is Allowed operation = WRITE" in allowed.getMessage()
    assert allowed.getMessage().endswith(
        "on resource = Topic:LITERAL:t for request = Produce with resourceRefCount = 3 "
        "based on rule ours:Rules"
    )
    assert "is Denied operation = WRITE" in denied.getMessage()


@pytest.mark.parametrize("answer", [RuntimeError("its database is away"), None, 1, "yes"])
def test_one_that_fails_denies_and_says_so(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    recording = Recording()
    recording.answer = answer
    authorizer = asking(recording)
    assert not authorizer.allows(caller(), Operation.WRITE, topic("t"))
    assert not authorizer.allows_somewhere(caller(), Operation.WRITE, ResourceType.TOPIC)
    assert "so it is denied" in caplog.text


def test_super_users_are_let_through_whatever_it_says() -> None:
    recording = Recording()
    recording.answer = RuntimeError("broken")
    authorizer = asking(recording, frozenset({str(caller().principal)}))
    assert authorizer.allows(caller(), Operation.CLUSTER_ACTION, topic("t"))
    assert authorizer.allows_somewhere(caller(), Operation.WRITE, ResourceType.TOPIC)
    assert recording.asked == []


def test_without_a_word_about_it_no_topic_is_found_for_idempotent_producers() -> None:
    class Silent(Authorizer):
        def allows(self, question: Question) -> bool:
            return True

    authorizer = OwnAuthorizer(Silent(), "ours:Silent", frozenset())
    assert not authorizer.allows_somewhere(caller(), Operation.WRITE, ResourceType.TOPIC)


def test_a_slow_answer_is_told(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, SLOW_SECONDS * 2])
    authorizer = OwnAuthorizer(Recording(), "ours:Rules", frozenset(), lambda: next(times))
    assert authorizer.allows(caller(), Operation.WRITE, topic("t"))
    assert "while nobody else was served" in caplog.text


def test_closing_one_that_fails_ends_well(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recording):
        def close(self) -> None:
            raise RuntimeError("stuck")

    OwnAuthorizer(Broken(), "ours:Broken", frozenset()).close()
    assert "has failed while it was closed" in caplog.text
