"""Java's own key store, JKS: read with its password, by the standard library alone.

The file is a list of entries (a protected private key with its chain, or a trusted certificate)
and a checksum over password and content. A key is protected by a stream of SHA-1 digests that
begins with a salt; that is weak, and it is what `keytool -storetype JKS` writes.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

from moldau.net.tls.pem_blocks import CERTIFICATE, KEY, KeyStore, StoreFault, to_pem

MAGIC = b"\xfe\xed\xfe\xed"
VERSIONS = (1, 2)
KEY_ENTRY, CERTIFICATE_ENTRY = 1, 2
DIGEST_BYTES = 20
WHITENER = b"Mighty Aphrodite"
PROTECTION = bytes.fromhex("060a2b060104012a02110101")
"""The number of the protection, as it stands in a key's wrapping."""


class JavaKeyStore:
    def __init__(self, data: bytes, password: str | None, what: str) -> None:
        """Without a password what it holds is not checked. Raises StoreFault."""
        self._what = what
        self._data = data
        self._position = len(MAGIC)
        self.keys: list[tuple[bytes, list[bytes]]] = []
        """Protected keys with their chains, in DER."""
        self.trusted: list[bytes] = []
        if password is not None:
            self._check(password)
        try:
            self._read()
        except (struct.error, IndexError, UnicodeDecodeError):
            raise StoreFault(f"{what} is a JKS key store that is cut short or damaged") from None

    def _check(self, password: str) -> None:
        wanted = hashlib.sha1(_wide(password) + WHITENER + self._data[:-DIGEST_BYTES]).digest()
        if not hmac.compare_digest(wanted, self._data[-DIGEST_BYTES:]):
            raise StoreFault(f"{self._what} was tampered with, or its password is wrong")

    def _read(self) -> None:
        version, count = self._numbers(">II")
        if version not in VERSIONS:
            raise StoreFault(f"{self._what} is a JKS key store of the unknown version {version}")
        for _ in range(count):
            (tag,) = self._numbers(">I")
            self._text()
            self._numbers(">Q")
            if tag == KEY_ENTRY:
                key = self._bytes()
                (length,) = self._numbers(">I")
                self.keys.append((key, [self._certificate(version) for _ in range(length)]))
            elif tag == CERTIFICATE_ENTRY:
                self.trusted.append(self._certificate(version))
            else:
                raise StoreFault(f"{self._what} holds an entry of the unknown kind {tag}")

    def _certificate(self, version: int) -> bytes:
        if version == VERSIONS[-1]:
            self._text()
        return self._bytes()

    def _numbers(self, layout: str) -> tuple[int, ...]:
        found = struct.unpack_from(layout, self._data, self._position)
        self._position += struct.calcsize(layout)
        return found

    def _bytes(self, layout: str = ">I") -> bytes:
        (length,) = self._numbers(layout)
        end = self._position + length
        if end > len(self._data):
            raise IndexError
        found = self._data[self._position : end]
        self._position = end
        return found

    def _text(self) -> str:
        return self._bytes(">H").decode()

    def key_store(self, password: str) -> KeyStore:
        """The first key, unprotected, and its chain."""
        if not self.keys:
            raise StoreFault(f"{self._what} holds no private key")
        protected, chain = self.keys[0]
        key = to_pem(KEY, self._unprotected(protected, password))
        return KeyStore(key, "".join(to_pem(CERTIFICATE, each) for each in chain))

    def _unprotected(self, wrapped: bytes, password: str) -> bytes:
        at = wrapped.find(PROTECTION)
        if at < 0:
            raise StoreFault(f"{self._what} protects its key in an unknown way")
        # After the algorithm and its empty parameters comes one string of bytes.
        position = at + len(PROTECTION)
        if wrapped[position : position + 2] == b"\x05\x00":
            position += 2
        length = wrapped[position + 1]
        position += 2 + (length & 127 if length > 127 else 0)
        body = wrapped[position:]
        salt, hidden = body[:DIGEST_BYTES], body[DIGEST_BYTES:-DIGEST_BYTES]
        secret = _wide(password)
        stream, digest = b"", salt
        while len(stream) < len(hidden):
            digest = hashlib.sha1(secret + digest).digest()
            stream += digest
        number = int.from_bytes(hidden) ^ int.from_bytes(stream[: len(hidden)])
        key = number.to_bytes(len(hidden))
        if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), body[-DIGEST_BYTES:]):
            raise StoreFault(f"{self._what} holds a key that its password does not open")
        return key


def _wide(password: str) -> bytes:
    return password.encode("utf-16-be")
