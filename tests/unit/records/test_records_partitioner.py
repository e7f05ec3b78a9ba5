from __future__ import annotations

from types import ModuleType

import pytest

from moldau.records import partitioner as installed
from tests.support.uncompiled import uncompiled

MODULES = [installed, uncompiled(installed)]


# From Java: Utils.murmur2("…".getBytes()).
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_keys_hash_as_in_java(module: ModuleType, key: bytes, java_hash: int) -> None:
    assert module.murmur2(key) == java_hash & 0xFFFFFFFF
    assert module.partition_for_key(key, 7) == (java_hash & 0x7FFFFFFF) % 7
