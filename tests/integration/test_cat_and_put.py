"""`moldau put` and `moldau cat` against a broker: what goes in comes out, from where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.main import main
from moldau.testing import LocalBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("data"), in_process=True) as broker:
        broker.create_topic("orders", 2)
        producer = broker.producer()
        for number in range(3):
            producer.send("orders", b"v%d" % number, key=b"k%d" % number, partition=0).result(30)
        producer.send("orders", None, key=b"gone", partition=1).result(30)
        yield broker


def cat(broker: LocalBroker, capfdbinary: pytest.CaptureFixture[bytes], line: str) -> bytes:
    code = main(["cat", "-b", broker.bootstrap, *line.split()])
    said = capfdbinary.readouterr()
    assert code == 0, said
    return said.out


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        (r"-t orders -p 0 -e -f %k=%v\n", b"k0=v0\nk1=v1\nk2=v2\n"),
        ("-t orders -p 0 -o -1 -e", b"v2\n"),
        ("-torders -p0 -o1 -c1", b"v1\n"),
        ("-t orders -p 0 -o end -e", b""),
        ("-t orders -p 1 -e -Z NULL -K :", b"gone:NULL\n"),
        ("-t orders -p 0 -o s@1 -c 1 -D ;", b"v0;"),
    ],
)
def test_records_are_printed_as_asked(
    broker: LocalBroker, capfdbinary: pytest.CaptureFixture[bytes], line: str, printed: bytes
) -> None:
    assert cat(broker, capfdbinary, line) == printed


def test_a_group_goes_on_where_it_stood(
    broker: LocalBroker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    broker.create_topic("shared", 1)
    for word in (b"a", b"b", b"c"):
        broker.producer().send("shared", word).result(30)
    assert cat(broker, capfdbinary, "-t shared -G readers -c 2") == b"a\nb\n"
    assert cat(broker, capfdbinary, "-t shared -G readers -c 1") == b"c\n"


def test_lines_files_keys_and_headers_are_put(
    broker: LocalBroker,
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "lines").write_text("a:1\nb:2\n:\n")
    (tmp_path / "whole").write_text("x\ny\n")
    put = ["put", "-b", broker.bootstrap, "-t", "put"]
    with (tmp_path / "lines").open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        assert main([*put, "-K:", "-H", "from=test", "-Z"]) == 0
    assert main([*put, "-k", "file", str(tmp_path / "whole"), "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["sent"] == 1
    assert main([*put, "-l", str(tmp_path / "whole")]) == 0
    shown = cat(broker, capfdbinary, "-t put -e --json").splitlines()
    rows = [json.loads(line) for line in shown]
    found = [(row["key"], row["value"]) for row in sorted(rows, key=lambda row: row["offset"])]
    expected = [("a", "1"), ("b", "2"), (None, None), ("file", "x\ny\n"), (None, "x"), (None, "y")]
    assert found == expected
    assert rows[0]["headers"] == [["from", "test"]]


def test_mistakes_are_one_sentence(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    at = ["-b", broker.bootstrap]
    for words, sentence in (
        (["cat", *at, "-t", "orders", "-p", "9", "-e"], "orders has no partition 9: it has 2"),
        (["cat", *at, "-t", "orders", "-o", "soon"], "--offset must be beginning, end"),
        (["cat", *at, "-t", "orders", "-G", "g", "-o", "1"], "--group decides what is read"),
        (["cat", *at, "-t", "orders", "-f", "%x"], "%x is not known"),
        (["put", *at, "-t", "orders", str(tmp_path / "no")], "cannot be read: No such file"),
    ):
        assert main(words) == 1
        assert sentence in capsys.readouterr().err
