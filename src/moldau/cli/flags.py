"""How a command declares its flags, and how a command line is read by them.

One row per flag: its names, what it takes, what it is for. Reading follows the tools that people
know: `--flag value`, `--flag=value`, an unambiguous beginning of a name, and one dash instead of
two (`-describe`). What cannot be read is refused with the nearest name that exists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from moldau.cli.command_faults import UsageFault

NEEDS_VALUE = object()


class Flag(NamedTuple):
    names: str
    """Separated by blanks; under the first, without its dashes, the value is found."""
    help: str = ""
    takes: str = ""
    """What the value is called in --help; a flag without it is a switch."""
    kind: Callable[[str], Any] = str
    default: Any = None
    repeats: bool = False
    many: bool = False
    """Takes all words up to the next flag."""
    bare: Any = NEEDS_VALUE
    """The value of a flag that may stand without one."""
    required: bool = False
    one_of: tuple[str, ...] = ()
    hidden: bool = False
    """Still taken, no longer advertised."""
    no_effect: str = ""
    """Why the flag changes nothing here; said when it is given."""

    @property
    def key(self) -> str:
        return self.names.split()[0].lstrip("-")


class Given:
    """What a command line says, by the flags' first names."""

    __slots__ = ("_asked", "_defaults", "_values", "command", "raw", "words")

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._values: dict[str, Any] = {}
        self._defaults = {flag.key: flag.default for flag in flags}
        self._asked: set[str] = set()
        self.words: list[str] = []
        """Those that are neither flags nor their values."""
        self.raw: Sequence[str] = ()
        """Everything, as it was typed."""
        self.command = ""
        """The sub-command, of tools that have some."""

    @property
    def flags(self) -> Collection[str]:
        """What could have been given."""
        return self._defaults.keys()

    def has(self, key: str) -> bool:
        """Whether the flag was given; a default does not count."""
        self._asked.add(key)
        return key in self._values

    def value(self, key: str) -> Any:
        self._asked.add(key)
        return self._values.get(key, self._defaults[key])

    def text(self, key: str) -> str:
        value = self.value(key)
        assert isinstance(value, str), f"--{key} has no value"
        return value

    def maybe_text(self, key: str) -> str | None:
        value: str | None = self.value(key)
        return value

    def number(self, key: str) -> int:
        value = self.value(key)
        assert isinstance(value, int), f"--{key} has no value"
        return value

    def maybe_number(self, key: str) -> int | None:
        value: int | None = self.value(key)
        return value

    def texts(self, key: str) -> list[str]:
        return list(self.value(key) or ())

    def put(self, flag: Flag, value: Any) -> None:
        if flag.repeats:
            self._values.setdefault(flag.key, []).append(value)
        elif flag.many:
            self._values.setdefault(flag.key, []).extend(value)
        else:
            self._values[flag.key] = value

    def given_keys(self) -> list[str]:
        return list(self._values)

    def unused_keys(self) -> list[str]:
        """What was given and the command has never asked for."""
        return [key for key in self._values if key not in self._asked]


def integer(text: str) -> int:
    value = int(text)
    if not -(2**31) <= value < 2**31:
        raise ValueError(text)
    return value


def long(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return value


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


KIND_WORDS = {
    integer: "a whole number",
    long: "a whole number",
    float: "a number",
    truth: "true or false",
}


def parse(flags: Sequence[Flag], words: Sequence[str], *, words_max: int = 0) -> Given:
    """UsageFault if the words are not in the language of the flags."""
    named = {name: flag for flag in flags for name in flag.names.split()}
    given = Given(flags)
    given.raw = words
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            given.words += rest
            break
        if not word.startswith("-") or word == "-" or _is_number(word):
            given.words.append(word)
            continue
        name, equals, text = word.partition("=")
        flag = find(named, name)
        if not flag.takes:
            if equals:
                raise UsageFault(f"{name} takes no value.")
            given.put(flag, True)
        elif flag.many:
            values = [text] if equals else []
            while rest and not rest[0].startswith("--"):
                values.append(rest.pop(0))
            if not values:
                raise UsageFault(f"Option {name} requires an argument.")
            given.put(flag, values)
        else:
            given.put(flag, _value(flag, name, text if equals else None, rest, named))
    if len(given.words) > words_max:
        extra = given.words[words_max]
        raise UsageFault(f"{extra!r} is not a flag, and no flag before it takes a value.")
    return given


def check_required(flags: Iterable[Flag], given: Given) -> None:
    for flag in flags:
        if flag.required and not given.has(flag.key):
            raise UsageFault(f'Missing required argument "[{flag.key}]"')


def find(named: dict[str, Flag], name: str) -> Flag:
    flag = named.get(name)
    if flag is None and name.startswith("-") and not name.startswith("--"):
        flag = named.get("-" + name)
    if flag is not None:
        return flag
    begun = {named[known].key: known for known in named if known.startswith(name)}
    if name.startswith("--") and len(name) > 2 and len(begun) == 1:
        return named[next(iter(begun.values()))]
    raise UsageFault(f"{name} is not a recognized option{nearest(name, named)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: a suggestion, or a full stop."""
    from difflib import get_close_matches

    shown = [each for each in known if each.startswith("--")]
    close = get_close_matches("--" + name.lstrip("-"), shown, n=1)
    return f"; did you mean {close[0]}?" if close else "."


def _value(flag: Flag, name: str, text: str | None, rest: list[str], named: dict[str, Flag]) -> Any:
    if text is None:
        follows = bool(rest) and not _looks_like_a_flag(rest[0], named)
        if follows:
            text = rest.pop(0)
            while flag.takes == "LIST" and text.endswith(",") and rest and rest[0][:1] != "-":
                text += rest.pop(0)  # written with blanks: 1, 2, 3
        elif flag.bare is not NEEDS_VALUE:
            return flag.bare
        else:
            raise UsageFault(f"Option {name} requires an argument.")
    try:
        value = flag.kind(text)
    except ValueError:
        wanted = KIND_WORDS.get(flag.kind, "a value of its kind")
        raise UsageFault(
            f"Cannot parse argument '{text}' of option {name}: it takes {wanted}."
        ) from None
    if flag.one_of and text.lower() not in (each.lower() for each in flag.one_of):
        raise UsageFault(f"{name} must be one of {', '.join(flag.one_of)}, not '{text}'.")
    return value


def _looks_like_a_flag(word: str, named: dict[str, Flag]) -> bool:
    """Values may begin with a dash: negative numbers, and words that are no flag."""
    return word.partition("=")[0] in named or (word.startswith("--") and len(word) > 2)


def _is_number(word: str) -> bool:
    return word.lstrip("-").isdigit()
