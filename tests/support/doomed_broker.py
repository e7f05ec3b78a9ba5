"""A broker that kills itself between two steps of the end of a transaction.

Run as a module instead of `moldau.main`. From the moment a transaction is to be decided, it counts
what coordinators write (the decision, every marker, the completion), and ends by SIGKILL right
before the write whose number MOLDAU_DOOM holds, counted from 0.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.coordinators.log_journal import LogJournal
from moldau.main import main
from moldau.replication.replica import Replica
from moldau.transactions.transaction_facts import TransactionMoved
from moldau.transactions.transaction_states import PREPARED

DOOM = "MOLDAU_DOOM"
ROOT = str(Path(__file__).parents[2])


class _Doom:
    def __init__(self, write_number: int) -> None:
        self.is_near = False
        self.writes_left = write_number

    def expect(self, facts: Sequence[object]) -> None:
        for fact in facts:
            if isinstance(fact, TransactionMoved) and fact.after.state in PREPARED:
                self.is_near = True

    def strike(self) -> None:
        if not self.is_near:
            return
        if self.writes_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.writes_left -= 1


def tamper(doom: _Doom) -> None:
    append_facts, append_batch = LogJournal.append, Replica.append_as_coordinator

    def journal(self: LogJournal, facts: Sequence[object]) -> int:
        doom.expect(facts)
        return append_facts(self, facts)

    def write(self: Replica, *arguments: Any, **named: Any) -> Any:
        doom.strike()
        return append_batch(self, *arguments, **named)

    LogJournal.append = journal  # type: ignore[method-assign]
    Replica.append_as_coordinator = write  # type: ignore[method-assign]


if __name__ == "__main__":
    tamper(_Doom(int(os.environ[DOOM])))
    sys.exit(main())
