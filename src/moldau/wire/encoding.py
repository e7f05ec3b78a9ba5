"""Compiles the encoder of one message in one version to straight-line Python.

The mirror of `decoding.py`: neighbouring fields of fixed size, with the length or count that
follows them, are packed by one `struct` call, and nested structs are inlined. The pieces go to a
list; whoever sends them joins them, so that file regions stay regions.
"""

from __future__ import annotations

import struct
from typing import Any, cast

from moldau.wire import primitives
from moldau.wire.schema import Encoder, Field, Kind, Message, Struct, legacy_string


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    if version not in cls.__versions__:
        raise primitives.EncodeError(f"{cls.__name__} has no version {version}")
    source = EncoderSource(version, version in cls.__flexible__)
    text = source.function(cls)
    exec(compile(text, f"<encoder of {cls.__name__} v{version}>", "exec"), source.names)
    made: Encoder = source.names["encode"]
    return made


class EncoderSource:
    """Writes the source text; `run` holds fields of fixed size not yet packed."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.run: list[tuple[str, str]] = []
        self.write = "w"
        self.serial = 0
        self.names: dict[str, Any] = {
            "SMALL": primitives.SMALL_UVARINTS,
            "uvarint": primitives.uvarint,
            "records_size": primitives.records_size,
            "pack": struct.pack,
            "join": b"".join,
        }

    def function(self, cls: type[Message]) -> str:
        self.struct(cls, "o")
        self.flush()
        return "def encode(o, w):\n" + "\n".join(self.lines or ["    pass"])

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def constant(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def take(self, code: str, expression: str = "") -> None:
        """Add to the run; code "x" is a zero byte and has no expression."""
        self.run.append((code, expression))

    def packed(self, run: list[tuple[str, str]]) -> str:
        """Source text of an expression that packs the run."""
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        pack = self.constant("pack_", struct.Struct(">" + codes).pack)
        return f"{pack}({', '.join(expression for _, expression in run if expression)})"

    def flush(self) -> None:
        if self.run:
            self.emit(f"{self.write}({self.packed(self.run)})")
            self.run = []

    def flush_with_length(self, code: str) -> None:
        """Pack the run together with the length or count that stands in `n`."""
        run, self.run = self.run, []
        if code:
            self.emit(f"{self.write}({self.packed([*run, (code, 'n')])})")
        elif run:
            short = self.packed([*run, ("B", "n")])
            long = f"{self.packed(run)} + uvarint(n)"
            self.emit(f"{self.write}({short} if n < 128 else {long})")
        else:
            self.emit(f"{self.write}(SMALL[n] if n < 128 else uvarint(n))")

    def struct(self, cls: type[Struct], name: str) -> None:
        tagged = []
        for field in cls.__fields__:
            if self.version not in field.versions:
                continue
            if field.is_tagged_in(self.version):
                tagged.append(field)
            else:
                self.value(field, f"{name}.{field.name}")
        if not self.flexible:
            return
        if tagged:
            self.tags(sorted(tagged, key=lambda field: field.tag or 0), name)
        else:
            self.take("x")

    def tags(self, tagged: list[Field], name: str) -> None:
        """Fields that hold their default are left out; the rest go in the order of their tags."""
        self.flush()
        pieces = self.fresh("tagged")
        self.emit(f"{pieces} = []")
        for field in tagged:
            value = self.fresh("v")
            self.emit(f"{value} = {name}.{field.name}")
            self.emit(f"if {self.differs(field, value)}:")
            self.indent += 1
            self.tagged_value(field, value, pieces)
            self.indent -= 1
        self.emit(f"{self.write}(SMALL[len({pieces})])")
        self.emit(f"if {pieces}: {self.write}(join({pieces}))")

    def differs(self, field: Field, value: str) -> str:
        if field.is_array and field.default is not None:
            return value
        if field.struct is not None and not field.is_array:
            return f"{value} is not None and {value} != {self.constant('default_', field.struct())}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {field.default!r}"

    def tagged_value(self, field: Field, value: str, pieces: str) -> None:
        inner, outer_write = self.fresh("inner"), self.write
        self.write = f"{inner}.append"
        self.emit(f"{inner} = []")
        self.value(field, value)
        self.flush()
        self.write = outer_write
        self.emit(f"{inner} = join({inner})")
        tag = primitives.uvarint(field.tag or 0)
        self.emit(f"{pieces}.append({tag!r} + uvarint(len({inner})) + {inner})")

    def value(self, field: Field, expression: str) -> None:
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, expression, nullable)
        elif field.struct is None:
            self.primitive(cast(Kind[Any], field.kind), expression, nullable)
        elif nullable and not field.is_tagged_in(self.version):
            self.nullable_struct(field.struct, expression)
        else:
            name = self.fresh("o")
            self.emit(f"{name} = {expression}")
            self.struct(field.struct, name)

    def nullable_struct(self, cls: type[Struct], expression: str) -> None:
        """One byte says whether the struct follows (KIP-893)."""
        self.flush()
        name = self.fresh("o")
        self.emit(f"{name} = {expression}")
        self.emit(f"if {name} is None: {self.write}(b'\\xff')")
        self.emit("else:")
        self.indent += 1
        self.take("b", "1")
        self.struct(cls, name)
        self.flush()
        self.indent -= 1

    def primitive(self, kind: Kind[Any], expression: str, nullable: bool) -> None:
        if kind.code:
            self.take(kind.code, expression)
            return
        text = "string" in kind.name
        compact = self.flexible and kind is not legacy_string
        extra = " + 1" if compact else ""
        length = f"records_size(s){extra}" if kind.name == "records" else f"len(s){extra}"
        encode = ".encode()" if text else ""
        if nullable:
            self.emit(f"s = {expression}")
            self.emit(f"if s is None: s = b''; n = {0 if compact else -1}")
            self.emit(f"else: s = s{encode}; n = {length}")
        else:
            self.emit(f"s = {expression}{encode}")
            self.emit(f"n = {length}")
        self.flush_with_length("" if compact else "h" if text else "i")
        if kind.name == "records":
            # Empty pieces are dropped: nobody should ask the kernel to send nothing of a file.
            self.emit("if type(s) is list:")
            self.emit("    for s in s:")
            self.emit(f"        if records_size(s): {self.write}(s)")
            self.emit(f"elif n > {1 if compact else 0}: {self.write}(s)")
        else:
            self.emit(f"{self.write}(s)")

    def array(self, field: Field, expression: str, nullable: bool) -> None:
        items = self.fresh("items")
        extra = " + 1" if self.flexible else ""
        self.emit(f"{items} = {expression}")
        if nullable:
            self.emit(f"if {items} is None: {items} = (); n = {0 if self.flexible else -1}")
            self.emit(f"else: n = len({items}){extra}")
        else:
            self.emit(f"n = len({items}){extra}")
        self.flush_with_length("" if self.flexible else "i")
        kind = field.primitive
        if kind is not None and kind.code:
            layout = f"f'>{{len({items})}}{kind.code}'"
            if len(kind.code) > 1:
                layout = f"'>' + {kind.code!r} * len({items})"
            self.emit(f"if {items}: {self.write}(pack({layout}, *{items}))")
            return
        item = self.fresh("o")
        self.emit(f"for {item} in {items}:")
        self.indent += 1
        before = len(self.lines)
        if field.struct is not None:
            self.struct(field.struct, item)
        else:
            self.primitive(cast(Kind[Any], field.kind), item, False)
        self.flush()
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1
