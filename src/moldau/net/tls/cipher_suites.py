"""Java's names of cipher suites in OpenSSL's words, and what a list of them means for versions.

Python cannot choose among the suites of TLS 1.3, so a list names all of them or none. Without any
the version itself is left out, as it would be in Java for want of a suite.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_NAME = re.compile(
    r"(?:TLS|SSL)_(?:(?P<exchange>ECDHE|DHE)_(?P<proof>RSA|ECDSA|DSS)|(?P<plain>RSA))_WITH_"
    r"(?P<cipher>AES_128|AES_256|CHACHA20_POLY1305)(?:_(?P<mode>GCM|CBC))?_(?P<digest>SHA(?:256|384)?)"
)


class CipherSuites(NamedTuple):
    openssl: str
    """For TLS 1.2; empty if the list names none for it."""
    has_tls_1_3: bool


def cipher_suites(names: Sequence[str]) -> CipherSuites:
    """Raises ValueError with a sentence."""
    modern = [name for name in names if name in TLS_1_3]
    older = [name for name in names if name not in TLS_1_3]
    if modern and len(set(modern)) < len(TLS_1_3):
        raise ValueError(
            f"suites of TLS 1.3 cannot be chosen singly: name all of {', '.join(TLS_1_3)} or none"
        )
    return CipherSuites(":".join(map(openssl_name, older)), bool(modern))


def openssl_name(name: str) -> str:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not a cipher suite that is known here")
    parts = [found["exchange"], found["proof"]] if found["exchange"] else []
    parts.append(found["cipher"].replace("AES_", "AES").replace("_", "-"))
    if found["mode"] == "GCM":
        parts.append("GCM")
    if not found["cipher"].startswith("CHACHA"):
        parts.append(found["digest"])
    return "-".join(parts)
