"""What holds for every test."""

from __future__ import annotations

import signal

import pytest

# A shell that starts something in the background lets it ignore Ctrl-C, and that is inherited by
# every process started from there: tests that interrupt one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay in one worker, and so do all that use Spark: they share one session."""
    for item in items:
        uses_spark = item.path.parent.name == "pipelines" and "unit" not in item.path.parts
        item.add_marker(pytest.mark.xdist_group("spark" if uses_spark else item.path.name))
