"""Words for sizes and times, names in addresses, and data as JSON."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from moldau.console.rendering import (
    Rendering,
    assets_path,
    attachment,
    bytes_text,
    count_text,
    duration_text,
    json_response,
    path_word,
    time_text,
)
from moldau.console.vendored import VENDORED


class Pair(NamedTuple):
    name: str
    raw: bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (None, "–")],
)
def test_sizes_are_told_in_units_that_people_read(size: int | None, text: str) -> None:
    assert bytes_text(size) == text


def test_counts_times_and_durations_are_told_in_words() -> None:
    assert count_text(1234567) == "1\u202f234\u202f567"
    assert duration_text(0.25) == "250 ms"
    assert duration_text(7200) == "2 h"
    assert time_text(0) == "1970-01-01 00:00:00 UTC"
    assert time_text(-1) == "–"


@pytest.mark.parametrize(
    "name", ["orders", "a.json", "a/b", "50%", "..", ".", "ü ö", "a?b#c", "%2F", "json"]
)
def test_every_name_survives_the_way_through_an_address(name: str) -> None:
    word = path_word(name)
    served = unquote(word)
    assert "/" not in served
    assert not served.endswith(".json")
    assert served.strip(".")
    assert unquote(served) == name


def test_data_become_json_and_what_cannot_is_no_text_by_chance() -> None:
    body = json_response({"pair": Pair("x", b"\xff\x00"), "all": {("a", 1), ("b", 2)}}).body
    assert json.loads(bytes(body))["pair"] == {"name": "x", "raw": "/wA="}
    with pytest.raises(TypeError):
        json_response({"thing": object()})


def test_an_address_has_the_prefix_and_no_empty_words() -> None:
    rendering = Rendering("/kafka")
    assert rendering.url("/topics", find="", page=2) == "/kafka/topics?page=2"


@pytest.mark.parametrize(
    "name", ['a"; filename="b.exe', "a\r\nSet-Cookie: x=1", "../../x", "ö\u202e"]
)
def test_the_name_of_a_download_says_nothing_else(name: str) -> None:
    (header,) = attachment(name).values()
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._\-]+"', header)


def test_what_is_no_text_is_told_by_numbers() -> None:
    assert json.loads(bytes(json_response({"name": "a\udcff"}).body)) == {"name": "a\udcff"}


def test_vendored_files_are_those_of_the_table() -> None:
    folder = Path(assets_path()) / "vendored"
    found = {path.name for path in folder.iterdir() if not path.name.endswith(".LICENSE")}
    assert found == set(VENDORED)
    for name, row in VENDORED.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == row.sha256, name
        assert (folder / row.licence_file).is_file()
