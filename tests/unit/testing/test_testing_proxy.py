"""The proxy in front of a test's broker leaves nothing open, whenever it is closed."""

from __future__ import annotations

import gc
import socket
import threading
import warnings

from moldau.testing.proxy import HOST, Proxy

ROUNDS = 30
DIALS = 20


def test_a_proxy_that_is_closed_while_clients_come_leaves_no_connection_open() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(ROUNDS):
            proxy = Proxy()
            proxy.open(target_port=1)  # nobody is there
            clients: list[socket.socket] = []
            dialling = threading.Thread(target=_dial, args=(proxy.port, clients))
            dialling.start()
            proxy.close()
            dialling.join()
            for client in clients:
                client.close()
            del proxy
        gc.collect()
    assert [str(each.message) for each in told] == []


def _dial(port: int, clients: list[socket.socket]) -> None:
    for _ in range(DIALS):
        try:
            clients.append(socket.create_connection((HOST, port), 1))
        except OSError:
            return  # closed by now
