"""Says at the end of a run how much of the protocol was compared with the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

COMPARED = pytest.StashKey[str]()


@pytest.fixture
def record_compared(request: pytest.FixtureRequest) -> Callable[[int, int], None]:
    def record(pairs: int, instances: int) -> None:
        request.config.stash[COMPARED] = (
            f"protocol: {pairs} (message, version) pairs agree with the oracle, "
            f"{instances} random instances, both directions"
        )

    return record


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if COMPARED in config.stash:
        terminalreporter.write_line(config.stash[COMPARED])
