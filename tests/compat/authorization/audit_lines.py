"""What a broker's audit log says of one request: the lines, whoever wrote them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from moldau.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.support.hostile_costs import Client

LOGGER = "kafka.authorizer.logger"
BROKER_LOGGER = 8
SET = 0
_LINE = re.compile(
    r"\b(?P<level>INFO|DEBUG)\b.*?(?P<said>Principal = (?P<principal>\S+) is .*?)"
    r" \(kafka\.authorizer\.logger\)"
)
_TOKEN = re.compile(r"(?<=DelegationToken:LITERAL:)\S+")


class AuditLog:
    """Follows the log of a broker; knows what each principal's lines are since it was asked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def lines(self, principal: str) -> Counter[str]:
        """New ones."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        found = (_LINE.search(line) for line in whole.decode(errors="replace").splitlines())
        return Counter(
            f"{each['level']} {_TOKEN.sub('T', each['said'])}"
            for each in found
            if each is not None and each["principal"] == principal
        )


def tell_grants(client: Client, node_id: int) -> None:
    """At DEBUG the log names what was allowed too."""
    row = IncrementalAlterableConfig(name=LOGGER, config_operation=SET, value="DEBUG")
    resource = IncrementalAlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=str(node_id), configs=[row]
    )
    done: Any = client.ask(44, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert not any(each.error_code for each in done.responses), done


NAMELESS = "Topic:LITERAL: for"
"""Apache Kafka looks for entries about the empty name where nobody knows the id of a topic."""
ASKED_TWICE = "for request = CreateDelegationToken"
"""By Apache Kafka's broker, and once more by its controller."""


def differences(ours: Counter[str], theirs: Counter[str]) -> list[str]:
    theirs = Counter(
        {
            line: min(count, 1) if ASKED_TWICE in line else count
            for line, count in theirs.items()
            if NAMELESS not in line
        }
    )
    return [
        *(f"audit, only Apache Kafka: {line}" for line in sorted((theirs - ours).elements())),
        *(f"audit, only Moldau: {line}" for line in sorted((ours - theirs).elements())),
    ]
