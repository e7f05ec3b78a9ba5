"""How messages are declared: one class per message and per nested struct, versions on the fields.

    class FetchPartition(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32("9+", default=-1)
        replica_directory_id: bytes = uuid("17+", tag=0)

A field without versions exists wherever its struct does. Constructors take keywords, every field
has a default, and mypy knows both (PEP 681). Declaring is cheap: constructors and codecs are
compiled when first used. A tagged struct is None where the sender left it out.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform, overload

from moldau.wire.primitives import Buffer, DecodeError, EncodeError

T = TypeVar("T")
S = TypeVar("S", bound="Struct")

Decoder = Callable[..., tuple[Any, int]]
"""By buffer and position, and how many entries are taken if it is not the usual number."""
Encoder = Callable[[Any, Callable[[Any], None]], None]

VERSION_MAX = 0x7FFF
MISSING: Any = object()


class VersionRange:
    """`"3+"`, `"2-5"`, `"4"`, or `""` for none."""

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        first, dash, last = text.partition("-")
        if not text:
            self.first, self.last = 1, 0
        elif text[-1] == "+":
            self.first, self.last = int(text[:-1]), VERSION_MAX
        else:
            self.first = int(first)
            self.last = int(last) if dash else self.first

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


_RANGES: dict[str, VersionRange] = {}


def version_range(text: str) -> VersionRange:
    found = _RANGES.get(text)
    if found is None:
        found = _RANGES[text] = VersionRange(text)
    return found


class Field:
    """What a declaration said about one attribute."""

    __slots__ = ("default", "is_array", "kind", "name", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: Kind[Any] | type[Struct],
        versions: str,
        default: Any,
        nullable: str | None,
        tag: int | None,
        tagged: str | None,
        is_array: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.is_array = is_array
        self.versions = version_range(versions)
        self.nullable = version_range(nullable or "")
        self.tag = tag
        self.tagged = self.versions if tagged is None else version_range(tagged)
        self.default = default

    @property
    def struct(self) -> type[Struct] | None:
        return None if isinstance(self.kind, Kind) else self.kind

    @property
    def primitive(self) -> Kind[Any] | None:
        return self.kind if isinstance(self.kind, Kind) else None

    def is_tagged_in(self, version: int) -> bool:
        return self.tag is not None and version in self.tagged


class Kind(Generic[T]):
    """A primitive type of the protocol; calling it declares a field of that type.

    `code` is its letter in `struct` formats, or "" if its size varies.
    """

    __slots__ = ("code", "default", "name", "size_bytes")

    def __init__(self, name: str, code: str, default: T) -> None:
        self.name = name
        self.code = code
        self.size_bytes = _struct.calcsize(">" + code)
        self.default = default

    @overload
    def __call__(
        self,
        versions: str = "0+",
        *,
        default: T = ...,
        tag: int | None = None,
        tagged: str | None = None,
    ) -> T: ...
    @overload
    def __call__(
        self,
        versions: str = "0+",
        *,
        nullable: str,
        default: T | None = None,
        tag: int | None = None,
        tagged: str | None = None,
    ) -> T | None: ...
    def __call__(
        self,
        versions: str = "0+",
        *,
        default: Any = MISSING,
        nullable: str | None = None,
        tag: int | None = None,
        tagged: str | None = None,
    ) -> Any:
        if default is MISSING:
            default = self.default if nullable is None else None
        return Field(self, versions, default, nullable, tag, tagged)


boolean = Kind[bool]("bool", "?", False)
int8 = Kind[int]("int8", "b", 0)
int16 = Kind[int]("int16", "h", 0)
int32 = Kind[int]("int32", "i", 0)
int64 = Kind[int]("int64", "q", 0)
uint16 = Kind[int]("uint16", "H", 0)
uint32 = Kind[int]("uint32", "I", 0)
float64 = Kind[float]("float64", "d", 0.0)
uuid = Kind[bytes]("uuid", "16s", bytes(16))
string = Kind[str]("string", "", "")
# The request header's client id kept its two-byte length when headers became flexible (KIP-482),
# so that a broker can read it before it knows the version.
legacy_string = Kind[str]("legacy string", "", "")
blob = Kind[bytes]("bytes", "", b"")
# Decoded to a view of the frame; encoded from bytes, a FileRegion, or a list of these.
raw_records = Kind[Any]("records", "", None)


@overload
def array(
    of: Kind[T], versions: str = "0+", *, tag: int | None = None, tagged: str | None = None
) -> list[T]: ...
@overload
def array(
    of: type[S], versions: str = "0+", *, tag: int | None = None, tagged: str | None = None
) -> list[S]: ...
@overload
def array(
    of: Kind[T],
    versions: str = "0+",
    *,
    nullable: str,
    default: None = ...,
    tag: int | None = None,
    tagged: str | None = None,
) -> list[T] | None: ...
@overload
def array(
    of: type[S],
    versions: str = "0+",
    *,
    nullable: str,
    default: None = ...,
    tag: int | None = None,
    tagged: str | None = None,
) -> list[S] | None: ...
def array(
    of: Kind[Any] | type[Struct],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Any = MISSING,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    """A list, empty by default; Kafka's maps keyed by a field are plain lists here."""
    return Field(of, versions, default, nullable, tag, tagged, is_array=True)


@overload
def struct(of: type[S], versions: str = "0+") -> S: ...
@overload
def struct(of: type[S], versions: str = "0+", *, nullable: str) -> S | None: ...
@overload
def struct(
    of: type[S], versions: str = "0+", *, tag: int, tagged: str | None = None
) -> S | None: ...
def struct(
    of: type[Struct],
    versions: str = "0+",
    *,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
) -> Any:
    default = MISSING if nullable is None and tag is None else None
    return Field(of, versions, default, nullable, tag, tagged)


@dataclass_transform(kw_only_default=True)
class Declared(type):
    """Turns the Field values of a class body into slots, and remembers them in order."""

    __fields__: tuple[Field, ...]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: str
    ) -> Any:
        fields = [value for value in body.values() if type(value) is Field]
        for field_name in [key for key, value in body.items() if type(value) is Field]:
            body.pop(field_name).name = field_name
        body["__slots__"] = tuple(field.name for field in fields)
        body["__fields__"] = tuple(fields)
        body["__hash__"] = None
        return super().__new__(mcls, name, bases, body)

    def __init__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: str
    ) -> None:
        super().__init__(name, bases, body)
        if "versions" in options:
            cls.__versions__ = version_range(options["versions"])
            cls.__flexible__ = version_range(options.get("flexible", ""))
            cls.__carries_records__ = any(_carries_records(field) for field in cls.__fields__)
            cls.__encoders__: dict[int, Encoder] = {}
            cls.__decoders__: dict[int, Decoder] = {}


def _carries_records(field: Field) -> bool:
    """Whether file regions may come out of the field's encoder."""
    if field.struct is None:
        return field.kind is raw_records
    return any(_carries_records(inner) for inner in field.struct.__fields__)


class Struct(metaclass=Declared):
    """A part of a message."""

    __fields__: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # The first construction of each class compiles its constructor and takes this one's place.
        from moldau.wire.construction import compile_constructor

        cls = type(self)
        cls.__init__ = compile_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, field.name) == getattr(other, field.name) for field in self.__fields__
        )

    def __repr__(self) -> str:
        values = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}" for field in self.__fields__
        )
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A whole request, response or record: what can be encoded by itself, in a version."""

    __versions__: ClassVar[VersionRange]
    __flexible__: ClassVar[VersionRange]
    __carries_records__: ClassVar[bool]
    __encoders__: ClassVar[dict[int, Encoder]]
    __decoders__: ClassVar[dict[int, Decoder]]

    def encode(self, version: int) -> bytes:
        pieces: list[Any] = []
        self.encode_to(pieces, version)
        try:
            return b"".join(pieces)
        except TypeError as fault:
            raise EncodeError(f"{type(self).__name__} holds bytes of a file") from fault

    def encode_to(self, pieces: list[Any], version: int) -> None:
        """Append the message's bytes, with the file regions of records between them."""
        encoder = self.__encoders__.get(version)
        if encoder is None:
            from moldau.wire.encoding import compile_encoder

            encoder = self.__encoders__[version] = compile_encoder(type(self), version)
        try:
            encoder(self, pieces.append)
        except (_struct.error, TypeError, AttributeError, UnicodeEncodeError) as fault:
            raise EncodeError(f"{type(self).__name__} v{version}: {fault}") from fault

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        return cls.decode_from(buffer, version, position)[0]

    @classmethod
    def decode_short(cls, buffer: Buffer, version: int, position: int, entries_max: int) -> Self:
        """Raises TooManyEntries, before much was done, if its arrays hold more together."""
        return cls.decode_from(buffer, version, position, entries_max)[0]

    @classmethod
    def decode_from(
        cls, buffer: Buffer, version: int, position: int = 0, *limit: int
    ) -> tuple[Self, int]:
        """The message and the position behind it."""
        decoder = cls.__decoders__.get(version)
        if decoder is None:
            from moldau.wire.decoding import compile_decoder

            decoder = cls.__decoders__[version] = compile_decoder(cls, version)
        try:
            return decoder(buffer, position, *limit)
        except (_struct.error, IndexError) as fault:
            raise DecodeError(f"{cls.__name__} v{version} is cut short: {fault}") from None
        except UnicodeDecodeError as fault:
            raise DecodeError(f"{cls.__name__} v{version}: text is not UTF-8: {fault}") from None
        except DecodeError as fault:
            raise type(fault)(f"{cls.__name__} v{version}: {fault}") from None
