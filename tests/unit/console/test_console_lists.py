"""Long tables in parts, answers that are kept, and the list of changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from moldau.admin import ConfigEntry, ConfigSource
from moldau.client.shared.client_errors import KafkaError
from moldau.console import audit_list
from moldau.console.audit_list import AuditList
from moldau.console.listing import Listing, list_rows
from moldau.console.page import Asked, PageFault
from moldau.console.recent_answers import ANSWERS_MAX, RecentAnswers
from moldau.console.views.configs import may_be_secret
from moldau.console.views.topics import settings_of


class Row(NamedTuple):
    name: str
    size: int | None


KEYS = {"name": lambda row: row.name, "size": lambda row: row.size}
ROWS = [Row("b", 3), Row("a", None), Row("c", 10), Row("d", 3)]


def asked(**query: str) -> Asked:
    nobody = cast("None", None)
    return Asked(nobody, nobody, nobody, nobody, {}, query, {})  # type: ignore[arg-type]


def listed(**query: str) -> tuple[Listing, str]:
    listing, rows = list_rows(asked(**query), "/rows", ROWS, KEYS)
    return listing, "".join(row.name for row in rows)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, "abcd"),
        ({"order": "desc"}, "dcba"),
        ({"sort": "size"}, "cbda"),
        ({"sort": "size", "order": "asc"}, "bdca"),
        ({"sort": "nonsense"}, "abcd"),
        ({"find": "C"}, "c"),
        ({"rows": "3"}, "abc"),
        ({"rows": "3", "page": "2"}, "d"),
        ({"rows": "3", "page": "99"}, "d"),
    ],
)
def test_a_list_is_found_sorted_and_cut(query: dict[str, str], names: str) -> None:
    assert listed(**query)[1] == names


def test_what_makes_no_sense_in_an_address_is_said() -> None:
    with pytest.raises(PageFault, match="'page' must be a whole number"):
        listed(page="x")


def test_settings_of_a_form_are_lines() -> None:
    assert settings_of("a=1\n\n b = x=y \n") == {"a": "1", "b": "x=y"}
    with pytest.raises(PageFault, match="Line 2"):
        settings_of("a=1\nb")


def test_an_answer_is_fetched_once_however_many_ask() -> None:
    async def story() -> None:
        answers, calls = RecentAnswers(), []
        may_go_on = asyncio.Event()

        async def fetch() -> int:
            calls.append(1)
            await may_go_on.wait()
            return len(calls)

        assert answers.peek("x", fetch) is None
        asking = [asyncio.create_task(answers.get("x", fetch)) for _ in range(5)]
        await asyncio.sleep(0)
        may_go_on.set()
        assert [told.value for told in await asyncio.gather(*asking)] == [1] * 5
        assert (await answers.get("x", fetch)).value == 1
        answers.forget()
        assert (await answers.get("x", fetch)).value == 2
        await answers.close()

    asyncio.run(story())


def test_an_old_answer_is_shown_while_a_new_one_is_fetched_and_stays_if_that_fails() -> None:
    async def story() -> None:
        answers = RecentAnswers()

        async def good() -> int:
            return 1

        async def bad() -> int:
            raise KafkaError("no broker answers")

        assert (await answers.get("x", good)).value == 1
        assert (await answers.get("x", bad, fresh_s=0)).value == 1
        for _ in range(3):
            await asyncio.sleep(0)
        told = await answers.get("x", bad, fresh_s=0)
        assert (told.value, told.when.fault) == (1, "no broker answers")
        with pytest.raises(KafkaError, match="no broker answers"):
            await answers.get("y", bad)
        await answers.close()

    asyncio.run(story())


def test_answers_are_bounded() -> None:
    async def story() -> None:
        answers = RecentAnswers()

        async def fetch() -> int:
            return 1

        for number in range(ANSWERS_MAX + 1):
            await answers.get(number, fetch, fresh_s=60)
        assert answers.peek(0, fetch, fresh_s=60) is None
        assert answers.peek(ANSWERS_MAX, fetch, fresh_s=60) is not None
        await answers.close()

    asyncio.run(story())


def test_changes_are_written_down_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditList(path)
    audit.load()
    asyncio.run(audit.write({"change": "Delete x", "outcome": "begun"}))
    asyncio.run(audit.write({"change": "Delete x", "outcome": "done"}))
    assert path.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["outcome"] for line in path.read_text().splitlines()] == [
        "begun",
        "done",
    ]
    with path.open("ab") as file:
        file.write(b'{"change": "cut of')
    again = AuditList(path)
    again.load()
    assert [row["outcome"] for row in again.youngest()] == ["done", "begun"]
    asyncio.run(again.write({"change": "Delete y", "outcome": "begun"}))
    third = AuditList(path)
    third.load()
    assert [row["change"] for row in third.youngest()] == ["Delete y", "Delete x", "Delete x"]


def test_full_lists_of_changes_make_room_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_list, "FILE_BYTES_MAX", 1)
    monkeypatch.setattr(audit_list, "FILES_MAX", 3)
    changes = AuditList(tmp_path / "audit.jsonl")

    async def fill() -> None:
        for number in range(5):
            await changes.write({"number": number})

    asyncio.run(fill())
    found = {
        path.name: json.loads(path.read_text())["number"] for path in sorted(tmp_path.iterdir())
    }
    assert found == {"audit.jsonl": 4, "audit.jsonl.1": 3, "audit.jsonl.2": 2}


@pytest.mark.parametrize(
    ("key", "is_known", "is_secret"),
    [
        ("retention.ms", True, False),
        ("ssl.keystore.password", True, True),
        ("listener.name.out.scram-sha-256.sasl.jaas.config", False, True),
        ("sasl.JAAS.config", True, True),
        ("unknown", False, True),
    ],
)
def test_what_may_hold_a_log_in_is_not_written_down(
    key: str, is_known: bool, is_secret: bool
) -> None:
    entry = ConfigEntry(key, "1", ConfigSource.DEFAULT_CONFIG, False, False, [])
    assert may_be_secret(key, entry if is_known else None) is is_secret
