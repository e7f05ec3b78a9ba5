"""What to do next to bring back the state of one partition, and to keep it so. Pure.

First the rival is fenced, then the last increment is read: the other way round, the rival could
write between the two, and its records would be done twice. Then a full snapshot, the records after
it up to the increment's end without their outputs, and from there on everything is new. Whoever
does the work asks here before and tells after each step; MOVES is the whole order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from moldau.recovery.application import FullSnapshots
from moldau.recovery.recovery_errors import RecoveryError
from moldau.recovery.snapshot_records import FULLS_KEPT, Increment


class Phase(Enum):
    NEW = auto()
    FENCED = auto()
    LOADING = auto()
    READING = auto()
    """Records up to the end rebuild the state, those behind it are new."""


MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.NEW: frozenset({Phase.FENCED}),
    Phase.FENCED: frozenset({Phase.LOADING, Phase.READING}),
    Phase.LOADING: frozenset({Phase.LOADING, Phase.READING}),
    Phase.READING: frozenset(),
}


@dataclass(frozen=True, slots=True)
class LoadFull:
    """Read the full snapshot at this offset, then tell `loaded` or `not_loaded`."""

    position: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Read the input from here on. Without a full snapshot the state is the initial one."""

    offset: int


class Kind(Enum):
    """What a record of the input is."""

    DONE = auto()
    """Its effect is in the state already: pass over it."""
    REPLAY = auto()
    """It was done by a predecessor: only its effect on the state is wanted."""
    NEW = auto()


class RecoveryMachine:
    """One partition in the hands of one worker; a new worker begins with a new one."""

    def __init__(self, policy: FullSnapshots, name: str, now: float) -> None:
        """`name` is the partition's, for messages; `now` is in seconds, here and below."""
        self._policy = policy
        self._name = name
        self.phase = Phase.NEW
        self.increment = Increment(-1)
        """What the last committed transaction said; an end of -1 before there was any."""
        self._at = -1
        """The state has the effect of all records up to this offset."""
        self._left: list[int] = []
        self._input_start = 0
        self._stored: int | None = None
        self._full_at = -1
        self._full_time = now
        self._is_commanded = False

    def _move(self, phase: Phase) -> None:
        if phase not in MOVES[self.phase]:
            raise RuntimeError(
                f"{self._name}: {phase.name} may not follow {self.phase.name}; first fence, then"
                " restore"
            )
        self.phase = phase

    # From nothing to the state.

    def fenced(self) -> None:
        """Nobody else can commit for this partition any more."""
        self._move(Phase.FENCED)

    def found(
        self, increment: Increment | None, committed: int | None, input_start: int
    ) -> LoadFull | Begin:
        """The last increment, the group's offset and the first offset that the input still has.

        Both say how far everything is done, being of one transaction; if one is missing, because
        its topic was cut or the group's offset expired, the other one is enough."""
        self._input_start = input_start
        known = increment or Increment(-1, origin=0 if committed else input_start)
        self.increment = Increment(
            max(known.end, (committed or 0) - 1), known.fulls, known.origin, known.number
        )
        self._left = list(known.fulls)
        return self._next()

    def loaded(self, start: int) -> Begin | LoadFull:
        """The full snapshot is whole and of the state after the input offset `start`."""
        reached = start >= self.increment.end or self._input_start <= start + 1
        if start > self.increment.end or not reached:
            return self.not_loaded()
        self._full_at = self._at = start
        self._move(Phase.READING)
        return Begin(start + 1)

    def not_loaded(self) -> Begin | LoadFull:
        """It is not there, torn, or not to be used: an earlier one, or the beginning."""
        self._left.pop(0)
        return self._next()

    def _next(self) -> LoadFull | Begin:
        if self._left:
            self._move(Phase.LOADING)
            return LoadFull(self._left[0])
        now = self.increment
        if now.end >= now.origin and self._input_start > now.origin:
            raise RecoveryError(
                f"{self._name}: the state after offset {now.end} cannot be rebuilt: no full"
                f" snapshot of {list(now.fulls)} can be used, and the input begins at offset"
                f" {self._input_start} instead of {now.origin}"
            )
        self._full_at = self._at = now.origin - 1
        self._move(Phase.READING)
        return Begin(now.origin)

    # Records.

    @property
    def end(self) -> int:
        """Up to here everything is done; what is behind it is new."""
        return self.increment.end

    def kind(self, offset: int) -> Kind:
        if self.phase is not Phase.READING:
            raise RuntimeError(f"{self._name}: a record at {offset} before the state was loaded")
        if offset <= self._at:
            return Kind.DONE
        return Kind.REPLAY if offset <= self.increment.end else Kind.NEW

    def applied(self, offset: int) -> None:
        """The state has the effect of this record."""
        self._at = offset

    def next_increment(self) -> Increment:
        """The increment of the transaction that does all records up to the last applied one."""
        now = self.increment
        end = max(self._at, now.end)
        if self._stored is None:
            return Increment(end, now.fulls, now.origin, now.number)
        fulls = (self._stored, *now.fulls)[:FULLS_KEPT]
        return Increment(end, fulls, now.origin, now.number + 1)

    def committed(self, increment: Increment) -> None:
        self.increment = increment
        self._stored = None

    # Full snapshots.

    def command(self) -> None:
        """A record asked for a full snapshot: take one after its transaction."""
        self._is_commanded = True

    def full_due(self, now: float, *, is_stopping: bool = False) -> bool:
        """Whether to take a full snapshot of what is committed."""
        is_committed = self.phase is Phase.READING and self._at == self.increment.end
        if not is_committed or self._at == self._full_at:
            return False
        if is_stopping or self._is_commanded:
            return True
        is_long_ago = now - self._full_time >= self._policy.seconds
        return self._at - self._full_at >= self._policy.records or is_long_ago

    def full_begun(self, now: float) -> int:
        """The offset to store with the state."""
        self._full_at = self._at
        self._full_time = now
        self._is_commanded = False
        return self._at

    def full_stored(self, position: int) -> None:
        """All of it is acknowledged; the next increment tells where."""
        self._stored = position

    @property
    def has_news(self) -> bool:
        """Whether a full snapshot is stored that no increment tells of yet."""
        return self._stored is not None
