"""What answers at an address: resolve, connect, say a word of Kafka, and recognize the reply.

Only where nothing answers in Kafka's protocol are other protocols tried, so a healthy broker is
asked one harmless question (ApiVersions). Every step is bounded by the time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct

from moldau.diagnosis.evidence import Probe, Reach

CORRELATION_ID = 0x6D6F6C64
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, CORRELATION_ID, -1)
KAFKA_REPLY = struct.pack(">i", CORRELATION_ID)
HTTP_QUESTION = b"GET / HTTP/1.0\r\n\r\n"
ZOOKEEPER_QUESTION = b"ruok"
ZOOKEEPER_REPLIES = (b"imok", b"ruok is not executed")
REPLY_BYTES = 256
SHOWN_BYTES = 40
TLS_ALERT = b"\x15\x03"


async def probe(host: str, port: int, timeout_s: float, *, wants_tls: bool = False) -> Probe:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as fault:
        detail = fault.strerror if isinstance(fault, socket.gaierror) else "not a host name"
        return Probe(host, port, Reach.UNRESOLVED, detail or "")
    except TimeoutError:
        return Probe(host, port, Reach.UNRESOLVED, f"no answer from DNS within {timeout_s:g} s")
    addresses = tuple(dict.fromkeys(str(row[4][0]) for row in rows))
    reach, detail = await _reach(host, port, timeout_s)
    if wants_tls and reach in (Reach.KAFKA, Reach.TLS):
        # Whether Kafka is behind the TLS shows when a client talks there.
        reach = Reach.PLAINTEXT if reach is Reach.KAFKA else Reach.KAFKA
    return Probe(host, port, reach, detail, addresses)


async def _reach(host: str, port: int, timeout_s: float) -> tuple[Reach, str]:
    try:
        reply = await ask(host, port, API_VERSIONS_V0, timeout_s)
    except ConnectionRefusedError:
        return Reach.REFUSED, ""
    except _SilenceError:
        return await _other(host, port, timeout_s, Reach.SILENT)
    except TimeoutError:
        return Reach.TIMED_OUT, f"none within {timeout_s:g} s"
    except OSError as fault:
        return Reach.UNREACHABLE, fault.strerror or str(fault)
    if reply[4:8] == KAFKA_REPLY:
        return Reach.KAFKA, ""
    if not reply:
        return await _other(host, port, timeout_s, Reach.CLOSED)
    return recognize(reply)


def recognize(reply: bytes) -> tuple[Reach, str]:
    """Whose words these are, when they are not Kafka's."""
    if reply.startswith(b"HTTP/") or b"<html" in reply.lower():
        return Reach.HTTP, ""
    if reply.startswith(TLS_ALERT):
        return Reach.TLS, ""
    shown = reply[:SHOWN_BYTES].decode("ascii", "backslashreplace").strip()
    return Reach.FOREIGN, f"it says {shown!r}."


async def _other(host: str, port: int, timeout_s: float, otherwise: Reach) -> tuple[Reach, str]:
    """Which other protocol the program at the port speaks; all are tried at once."""
    http, zookeeper, tls = await asyncio.gather(
        _reply(host, port, HTTP_QUESTION, timeout_s),
        _reply(host, port, ZOOKEEPER_QUESTION, timeout_s),
        _speaks_tls(host, port, timeout_s),
    )
    if tls:
        return Reach.TLS, ""
    if zookeeper.startswith(ZOOKEEPER_REPLIES):
        return Reach.ZOOKEEPER, ""
    if http.startswith(b"HTTP/"):
        return Reach.HTTP, ""
    return otherwise, ""


async def _reply(host: str, port: int, question: bytes, timeout_s: float) -> bytes:
    try:
        return await ask(host, port, question, timeout_s)
    except OSError:
        return b""


class _SilenceError(TimeoutError):
    """Connected, and then nothing came."""


async def ask(host: str, port: int, question: bytes, timeout_s: float) -> bytes:
    """The first bytes of the reply, none if the other side hangs up. OSError if not connected."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(question)
        async with asyncio.timeout(timeout_s):
            return await reader.read(REPLY_BYTES)
    except TimeoutError:
        raise _SilenceError from None
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether a handshake gets anywhere; whom the certificate names does not matter here."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as fault:
        # The other side refused by an alert of TLS (it wants a client's certificate), or it
        # speaks something else, which looks like a wrong version.
        return "ALERT" in (fault.reason or "")
    except OSError:
        return False
    with contextlib.suppress(OSError):
        writer.transport.abort()
    return True
