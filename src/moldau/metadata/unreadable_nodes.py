"""Nodes that hold something else than they should: passed over, and named in the log.

Tools, people and other releases write into the tree as well. What one of them got wrong must not
stop whoever reads it: the node counts as unreadable, and everything else goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from moldau.model.log_line_limit import LogLimit

log = logging.getLogger("kafka.zk.KafkaZkClient")
log.addFilter(LogLimit())

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What decoding raises: JSON that is none, too deep, or of another form."""

T = TypeVar("T")


def readable(path: str, data: bytes, decode: Callable[[bytes], T]) -> T | None:
    """What the node holds, or None."""
    try:
        return decode(data)
    except UNREADABLE as fault:
        log.warning(
            "The node %s holds something that cannot be read and is passed over: %r", path, fault
        )
        return None
