"""What a state machine is given and what it returns: plain data, no I/O.

Pure. A machine reads its state in `decide` and changes it in `apply`, nowhere else. The engine runs
it: it makes the facts durable, applies them, and lets replies and sends leave once the journal has
committed everything they could depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, dataclass_transform

from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis

Token = int
NO_TOKEN: Token = 0
"""Nobody waits: the command came from a timer."""


R = TypeVar("R", covariant=True)


@dataclass_transform(frozen_default=True)
class Command(Generic[R]):
    """What a machine can be asked. Whoever submits a `Command[R]` gets an R, or an ApiError.

    Annotations are its fields, as in a dataclass; each dataclass would cost the start of a broker
    as much as some twenty such classes. Those that come with every request are dataclasses all the
    same: they are made faster."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    grows: ClassVar[bool] = False
    """Whether the state may take more memory by it: then the machine is told how much is left."""

    def __init_subclass__(cls) -> None:
        cls.__match_args__ = tuple(cls.__annotations__)  # type: ignore[misc]

    def __init__(self, *given: Any, **named: Any) -> None:
        names = self.__match_args__
        fields = dict(zip(names, given, strict=False)) | named
        missing = [name for name in names if name not in fields and not hasattr(self, name)]
        if missing or len(given) > len(names) or not fields.keys() <= set(names):
            raise TypeError(f"{type(self).__name__} has {names}, not {given} {named}")
        self.__dict__.update(fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"


class Volatile(NamedTuple):
    """A fact that is applied but not journalled: true until the next restart, like a member that
    waits in a join."""

    fact: object
    is_observed: bool = True
    """Whether those who are told of committed facts hear of this one. One that comes often and of
    which only the last counts is not kept for them."""


class Reply(NamedTuple):
    """The answer to one token: any value, or an ApiError that is raised where the token waits."""

    token: Token
    outcome: object


class Send(NamedTuple):
    """A message to another broker or component, which leaves when the facts are committed."""

    destination: Hashable
    message: object


class Timer(NamedTuple):
    """Run the command at that time of the monotonic clock; a timer with the same key is replaced,
    and one with no time is cancelled."""

    key: Hashable
    at: Millis | None
    command: object = None


class Decision(NamedTuple):
    """What should happen, in the order of the fields. A decision may answer any tokens: those of
    commands that still wait from earlier too. If the journal takes none of the facts, nothing of it
    happens, and the token is told; a decision on which others wait names with `instead` the
    command for that case, which must not need the journal."""

    facts: tuple[object, ...] = ()
    timers: tuple[Timer, ...] = ()
    replies: tuple[Reply, ...] = ()
    sends: tuple[Send, ...] = ()
    instead: Callable[[ApiError], object] | None = None

    @classmethod
    def reply(cls, token: Token, outcome: object) -> Decision:
        return cls(replies=(Reply(token, outcome),))

    @classmethod
    def refuse(cls, token: Token, error: Error, message: str = "") -> Decision:
        return cls(replies=(Reply(token, ApiError(error, message)),))


NOTHING = Decision()


class Machine(Protocol):
    def decide(self, command: object, token: Token, now: Now) -> Decision:
        """Reads the state, changes nothing."""

    def apply(self, fact: object) -> None:
        """The only place where the state changes; also used to replay a journal."""


class JournalFault(Exception):
    """The journal cannot take or keep facts. `error` is what those who wait are told."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class JournalListener(Protocol):
    def committed(self, position: int) -> None:
        """Everything up to and including the position is safe."""

    def failed(self, fault: JournalFault) -> None:
        """What is not committed yet may be lost; nothing more will be committed."""


class Journal(Protocol):
    """Positions grow. A journal tells its one listener how far it has committed, in order."""

    def listen(self, listener: JournalListener) -> None: ...

    def append(self, facts: Sequence[object]) -> int:
        """The position of the last fact; all of them are kept or none. Raises JournalFault when
        nothing was appended. May report the commit before it returns."""
