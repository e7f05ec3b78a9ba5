"""What kazoo's connection does not do by itself: TLS by any key store, and the log-in by SASL.

kazoo reads PEM files alone, trusts every public authority besides the one that it is told of, and
leaves an answer lying that came in one TLS record with another. Its log-in needs a library that
nobody keeps, and takes every connection that breaks off on the way for a wrong password, after
which it never tries again. Everything here runs on kazoo's threads.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from moldau.security.sasl.sasl_failures import SaslFailure, SaslInterrupted

if TYPE_CHECKING:
    from moldau.metadata.zookeeper_access import LogsIn

ROUNDS_MAX = 4


class Sockets(SequentialThreadingHandler):  # type: ignore[misc]
    """Opens connections, encrypted where a context is given, and remembers why one failed."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._context = context
        self.last_fault = ""

    def create_connection(
        self, *, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> socket.socket:
        try:
            plain = super().create_connection(address=address, timeout=timeout)
            return plain if self._context is None else self._encrypted(plain, hostname)
        except OSError as fault:
            self.last_fault = f"{hostname}:{address[1]}: {_reason(fault)}"
            raise

    def _encrypted(self, plain: socket.socket, hostname: str) -> socket.socket:
        assert self._context is not None
        try:
            # Within the same time as the connection.
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except (OSError, ValueError):
            plain.close()
            raise

    def select(
        self, readers: list[Any], writers: list[Any], faulty: list[Any], timeout: float | None
    ) -> Any:
        """What has been decrypted already is there to be read too."""
        pending = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not pending:
            return super().select(readers, writers, faulty, timeout)
        readable, writable, broken = super().select(readers, writers, faulty, 0)
        return [*pending, *(each for each in readable if each not in pending)], writable, broken


def _reason(fault: OSError) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not good: {fault.verify_message}"
    if isinstance(fault, ssl.SSLError):
        return f"TLS failed: {(fault.reason or 'no reason').replace('_', ' ').lower()}"
    return fault.strerror or str(fault) or type(fault).__name__


class LoggingIn(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, which logs in before anything else is asked."""

    def __init__(self, client: Any, login: LogsIn) -> None:
        sasl_options = {"name": login.name}
        super().__init__(
            client, client._conn_retry.copy(), logger=client.logger, sasl_options=sasl_options
        )
        self._login = login

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Raises AuthFailedError if the server says no, and ConnectionDropped if it, or the KDC,
        says nothing."""
        try:
            machine = self._login.machine(host)
            token: bytes | None = machine.first()
            for xid in range(1, ROUNDS_MAX + 1):
                token = machine.evaluate(self._ask(token or b"", xid, timeout))
                if machine.is_complete:
                    return
            raise SaslFailure("ZooKeeper asks for more and more")
        except SaslInterrupted as fault:
            self.handler.last_fault = f"{host}: {fault}"
            raise ConnectionDropped(str(fault)) from fault
        except SaslFailure as fault:
            self.handler.last_fault = f"{host}: {fault}"
            raise AuthFailedError(str(fault)) from fault

    def _ask(self, token: bytes, xid: int, timeout: float) -> bytes:
        self._submit(SASL(token), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.xid != xid:
            raise ConnectionDropped(f"the answer to a log-in is numbered {header.xid}, not {xid}")
        if header.err:
            raise SaslFailure(f"ZooKeeper refuses {self._login.name} (error {header.err})")
        challenge, _ = SASL.deserialize(buffer, offset)
        if challenge is None and xid == 1:
            raise SaslFailure("ZooKeeper has no section Server in its JAAS file, so no users")
        # At the end of a log-in by Kerberos it has nothing more to say.
        return bytes(challenge or b"")
