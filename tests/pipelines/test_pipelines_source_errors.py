"""What goes wrong reaches the user as one clear sentence, and soon."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines.session import SessionError, check_java
from moldau.testing.broker_process import free_port

NOTICE_SECONDS_MAX = 30
"""Far less than the minutes that clients wait by default, more than a busy machine needs."""


def fault_of(load: Callable[[], Any]) -> str:
    started = time.monotonic()
    with pytest.raises(Exception) as caught:
        load()
    assert time.monotonic() - started < NOTICE_SECONDS_MAX
    return str(caught.value)


def test_a_misspelt_option_is_told_when_the_frame_is_made(spark: Any, bootstrap: str) -> None:
    reader = spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap)
    fault = fault_of(reader.option("subscribe", "t").option("startingOffset", "earliest").load)
    assert "no option startingoffset; did you mean startingOffsets?" in fault


def test_a_missing_topic_is_told(spark: Any, bootstrap: str) -> None:
    reader = spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", "no-such-topic").load()
    fault = fault_of(frame.collect)
    assert f"There is no topic no-such-topic at {bootstrap}: create it, or correct subscr" in fault
    fault = fault_of(reader.option("assign", '{"no-such-topic":[3]}').load)
    assert "Exactly one of the options" in fault


def test_a_broker_that_cannot_be_reached_is_told(spark: Any, tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    options = {"kafka.bootstrap.servers": nobody, "subscribe": "t"}
    fault = fault_of(spark.read.format("moldau").options(**options).load().collect)
    assert f"No broker of {nobody} could be reached, check kafka.bootstrap.servers" in fault
    frame = spark.readStream.format("moldau").options(**options).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    fault = fault_of(lambda: writer.start().awaitTermination())
    assert f"No broker of {nobody} could be reached, check kafka.bootstrap.servers" in fault


def test_a_schema_of_the_users_own_is_refused(spark: Any, bootstrap: str) -> None:
    reader = spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap)
    fault = fault_of(reader.option("subscribe", "t").schema("value STRING").load().collect)
    assert "schema of its own, so .schema() cannot give it struct<value:string>" in fault


def test_no_java_or_an_old_one_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError, match=r"There is no Java on the PATH.*install Java 17 or new"):
        check_java()
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(SessionError, match="is Java 8, too old for Spark: install Java 17"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path / "nowhere"))
    with pytest.raises(SessionError, match=r"There is no Java at JAVA_HOME=.*nowhere"):
        check_java()
