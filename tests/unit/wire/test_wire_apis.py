from __future__ import annotations

import subprocess
import sys

from moldau.wire.apis import (
    APIS,
    OLD_VERSIONS,
    api,
    is_old,
    request_class,
    response_class,
)


def test_keys_are_unique_and_in_order() -> None:
    keys = [row.key for row in APIS]
    assert keys == sorted(set(keys))


def test_an_api_is_found_by_its_key() -> None:
    row = api(18)
    assert row is not None
    assert (row.name, row.version_max, row.is_flexible(2), row.is_flexible(3)) == (
        "ApiVersions",
        4,
        False,
        True,
    )
    assert api(93) is None


def test_messages_are_found_by_key_and_direction() -> None:
    assert request_class(0).__name__ == "ProduceRequest"
    assert response_class(0).__name__ == "ProduceResponse"


def test_starting_imports_no_family_and_nothing_heavy() -> None:
    # Start-up time is a feature: a family is loaded with the first request that needs it.
    program = (
        "import sys; before = set(sys.modules); import moldau.wire.request_framing; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert not [name for name in loaded if name.startswith("moldau.wire.messages.")]
    assert not {"dataclasses", "inspect", "json", "uuid", "asyncio"} & set(loaded)


def test_versions_that_kafka_calls_deprecated_are_old() -> None:
    assert is_old(0, 2) and not is_old(0, 3) and not is_old(3, 0)
    assert OLD_VERSIONS.keys() <= {row.key for row in APIS}
