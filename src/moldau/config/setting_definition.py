"""How one setting is declared: key, type, default, range, scope and sentence in one row.

A table is a class whose annotated attributes are rows; its instances hold the typed values, so
`config.log_segment_bytes` is an int. File parsing, DescribeConfigs, dynamic updates and the
reference pages all read the rows; nobody else repeats a key, a default or a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, ClassVar

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# The annotation of a row names its Kafka type; to the type checker these are the plain types.
Long = int
Short = int
Names = tuple[str, ...]
ClassName = str
Password = str


class Kind(IntEnum):
    """The type of a value, numbered as DescribeConfigs does."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Where a setting may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER = "cluster-wide"


KINDS = {
    "bool": Kind.BOOLEAN,
    "str": Kind.STRING,
    "int": Kind.INT,
    "Short": Kind.SHORT,
    "Long": Kind.LONG,
    "float": Kind.DOUBLE,
    "Names": Kind.LIST,
    "ClassName": Kind.CLASS,
    "Password": Kind.PASSWORD,
}
BITS = {Kind.INT: 32, Kind.SHORT: 16, Kind.LONG: 64}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
HIDDEN = "[hidden]"
"""Stands for a password wherever a value is shown."""
_COMMA = re.compile(r"\s*,\s*")


class ConfigError(ValueError):
    """A value that its row does not allow, said in one sentence."""

    def __init__(self, key: str, value: object, limit: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {key}: {limit}")
        self.key = key
        self.value = value
        self.limit = limit


class UnknownKeyError(ConfigError):
    """A key that no row has, where only known keys are allowed."""

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(key, "", "unknown")
        self.args = (sentence,)


class Setting:
    """One row. It is complete once the table that holds it has been read."""

    __slots__ = (
        "aliases",
        "at_least",
        "at_most",
        "check",
        "default",
        "doc",
        "hidden",
        "ignore_case",
        "key",
        "kind",
        "name",
        "no_effect",
        "one_of",
        "or_value",
        "refused",
        "scope",
        "synonym",
    )
    name: str
    kind: Kind

    def __init__(self, key: str, default: Any) -> None:
        self.key = key
        self.default = default
        self.no_effect: str | None = None
        self.refused: str | None = None
        self.check: Callable[[Any], str | None] | None = None
        self.at_least: float | None = None
        self.at_most: float | None = None
        self.or_value: float | None = None
        self.one_of: tuple[str, ...] = ()
        self.ignore_case = False
        self.aliases: tuple[str, ...] = ()
        self.hidden = False
        self.synonym: str | None = None
        self.scope = Scope.READ_ONLY
        self.doc = ""

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    @property
    def sentence(self) -> str:
        if self.refused is not None:
            return f"{self.doc} Refused unless it is the default: {self.refused}."
        if self.no_effect is not None:
            return f"{self.doc} Accepted without effect: {self.no_effect}."
        return self.doc

    @property
    def default_text(self) -> str | None:
        return value_text(self.default)

    @property
    def limits(self) -> str:
        """The allowed values in words, empty if the type alone limits them."""
        if self.one_of:
            return "one of " + ", ".join(self.one_of)
        words = []
        if self.at_least is not None and self.at_most is not None:
            words.append(f"{self.at_least} to {self.at_most}")
        elif self.at_least is not None:
            words.append(f"at least {self.at_least}")
        elif self.at_most is not None:
            words.append(f"at most {self.at_most}")
        if self.or_value is not None:
            words.append(f"{self.or_value}")
        return " or ".join(words)

    def parse(self, text: str) -> Any:
        """The typed value, or ConfigError if the text is not one or is out of range."""
        if self.kind is Kind.PASSWORD:
            if self.refused is not None:
                raise ConfigError(self.key, HIDDEN, self.refused)
            return text
        value = self._convert(text.strip())
        fault = self._fault(value)
        if fault is not None:
            raise ConfigError(self.key, text.strip(), fault)
        return value

    def allows(self, text: str) -> bool:
        try:
            self.parse(text)
        except ConfigError:
            return False
        return True

    def _convert(self, text: str) -> Any:
        kind = self.kind
        if kind is Kind.BOOLEAN:
            lower = text.lower()
            if lower not in ("true", "false"):
                raise ConfigError(self.key, text, "must be true or false")
            return lower == "true"
        if kind in BITS:
            limit = 1 << (BITS[kind] - 1)
            if not _WHOLE.fullmatch(text) or not -limit <= int(text) < limit:
                raise ConfigError(self.key, text, f"not a number of type {kind.name}")
            return int(text)
        if kind is Kind.DOUBLE:
            if not _DECIMAL.fullmatch(text):
                raise ConfigError(self.key, text, "not a number of type DOUBLE")
            return float(text)
        if kind is Kind.LIST:
            return tuple(dict.fromkeys(_COMMA.split(text))) if text else ()
        return text

    def _fault(self, value: Any) -> str | None:
        if self.refused is not None and (value or None) != (self.default or None):
            return self.refused
        if self.one_of:
            for item in value if self.kind is Kind.LIST else (value,):
                known = item in self.one_of
                if self.ignore_case:
                    known = item.lower() in {name.lower() for name in self.one_of}
                if not known:
                    return f"must be {self.limits}"
        elif value != self.or_value or self.or_value is None:
            if self.at_least is not None and value < self.at_least:
                return f"must be {self.limits}"
            if self.at_most is not None and value > self.at_most:
                return f"must be {self.limits}"
        return self.check(value) if self.check is not None else None


def setting(
    key: str,
    default: Any = None,
    *,
    doc: str,
    at_least: float | None = None,
    at_most: float | None = None,
    or_value: float | None = None,
    one_of: tuple[str, ...] = (),
    ignore_case: bool = False,
    check: Callable[[Any], str | None] | None = None,
    scope: Scope = Scope.READ_ONLY,
    synonym: str | None = None,
    aliases: tuple[str, ...] = (),
    no_effect: str | None = None,
    refused: str | None = None,
    hidden: bool = False,
) -> Any:
    """A row of a table. `check` returns what is wrong with a value, or None. `synonym` is the
    broker key a topic key takes its default from; `no_effect` says why nothing reads the value,
    `refused` why a broker that is given another value than the default must not start;
    `hidden` rows are for tests, or no longer Kafka's, and are listed only where they are set."""
    row = Setting(key, default)
    row.doc = doc
    row.at_least = at_least
    row.at_most = at_most
    row.or_value = or_value
    row.one_of = one_of
    row.ignore_case = ignore_case
    row.check = check
    row.scope = scope
    row.synonym = synonym
    row.aliases = aliases
    row.no_effect = no_effect
    row.refused = refused
    row.hidden = hidden
    return row


class Settings:
    """Base of the tables. Instances are immutable: a change makes a new object."""

    rows: ClassVar[dict[str, Setting]] = {}
    """Every row by its key, in the order of declaration."""
    aliases: ClassVar[dict[str, str]] = {}
    """Older and misspelt names that are still understood, to the key they mean."""
    defaults: ClassVar[dict[str, Any]] = {}
    """The default of every attribute."""

    def __init_subclass__(cls) -> None:
        rows: dict[str, Setting] = {}
        for base in cls.__bases__:
            rows.update(getattr(base, "rows", {}))
        kinds = cls.__annotations__ if "__annotations__" in cls.__dict__ else {}
        for name, row in cls.__dict__.items():
            if isinstance(row, Setting):
                row.name = name
                row.kind = KINDS[kinds[name].removesuffix(" | None")]
                rows[row.key] = row
        cls.rows = rows
        cls.aliases = {alias: row.key for row in rows.values() for alias in row.aliases}
        cls.defaults = {row.name: row.default for row in rows.values()}

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: a change makes a new {type(self).__name__}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


def suggestion(key: str, known: Mapping[str, object]) -> str:
    """`; did you mean x?` if a known key is close, else nothing."""
    from difflib import get_close_matches  # slow to import, and rarely needed

    close = get_close_matches(key, known, n=1, cutoff=0.8)
    return f"; did you mean {close[0]}?" if close else ""


def value_text(value: Any) -> str | None:
    """A typed value as Kafka writes it in answers and files."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _double_text(value: float) -> str:
    """Java's form: plain between a thousandth and ten million, else as 1.5E10."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for digits in range(17) if float(text := f"{value:.{digits}e}") == value)
    mantissa, _, exponent = shortest.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
