"""Compiles the decoder of one message in one version to straight-line Python.

Neighbouring fields of fixed size, together with the length or count that follows them, are read
by one `struct` call; nested structs are inlined. What varies in size is compared with the end of
the frame before anything is allocated. `struct.error` and IndexError mean a frame that is cut
short: `Message.decode` turns them into DecodeError.
"""

from __future__ import annotations

import struct
from typing import Any

from moldau.wire import primitives
from moldau.wire.construction import default_expression
from moldau.wire.schema import Decoder, Field, Kind, Message, Struct, legacy_string

ENTRIES_MAX = 25_000
"""What the arrays of one request may hold together: ten thousand topics and as many partitions, and
some. A byte or two make an entry, and an entry a hundred bytes of memory and a few microseconds of
everybody's time, several times over."""
ENTRIES_OF_MANY_MAX = 1_000_000
FOR_MANY = frozenset(
    {
        *("MetadataRequest", "FetchRequest", "DescribeConfigsRequest", "CreateTopicsRequest"),
        *("LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest"),
        *("AlterPartitionRequest", "AlterPartitionReassignmentsRequest"),
        *("OffsetForLeaderEpochRequest", "WriteTxnMarkersRequest", "ListOffsetsRequest"),
    }
)
"""Answered in turns or counted before anything is done, or said by a broker, with all replicas of
all partitions: these may hold more."""
ENTRIES_OF_GROUPS_MAX = 100_000
FOR_GROUPS = frozenset(
    {
        *("OffsetCommitRequest", "TxnOffsetCommitRequest", "OffsetFetchRequest"),
        *("FindCoordinatorRequest", "DescribeGroupsRequest", "DeleteGroupsRequest"),
        "DeleteRecordsRequest",
    }
)
"""Partitions of one consumer, all groups of a coordinator: in turns too, and each entry takes more
memory until all are answered."""
ENTRIES_OF_FEW_MAX = 5_000
FOR_FEW = frozenset(
    {"JoinGroupRequest", "SyncGroupRequest", "LeaveGroupRequest", "UpdateFeaturesRequest"}
)
"""Members of a group: nobody has more, and each costs a look at its group."""


def entries_max(message: str) -> int:
    if message in FOR_FEW:
        return ENTRIES_OF_FEW_MAX
    if message in FOR_GROUPS:
        return ENTRIES_OF_GROUPS_MAX
    return ENTRIES_OF_MANY_MAX if message in FOR_MANY else ENTRIES_MAX


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    if version not in cls.__versions__:
        raise primitives.DecodeError(f"{cls.__name__} has no version {version}")
    source = DecoderSource(version, version in cls.__flexible__)
    source.is_counted = cls.__name__.endswith("Request")
    text = source.function(cls)
    exec(compile(text, f"<decoder of {cls.__name__} v{version}>", "exec"), source.names)
    made: Decoder = source.names["decode"]
    return made


def size_min(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes the field can take: what a count is checked against."""
    if field.is_array:
        return 1 if flexible else 4
    if field.struct is not None:
        return 1 if version in field.nullable else struct_size_min(field.struct, version, flexible)
    return primitive_size_min(field.kind, flexible)


def primitive_size_min(kind: Any, flexible: bool) -> int:
    if kind.size_bytes:
        return int(kind.size_bytes)
    if flexible and kind is not legacy_string:
        return 1
    return 2 if "string" in kind.name else 4


def struct_size_min(cls: type[Struct], version: int, flexible: bool) -> int:
    size = sum(
        size_min(field, version, flexible)
        for field in cls.__fields__
        if version in field.versions and not field.is_tagged_in(version)
    )
    return max(1, size + flexible)


class DecoderSource:
    """Writes the source text; `run` holds fields of fixed size not yet read."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.run: list[tuple[str, str]] = []
        self.serial = 0
        self.is_counted = False
        self.names: dict[str, Any] = {
            "finish_uvarint": primitives.finish_uvarint,
            "read_uvarint": primitives.read_uvarint,
            "skip_tags": primitives.skip_tags,
            "truncated": primitives.truncated,
            "too_long": primitives.too_long,
            "too_many": primitives.too_many,
            "null_refused": primitives.null_refused,
            "DecodeError": primitives.DecodeError,
            "unpack_from": struct.unpack_from,
            "new": object.__new__,
        }

    def function(self, cls: type[Message]) -> str:
        self.emit("end = len(buf)")
        self.emit("left = limit")
        self.struct(cls, "o")
        self.flush()
        self.emit("return o, pos")
        head = f"def decode(buf, pos, limit={entries_max(cls.__name__)}):\n"
        return head + "\n".join(self.lines)

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def constant(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def take(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def flush(self) -> None:
        """Read the pending run in one go."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run = []
        if codes == "B":
            self.emit(f"{targets} = buf[pos]")
            self.emit("pos += 1")
            return
        layout = struct.Struct(">" + codes)
        unpack = self.constant("unpack_", layout.unpack_from)
        self.emit(f"{targets}, = {unpack}(buf, pos)")
        self.emit(f"pos += {layout.size}")

    def struct(self, cls: type[Struct], name: str) -> None:
        self.emit(f"{name} = new({self.constant('class_', cls)})")
        tagged = []
        for field in cls.__fields__:
            target = f"{name}.{field.name}"
            if self.version not in field.versions:
                self.emit(f"{target} = {self.default(field)}")
            elif field.is_tagged_in(self.version):
                self.emit(f"{target} = {self.default(field)}")
                tagged.append(field)
            else:
                self.value(field, target)
        if self.flexible:
            self.tags(tagged, name)

    def default(self, field: Field) -> str:
        names: dict[str, Any] = {}
        text = default_expression(field, names, "")
        for factory in names.values():
            return f"{self.constant('new_', factory)}()"
        return text

    def tags(self, tagged: list[Field], name: str) -> None:
        count = self.fresh("tags")
        self.take("B", count)
        self.flush()
        self.emit(f"if {count}:")
        self.indent += 1
        self.emit(f"if {count} > 127: {count}, pos = finish_uvarint(buf, pos, {count})")
        if not tagged:
            self.emit(f"pos = skip_tags(buf, pos, {count})")
        else:
            self.known_tags(tagged, name, count)
        self.indent -= 1

    def known_tags(self, tagged: list[Field], name: str, count: str) -> None:
        tag, limit = self.fresh("tag"), self.fresh("limit")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        self.emit(f"{tag}, pos = read_uvarint(buf, pos)")
        self.emit(f"{limit}, pos = read_uvarint(buf, pos)")
        self.emit(f"{limit} += pos")
        self.emit(f"if {limit} > end: raise truncated({limit}, end)")
        for index, field in enumerate(tagged):
            self.emit(f"{'elif' if index else 'if'} {tag} == {field.tag}:")
            self.indent += 1
            self.value(field, f"{name}.{field.name}")
            self.flush()
            self.emit(f"if pos != {limit}:")
            self.emit(f"    raise DecodeError('tagged {field.name} has a wrong size')")
            self.indent -= 1
        self.emit("else:")
        self.emit(f"    pos = {limit}")
        self.indent -= 1

    def value(self, field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, target, nullable)
        elif field.struct is None:
            self.primitive(field.kind, target, nullable, field.name)
        elif nullable and not field.is_tagged_in(self.version):
            self.nullable_struct(field.struct, target)
        else:
            name = self.fresh("o")
            self.struct(field.struct, name)
            self.emit(f"{target} = {name}")

    def nullable_struct(self, cls: type[Struct], target: str) -> None:
        """One byte says whether the struct follows (KIP-893)."""
        self.take("b", "n")
        self.flush()
        self.emit(f"if n < 0: {target} = None")
        self.emit("else:")
        self.indent += 1
        name = self.fresh("o")
        self.struct(cls, name)
        self.flush()
        self.emit(f"{target} = {name}")
        self.indent -= 1

    def length(self, target: str, nullable: bool, name: str, code: str) -> None:
        """Read a length or count into `n` and open the branch in which it is there."""
        compact = code == ""
        self.take(code or "B", "n")
        self.flush()
        if compact:
            self.emit("if n > 127: n, pos = finish_uvarint(buf, pos, n)")
            self.emit("n -= 1")
        null = "n == -1" if nullable else "n < 0"
        self.emit(f"if {null}:")
        outcome = f"{target} = None" if nullable else f"raise null_refused({name!r})"
        self.emit("    " + outcome)
        self.emit("else:")
        self.indent += 1
        if nullable and not compact:
            self.emit(f"if n < 0: raise null_refused({name!r})")

    def primitive(self, kind: Any, target: str, nullable: bool, name: str) -> None:
        if kind.code:
            self.take(kind.code, target)
            return
        text = "string" in kind.name
        compact = self.flexible and kind is not legacy_string
        self.length(target, nullable, name, "" if compact else "h" if text else "i")
        if text and compact:
            self.emit(f"if n > {primitives.TEXT_BYTES_MAX}: raise too_long({name!r}, n)")
        self.emit("e = pos + n")
        self.emit("if e > end: raise truncated(e, end)")
        if text:
            self.emit(f"{target} = str(buf[pos:e], 'utf-8')")
        elif kind.name == "records":
            # A view, not a copy: a produced batch is written to the log from the frame itself.
            self.emit(f"{target} = memoryview(buf)[pos:e]")
        else:
            self.emit(f"{target} = bytes(buf[pos:e])")
        self.emit("pos = e")
        self.indent -= 1

    def array(self, field: Field, target: str, nullable: bool) -> None:
        self.length(target, nullable, field.name, "" if self.flexible else "i")
        kind = field.primitive
        if self.is_counted:
            self.emit("left -= n")
            self.emit("if left < 0: raise too_many(limit)")
        if kind is not None and kind.code:
            self.fixed_items(kind, target)
        else:
            self.items(field, target)
        self.indent -= 1

    def fixed_items(self, kind: Kind[Any], target: str) -> None:
        self.emit(f"e = pos + n * {kind.size_bytes}")
        self.emit("if e > end: raise truncated(e, end)")
        if len(kind.code) == 1:
            self.emit(f"{target} = [*unpack_from(f'>{{n}}{kind.code}', buf, pos)]")
        else:
            step = kind.size_bytes
            self.emit(f"{target} = [bytes(buf[p:p + {step}]) for p in range(pos, e, {step})]")
        self.emit("pos = e")

    def items(self, field: Field, target: str) -> None:
        cls = field.struct
        if cls is not None:
            least = struct_size_min(cls, self.version, self.flexible)
        else:
            least = primitive_size_min(field.kind, self.flexible)
        items, item = self.fresh("items"), self.fresh("o")
        self.emit(f"if n > (end - pos) // {least}: raise truncated(pos + n * {least}, end)")
        self.emit(f"{items} = {target} = []")
        self.emit("for _ in range(n):")
        self.indent += 1
        if cls is not None:
            self.struct(cls, item)
        else:
            self.primitive(field.kind, item, False, field.name)
        self.flush()
        self.emit(f"{items}.append({item})")
        self.indent -= 1
