"""Bodies that wait in files between two stages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.sink.sink_rows import RowSettings
from moldau.pipelines.sink.sink_spool import SpoolFile, SpoolReader
from moldau.pipelines.sink.sink_tasks import WriterSettings, body_store


def test_what_is_put_is_read_back_from_its_place_in_any_order(tmp_path: Path) -> None:
    payloads = [b"first", b"", b"x" * 100_000]
    with closing(SpoolFile(str(tmp_path), "a")) as a, closing(SpoolFile(str(tmp_path), "b")) as b:
        places = [file.put(payload) for payload in payloads for file in (a, b)]
    with closing(SpoolReader()) as reader:
        read = [reader.get(place) for place in reversed(places)]
    assert read == [payload for payload in reversed(payloads) for _ in "ab"]


def test_a_file_that_was_cut_short_is_not_taken_for_a_shorter_body(tmp_path: Path) -> None:
    with closing(SpoolFile(str(tmp_path), "a")) as file:
        place = file.put(b"twelve bytes")
    Path(place.file).write_bytes(b"eleven byte")
    with closing(SpoolReader()) as reader, pytest.raises(SinkError, match="cut it short"):
        reader.get(place)


def test_two_attempts_of_a_task_never_share_a_file(tmp_path: Path) -> None:
    with closing(SpoolFile(str(tmp_path), "0-1")), pytest.raises(FileExistsError):
        SpoolFile(str(tmp_path), "0-1")


def test_without_a_common_folder_the_bytes_travel_with_the_row(tmp_path: Path) -> None:
    work = WriterSettings(RowSettings("t"), {})
    with body_store(work, "0-1") as store:
        assert store(b"body") == (b"body", None, None, None)
    with body_store(work._replace(spool=str(tmp_path)), "0-1") as store:
        assert store(b"body") == (None, str(tmp_path / "0-1"), 0, 4)
