"""Pipelines on Spark: read, transform, write exactly once.

    from moldau.pipelines import Kafka, session

pyspark is an extra (`pip install 'moldau[spark]'`), loaded when a session is made.
"""

from __future__ import annotations

# At once, for the function has the name of its module: the import that comes last would win.
from moldau.pipelines.session import register as register
from moldau.pipelines.session import session as session

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from moldau.pipelines.kafka import Kafka as Kafka

__all__ = ["Kafka", "register", "session"]


def __getattr__(name: str) -> Any:
    if name == "Kafka":
        from moldau.pipelines.kafka import Kafka

        globals()[name] = Kafka
        return Kafka
    raise AttributeError(f"module 'moldau.pipelines' has no attribute {name!r}")
