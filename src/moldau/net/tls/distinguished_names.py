"""The name in a certificate as Java writes it: RFC 2253, the most specific part first.

Nine kinds of parts have a name, as in Java; others are written by their number, with the value's
bytes. Reads as much of DER as a certificate's subject needs.
"""

from __future__ import annotations

from typing import NamedTuple

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
ENCODINGS = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""The kinds of text by their tags."""
SEQUENCE, SET, OBJECT_ID, EXPLICIT_VERSION = 0x30, 0x31, 0x06, 0xA0
ESCAPED = ',+"\\<>;'


class BadCertificate(ValueError):
    """The bytes are not a certificate."""


class _Value(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    return name_text(subject_name(certificate))


def subject_name(certificate: bytes) -> bytes:
    """The subject itself, in DER."""
    try:
        (whole,) = _values(certificate)
        signed = _values(_values(whole.content)[0].content)
        fields = signed[1:] if signed[0].tag == EXPLICIT_VERSION else signed
        # Serial number, algorithm, issuer, validity, subject.
        return fields[4].content
    except (IndexError, ValueError):
        raise BadCertificate("the certificate cannot be read") from None


def name_text(name: bytes) -> str:
    try:
        parts = [_part(relative.content) for relative in _values(name)]
    except (IndexError, ValueError):
        raise BadCertificate("the name in the certificate cannot be read") from None
    return ",".join(reversed(parts))


def _part(content: bytes) -> str:
    pairs = []
    for pair in _values(content):
        kind, value = _values(pair.content)
        number = _object_id(kind.content)
        keyword = KEYWORDS.get(number)
        encoding = ENCODINGS.get(value.tag)
        if keyword is None or encoding is None:
            pairs.append(f"{keyword or number}=#{value.whole.hex()}")
        else:
            pairs.append(f"{keyword}={_escaped(value.content.decode(encoding))}")
    return "+".join(pairs)


def _escaped(text: str) -> str:
    marked = [f"\\{sign}" if sign in ESCAPED else sign for sign in text]
    if text[:1] in (" ", "#"):
        marked[0] = f"\\{text[0]}"
    if len(text) > 1 and text[-1] == " ":
        marked[-1] = "\\ "
    return "".join(marked)


def _object_id(content: bytes) -> str:
    numbers = [0]
    for byte in content:
        numbers[-1] = numbers[-1] << 7 | byte & 127
        if byte < 128:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:-1]]))


def _values(data: bytes) -> list[_Value]:
    """The values that stand one after the other."""
    found = []
    position = 0
    while position < len(data):
        start, tag, length = position, data[position], data[position + 1]
        position += 2
        if length > 127:
            count = length & 127
            length = int.from_bytes(data[position : position + count])
            position += count
        end = position + length
        if end > len(data):
            raise ValueError("cut short")
        found.append(_Value(tag, data[position:end], data[start:end]))
        position = end
    return found
