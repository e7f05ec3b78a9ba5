"""Java's .properties syntax, in which Kafka's configuration files are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """A line that is not in the syntax."""


def parse_properties(text: str) -> dict[str, str]:
    """Keys to values as written; of a key given twice the last one counts."""
    properties = {}
    for line in _logical_lines(text):
        key, rest = _split(line)
        properties[_unescape(key)] = _unescape(rest)
    return properties


def format_properties(properties: Mapping[str, str], *, comment: str = "") -> str:
    """Text that reads back as the same properties."""
    lines = [f"#{comment}"] if comment else []
    lines += [f"{_escape(key, key=True)}={_escape(value)}" for key, value in properties.items()]
    return "".join(f"{line}\n" for line in lines)


def properties_from_environment(
    environment: Mapping[str, str], known: Mapping[str, object]
) -> dict[str, str]:
    """Keys given as KAFKA_ADVERTISED_LISTENERS and the like, as Kafka's containers take them:
    one underscore is a dot, two are an underscore, three a dash. Names that make no known key
    (KAFKA_HOME, KAFKA_HEAP_OPTS) are left alone."""
    properties = {}
    for name, value in environment.items():
        if name.startswith("KAFKA_"):
            key = name.removeprefix("KAFKA_").lower()
            key = key.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
            if key in known or key.startswith("listener.name."):
                properties[key] = value
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, continued lines joined."""
    pending = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped blank, = or :; one separator belongs to neither."""
    end = 0
    while end < len(line) and line[end] not in " \t\f=:":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char)
            continue
        char = text[position]
        position += 1
        if char == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not all(d in "0123456789abcdefABCDEF" for d in digits):
                raise PropertiesError(f"\\u{digits} must have four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # Java writes characters beyond the basic plane as two escapes, one per half.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, key: bool = False) -> str:
    out = text.replace("\\", "\\\\")
    for name, char in _ESCAPES.items():
        out = out.replace(char, f"\\{name}")
    if key:
        for char in " =:":
            out = out.replace(char, f"\\{char}")
    elif out.startswith(" "):
        out = "\\" + out
    return f"\\{out}" if key and out[:1] in ("#", "!") else out
