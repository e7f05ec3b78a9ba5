"""What the console reads on its machine: log files, checkpoints, metrics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.console.machine import log_files
from moldau.console.machine.broker_metrics import TIMES, address_fault, samples
from moldau.console.machine.checkpoints import checkpoint_names, parse_offsets, read_checkpoint
from moldau.console.machine.log_files import UnknownFileError, read_part


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "PART_BYTES", 1_000)
    monkeypatch.setattr(log_files, "ENTRIES_MAX", 7)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("find", ["", "entry 3", "Traceback"])
def test_parts_lead_back_over_every_entry_once(tmp_path: Path, find: str) -> None:
    texts = [
        f"[2026-11-19 07:{number // 60:02}:{number % 60:02},000] INFO entry {number} (a.b)"
        + ("\nTraceback\n  line of it" if number % 3 == 0 else "")
        for number in range(200)
    ]
    (tmp_path / "server.log").write_text("\n".join(texts) + "\n")
    seen: list[str] = []
    before: int | None = None
    while before is None or before > 0:
        part = read_part(str(tmp_path), "server.log", before=before, words=find)
        assert part.looked_bytes <= 1_000 and part.start < part.end
        seen = [each.text for each in part.entries] + seen
        before = part.start
    assert seen == [text for text in texts if find in text]


@pytest.mark.usefixtures("small_parts")
def test_one_entry_that_is_larger_than_a_part_is_passed(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("x" * 5_000)
    before: int | None = None
    for _ in range(10):
        part = read_part(str(tmp_path), "server.log", before=before)
        before = part.start
        if not before:
            return
    pytest.fail("the first byte was never reached")


@pytest.mark.parametrize("name", ["../server.log", "server.log/", "", ".", "server", "a\nb.log"])
def test_only_names_of_log_files_are_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "server.log").write_text("")
    with pytest.raises(UnknownFileError):
        read_part(str(tmp_path), name, before=None)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(UnknownFileError):
        read_part(str(tmp_path), "pipe.log", before=None)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("[2026-11-19 07:27:48,123] WARN text (a)", "WARN"),
        ('{"time": "2026-11-19T07:27:48.123Z", "level": "ERROR", "message": "x"}', "ERROR"),
        ("[2026-11-19 07:27:48,123] the word ERROR alone", ""),
    ],
)
def test_levels_are_read_in_both_layouts(tmp_path: Path, line: str, level: str) -> None:
    (tmp_path / "server.log").write_text(line + "\n")
    part = read_part(str(tmp_path), "server.log", before=None)
    assert [each.level for each in part.entries] == [level]


def test_offsets_of_topics_are_read_whatever_stands_beside_them() -> None:
    about = '{"batchWatermarkMs":1000,"batchTimestampMs":5,"conf":{}}'
    ours = '{"orders":{"0":23,"1":-2},"orders#S1mxtwKfQ6GVxTIXGTLNJg":{}}'
    rate = '{"version":1,"seconds":12}'
    text = "\n".join(("v1", about, ours, rate, "-", '{"paid":{"0":7}}'))
    assert parse_offsets(text) == (
        {("orders", 0): 23, ("orders", 1): -2, ("paid", 0): 7},
        1000,
    )


@pytest.mark.parametrize("text", ["", "v1", "no version\n{}", "v1\nnot json"])
def test_a_file_that_is_none_of_offsets_is_said(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "broken"
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"1"}')
    (folder / "offsets" / "0").write_text(text)
    assert checkpoint_names(str(tmp_path)) == ["broken"]
    assert read_checkpoint(str(tmp_path), "broken").fault.startswith("it cannot be read: ")


def test_links_are_not_followed_to_other_checkpoints(tmp_path: Path) -> None:
    other = tmp_path / "other" / "secret"
    (other / "offsets").mkdir(parents=True)
    (other / "metadata").write_text("{}")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "link").symlink_to(other)
    assert checkpoint_names(str(mine)) == []


def test_series_are_read_with_their_labels() -> None:
    text = (
        "# HELP x y\n"
        f'{TIMES}{{request="Produce",quantile="0.99"}} 1.5\n'
        f'{TIMES}{{request="a\\"b\\\\c\\n",quantile="0.99"}} NaN\n'
        f"{TIMES} not-a-number\n{TIMES}\nsomething_else 1\n"
    )
    first, second = samples(text)
    assert (first.labels, first.value) == ({"request": "Produce", "quantile": "0.99"}, 1.5)
    assert second.labels["request"] == 'a"b\\c\n'


@pytest.mark.parametrize(
    "address",
    ["ftp://x", "file:///etc/passwd", "http://", "127.0.0.1:9404", "http://a:99999", "http://a?b"],
)
def test_what_cannot_tell_metrics_is_refused_at_the_start(address: str) -> None:
    assert address_fault(address) == f"--metrics {address} must look like http://127.0.0.1:9404."
