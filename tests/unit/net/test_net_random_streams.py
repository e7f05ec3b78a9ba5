"""Random requests in random pieces, answered in random order: every answer arrives, in order."""

from __future__ import annotations

import asyncio
import random
import socket

from moldau.net.server import SocketSettings
from tests.support import seeds
from tests.support.echo_server import (
    ECHO,
    LATER,
    LATER_OVERLAPPING,
    LONG,
    NOTHING,
    EchoServer,
    answer_of,
    frame,
    run,
)

ROUNDS = 4
REQUESTS = 60


def random_request(dice: random.Random) -> tuple[bytes, bytes]:
    """A request and its answer."""
    kind = dice.choice(
        (ECHO, ECHO, ECHO, LATER, LATER_OVERLAPPING, LATER_OVERLAPPING, NOTHING, LONG)
    )
    if kind == LONG:
        size = int(2 ** dice.uniform(0, 19))
        return frame(LONG, b"%d" % size), answer_of(bytes(size))
    body = dice.randbytes(int(2 ** dice.uniform(0, 18)) - 1)
    return frame(kind, body), b"" if kind == NOTHING else answer_of(body)


async def send_in_pieces(sock: socket.socket, data: bytes, dice: random.Random) -> None:
    loop, position = asyncio.get_running_loop(), 0
    while position < len(data):
        size = int(2 ** dice.uniform(0, 18))
        await loop.sock_sendall(sock, data[position : position + size])
        position += size
        if dice.random() < 0.2:
            await asyncio.sleep(0)


async def receive(sock: socket.socket, wanted: bytes, dice: random.Random) -> None:
    loop, position = asyncio.get_running_loop(), 0
    while position < len(wanted):
        if dice.random() < 0.1:
            await asyncio.sleep(0)
        piece = await loop.sock_recv(sock, int(2 ** dice.uniform(8, 20)))
        assert piece, "the connection ended early"
        assert wanted.startswith(piece, position), f"wrong answer at {position}"
        position += len(piece)


async def release_at_random(echo: EchoServer, dice: random.Random) -> None:
    while True:
        waiting = [answer for answer in echo.requests.later if answer.chunks is None]
        if waiting:
            dice.choice(waiting).release()
        await asyncio.sleep(0)


def test_every_answer_arrives_in_order_however_the_bytes_are_cut() -> None:
    dice = seeds.chance()

    async def scenario() -> None:
        for _ in range(seeds.times(ROUNDS)):
            settings = SocketSettings(
                send_buffer_bytes=dice.choice((-1, 30_000, 100_000)),
                receive_buffer_bytes=dice.choice((-1, 30_000, 100_000)),
                requests_overlapping_max=dice.choice((1, 3, 500)),
            )
            pairs = [random_request(dice) for _ in range(REQUESTS)]
            async with EchoServer(settings) as echo:
                releasing = asyncio.create_task(release_at_random(echo, dice))
                with socket.create_connection(("127.0.0.1", echo.port)) as client:
                    client.setblocking(False)
                    await asyncio.gather(
                        send_in_pieces(client, b"".join(pair[0] for pair in pairs), dice),
                        receive(client, b"".join(pair[1] for pair in pairs), dice),
                    )
                releasing.cancel()
                assert echo.server.overlapping == 0

    run(scenario)
