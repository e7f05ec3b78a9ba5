"""Who tries to break a broker before anybody knows who it is: on every kind of listener.

`python -m tests.support.hostile_logins KIND PORT SEED COUNT` sends COUNT mutated frames to a port
of that kind, a few on each connection, and prints what became of them. On a TLS port a part of
them are mutated records of the handshake, the rest come through a handshake that was in order.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import struct
import sys
from collections import Counter
from collections.abc import Callable

from moldau.handlers.routes import ROUTES
from moldau.wire.apis import request_class
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.request_framing import encode_request
from tests.support.random_messages import RandomMessages

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "", "x" * 300)
FRAMES_PER_CONNECTION = 4
AT_ONCE = 64
ANSWER_SECONDS = 0.05
CONNECT_SECONDS = 60.0
TLS_SHARE = 0.5
"""How much of what goes to a TLS port is about the handshake itself."""
TOKENS = (
    b"\0alice\0wonder",
    b"bob\0alice\0wonder",
    b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL",
    b"n,a=bob,n=alice,r=fyko+d2lbbFgONRv9qkxdawL,tokenauth=true",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.\x01\x01",
    b"n,a=bob,\x01auth=bearer a.b.c\x01traceId=1\x01\x01",
    b"\x01",
    b"",
)


class Frames:
    """What is sent in the place of a log-in."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._messages = RandomMessages(dice)
        self._others = [
            encode_request(
                key,
                route.version_max,
                1,
                "hostile",
                self._messages.message(request_class(key), route.version_max),
            )
            for key, route in sorted(ROUTES.items())
        ]

    def conversation(self) -> list[bytes]:
        """Some are in order up to the last, so that every step of a log-in is met."""
        dice = self._dice
        kinds: list[Callable[[], bytes]] = [
            self._versions,
            self._handshake,
            self._authenticate,
            self._bare_token,
            lambda: dice.choice(self._others),
        ]
        frames = [dice.choice(kinds)() for _ in range(dice.randint(1, FRAMES_PER_CONNECTION))]
        if dice.random() < 0.7:
            frames.insert(0, self._handshake(dice.choice(MECHANISMS[:4])))
        return [*frames[:-1], mutated(frames[-1], dice)]

    def _versions(self) -> bytes:
        version = self._dice.randint(0, 5)
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        return encode_request(18, min(version, 4), 1, "hostile", request)

    def _handshake(self, mechanism: str | None = None) -> bytes:
        name = self._dice.choice(MECHANISMS) if mechanism is None else mechanism
        version = self._dice.choice((0, 1, 1, 1))
        return encode_request(17, version, 2, "hostile", SaslHandshakeRequest(mechanism=name))

    def _token(self) -> bytes:
        token = self._dice.choice(TOKENS)
        if self._dice.random() < 0.7:
            token = mutated_bytes(token, self._dice)
        return token * self._dice.choice((1, 1, 1, 1, 1, 50, 2000))

    def _authenticate(self) -> bytes:
        request = SaslAuthenticateRequest(auth_bytes=self._token())
        return encode_request(36, self._dice.randint(0, 2), 3, "hostile", request)

    def _bare_token(self) -> bytes:
        token = self._token()
        return struct.pack(">i", len(token)) + token


def mutated_bytes(data: bytes, dice: random.Random) -> bytes:
    body = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(body) + 1)
        match dice.randrange(4):
            case 0 if place < len(body):
                body[place] = dice.randrange(256)
            case 1 if place < len(body):
                del body[place]
            case 2:
                body[place:place] = dice.choice(
                    (b"=", b",", b"\0", b"\x01", b"\xff\xfe", b"%", b"=")
                )
            case _:
                body[place:place] = dice.randbytes(dice.randint(0, 12))
    return bytes(body)


def mutated(frame: bytes, dice: random.Random) -> bytes:
    """The size may lie as well."""
    match dice.randrange(6):
        case 0:
            return struct.pack(">i", dice.choice((0, -1, 2**31 - 1, 524_289, 524_288))) + frame[4:]
        case 1:
            return frame[: dice.randrange(len(frame) + 1)]
        case 2:
            return dice.randbytes(dice.randint(1, 200))
        case _:
            body = mutated_bytes(frame[4:], dice)
            return struct.pack(">i", len(body)) + body


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        engine.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Crowd:
    def __init__(self, kind: str, port: int, seed: int, count: int) -> None:
        self._kind = kind
        self._port = port
        self._dice = random.Random(seed)
        self._frames = Frames(self._dice)
        self._hello = client_hello()
        self._context = trusting() if kind in (SSL, SASL_SSL) else None
        self._left = count
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        await asyncio.gather(*(self._one() for _ in range(AT_ONCE)))

    async def _one(self) -> None:
        while self._left > 0:
            is_bare = self._context is not None and self._dice.random() < TLS_SHARE
            if is_bare:
                frames = [mutated_bytes(self._hello, self._dice)]
                if self._dice.random() < 0.3:
                    frames.append(self._dice.randbytes(self._dice.randint(1, 2000)))
            else:
                frames = self._frames.conversation()
            self._left -= len(frames)
            try:
                await self._converse(frames, None if is_bare else self._context)
            except (OSError, ssl.SSLError) as fault:
                self.outcomes[type(fault).__name__] += 1

    async def _converse(self, frames: list[bytes], context: ssl.SSLContext | None) -> None:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", self._port, ssl=context), CONNECT_SECONDS
        )
        try:
            for frame in frames:
                self.outcomes["sent"] += 1
                writer.write(frame)
                await writer.drain()
                try:
                    answer = await asyncio.wait_for(reader.read(65_536), ANSWER_SECONDS)
                except TimeoutError:
                    self.outcomes["silent"] += 1
                    continue
                self.outcomes["answered" if answer else "closed"] += 1
                if not answer:
                    return
        finally:
            writer.transport.abort()


def main(kind: str, port: int, seed: int, count: int) -> int:
    crowd = Crowd(kind, port, seed, count)
    asyncio.run(crowd.run())
    print(json.dumps(crowd.outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
