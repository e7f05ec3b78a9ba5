"""What both faces of the producer have in common: who it is on the broker, and its counters.

Nothing here waits, so `asyncio_producer.py` and `blocking_producer.py` inherit it as it stands.
"""

from __future__ import annotations

from typing import Generic

from moldau.client.producer.producer_core import ProducerCore
from moldau.client.producer.producer_session import ProducerSession
from moldau.client.producer.record_append import F
from moldau.model.names import TopicPartition


class ProducerBase(Generic[F]):
    _core: ProducerCore[F]

    def session(self) -> ProducerSession:
        """Who this producer is now, for `attach` and `adopt` in other processes. Flush first."""
        return self._core.session()

    def adopt(self, session: ProducerSession) -> None:
        """Go on where another process stopped that writes with this producer's id and epoch."""
        self._core.adopt(session)

    @property
    def producer_id(self) -> int:
        """-1 until the first record is sent or `init_transactions` is done."""
        return self._core.producer_id

    @property
    def producer_epoch(self) -> int:
        """Goes up by one with every new life of the producer id; -1 until there is one."""
        return self._core.producer_epoch

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The next sequence of every partition written to in this epoch."""
        return self._core.sequences

    def metrics(self) -> dict[str, int]:
        """Counters under Kafka's names."""
        return self._core.metrics()
