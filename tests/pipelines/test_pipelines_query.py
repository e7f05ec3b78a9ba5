"""Interactive queries: state as a DataFrame, and a compacted topic in memory, over HTTP too."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.pipeline import run
from moldau.console.machine.checkpoints import checkpoint_names, read_checkpoint, state_sizes
from moldau.pipelines import Kafka
from moldau.pipelines.formats.column_codecs import string
from moldau.pipelines.query import operators, state_of
from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.tables.live_view import LiveView, ViewError
from tests.support.eventually import eventually
from tests.support.pipeline_world import make_topic, send

Name = Callable[[str], str]


def ask(address: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as fault:
        with fault:
            return fault.code, json.load(fault)


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def test_a_view_follows_its_topic_and_answers_over_http(bootstrap: str, fresh_name: Name) -> None:
    topic = make_topic(bootstrap, fresh_name("counts"), 2, cleanup_policy="compact")
    send(bootstrap, topic, [("a", long(1)), ("b/c", long(2)), ("a", long(3)), ("d", long(4))])
    with LiveView(bootstrap, topic, value="long") as view:
        assert view.wait_until_current(30)
        assert view.items() == [("a", 3), ("b/c", 2), ("d", 4)]
        address = view.serve()
        assert ask(f"{address}/keys/a")[1]["value"] == 3
        assert ask(f"{address}/keys/b%2Fc")[1]["value"] == 2
        assert ask(f"{address}/keys/nobody")[0] == 404
        assert ask(f"{address}/keys?prefix=b&limit=1")[1]["rows"] == [{"key": "b/c", "value": 2}]
        assert ask(f"{address}/keys?limit=many")[0] == 400
        assert ask(f"{address}/else")[0] == 404
        send(bootstrap, topic, [("a", None), ("d", long(5))])
        eventually(lambda: view.get("d") == 5 and view.get("a") is None)
        assert ask(f"{address}/")[1]["keys"] == 2


def test_a_view_that_cannot_go_on_says_why(bootstrap: str, fresh_name: Name) -> None:
    topic = make_topic(bootstrap, fresh_name("big"))
    send(bootstrap, topic, [("a", "1"), ("b", "2")])
    with LiveView(bootstrap, topic, keys_max=1) as view:
        with pytest.raises(ViewError, match="more than 1 keys"):
            view.wait_until_current(30)
        assert ask(f"{view.serve()}/keys/a")[0] == 503
    with pytest.raises(ViewError, match="cannot read 'xml'"):
        LiveView(bootstrap, topic, value="xml")


def test_the_command_looks_keys_up(
    bootstrap: str, fresh_name: Name, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic(bootstrap, fresh_name("counts"))
    send(bootstrap, topic, [("kafka", long(7))])
    words = ["query", "--bootstrap-server", bootstrap, "--topic", topic, "--value-format", "long"]
    assert run([*words, "--key", "kafka", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"key": "kafka", "value": 7}]
    assert run([*words, "--key", "nobody"]) != 0
    assert "There is no key nobody" in capsys.readouterr().err


def test_the_command_serves_a_topic_until_it_is_interrupted(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("counts"))
    send(bootstrap, topic, [("kafka", long(7))])
    words = ["--bootstrap-server", bootstrap, "--topic", topic, "--value-format", "long"]
    with subprocess.Popen(
        [sys.executable, "-m", "moldau.main", "pipeline", "query", *words, "--serve", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as served:
        try:
            assert served.stdout is not None
            told = served.stdout.readline()
            assert told.startswith(f"1 keys of {topic} at http://127.0.0.1:")
            address = told.split(" at ")[1].split("/keys")[0]
            assert ask(f"{address}/keys/kafka")[1]["value"] == 7
            served.send_signal(signal.SIGINT)
            _, complaint = served.communicate(timeout=30)
            assert "Traceback" not in complaint
        finally:
            served.kill()


def test_state_is_a_frame_that_outlives_the_query(
    spark: Any,
    bootstrap: str,
    fresh_name: Name,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    k = Kafka(spark, bootstrap)
    source, target = (make_topic(bootstrap, fresh_name(stem)) for stem in ("in", "out"))
    send(bootstrap, source, [(None, word) for word in ("a", "b", "a")])
    words = k.stream(source, startingOffsets="earliest")
    counts = words.groupBy(string("value").alias("word")).count()
    checkpoint = str(tmp_path / "checkpoint")
    query = k.to(
        counts,
        target,
        key="word",
        value="count",
        app=fresh_name("app"),
        checkpoint=checkpoint,
        trigger="available_now",
    )
    assert query.awaitTermination(120)
    rows = {tuple(row) for row in state_of(spark, checkpoint).collect()}
    assert rows == {("a", 2), ("b", 1)}
    assert operators(spark, checkpoint).count() == 1
    # The page of the console reads the same files, without Spark.
    assert checkpoint_names(str(tmp_path)) == ["checkpoint"]
    last = read_checkpoint(str(tmp_path), "checkpoint").last_done
    assert last is not None and last.offsets == {(source, 0): 3} and last.seconds is not None
    (size,) = state_sizes(str(tmp_path), "checkpoint")
    assert size.partitions > 0 and size.size_bytes > 0
    with pytest.raises(SinkError, match="no checkpoint at /nowhere"):
        state_of(spark, "/nowhere")
    capsys.readouterr()
    try:
        assert run(["query", "--checkpoint", checkpoint, "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert sorted(tuple(row.values()) for row in shown) == [("a", 2), ("b", 1)]
        assert run(["query", "--checkpoint", "/nowhere"]) != 0
        assert "There is no checkpoint at /nowhere" in capsys.readouterr().err
    finally:
        # The command has set the session that it found to its own ways.
        spark.conf.set("spark.sql.shuffle.partitions", 2)
