"""The stand-in for kafka-python: the same script on both libraries gives the same output."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("kafka_python_script.py")
STAND_IN = "moldau.compat.kafka_python"


def run_script(module: str, bootstrap: str, name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), module, bootstrap, name],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.replace(name, "TOPIC"))
    return seen


def test_the_same_script_gives_the_same_on_kafka_python_and_on_the_stand_in(
    bootstrap: str, fresh_name: Callable[[str], str]
) -> None:
    theirs = run_script("kafka", bootstrap, fresh_name("theirs"))
    ours = run_script(STAND_IN, bootstrap, fresh_name("ours"))
    assert ours.keys() == theirs.keys()
    for what, seen in theirs.items():
        assert ours[what] == seen, what


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_method_of_kafka_python_that_is_there_takes_its_arguments() -> None:
    import inspect

    import kafka

    from moldau.compat import kafka_python

    for name in ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient"):
        theirs, ours = getattr(kafka, name), getattr(kafka_python, name)
        for method, function in inspect.getmembers(ours, inspect.isfunction):
            if method.startswith("_"):
                continue
            wanted = inspect.signature(getattr(theirs, method)).parameters
            given = inspect.signature(function).parameters
            assert list(given) == list(wanted), f"{name}.{method}"


def test_a_setting_without_use_is_told_of_and_passed_over(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    from moldau.compat.kafka_python import KafkaProducer

    with caplog.at_level(logging.WARNING, "moldau.compat"):
        KafkaProducer(bootstrap_servers=bootstrap, metrics_num_samples=3).close()
    assert "metrics_num_samples" in caplog.text
