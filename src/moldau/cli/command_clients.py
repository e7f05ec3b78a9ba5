"""How commands reach a cluster: whom to ask, with which settings, and what a failure is called.

Commands use the synchronous clients. Whatever such a client raises becomes a CommandFault here,
so that no command has to know the client's exceptions.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

BROKER_PORT = 9092
BOOTSTRAP_VARIABLE = "MOLDAU_BOOTSTRAP_SERVER"
REACH_MS = 60_000
PROBE_SECONDS = 2.0
PROBE_PAUSE_SECONDS = 0.2

ZOOKEEPER = Flag(
    "--zookeeper",
    "Old: the brokers that are registered there answer instead; without a ZooKeeper those on port "
    f"9092 of this host, or where {BOOTSTRAP_VARIABLE} says.",
    takes="HOST:PORT",
)


def bootstrap_of(given: Given, out: Output, missing: str = "") -> str:
    """The brokers to ask; `missing` is what Kafka's tool says when nobody is named."""
    if _takes(given, "bootstrap-controller") and given.has("bootstrap-controller"):
        if given.has("bootstrap-server"):
            raise UsageFault(
                "Please don't specify both --bootstrap-server and --bootstrap-controller"
            )
        # There are no controllers but brokers, and any of them passes on what is for the one.
        return given.text("bootstrap-controller")
    if given.has("bootstrap-server"):
        return given.text("bootstrap-server")
    if _takes(given, "zookeeper") and given.has("zookeeper"):
        return from_zookeeper(given.text("zookeeper"), out)
    named = os.environ.get(BOOTSTRAP_VARIABLE)
    if named:
        return named
    raise UsageFault(missing or 'Missing required argument "[bootstrap-server]"')


def _takes(given: Given, key: str) -> bool:
    return key in given.flags


def from_zookeeper(connect: str, out: Output) -> str:
    """Those that are registered there. A single node has no ZooKeeper: brokers usually run where
    it would; where not, the environment says where they are."""
    from moldau.cli.zookeeper.zookeeper_brokers import brokers_in

    named = os.environ.get(BOOTSTRAP_VARIABLE) or ",".join(brokers_in(connect))
    if not named:
        hosts = [each.strip().rpartition(":")[0] for each in connect.split("/")[0].split(",")]
        named = ",".join(f"{host or 'localhost'}:{BROKER_PORT}" for host in hosts)
    out.remark(
        f"--zookeeper is old: asking the brokers at {named} instead."
        f" Name others with --bootstrap-server or {BOOTSTRAP_VARIABLE}."
    )
    return named


def properties_file(path: str) -> dict[str, str]:
    from moldau.config.properties import PropertiesError, parse_properties

    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as fault:
        raise CommandFault(f"{path} cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError:
        raise CommandFault(f"{path} cannot be read: it is not text in UTF-8") from None
    except PropertiesError as fault:
        raise CommandFault(f"{path} cannot be read: {fault}") from None


def key_values(texts: list[str], *, accepts_missing: bool = True) -> dict[str, str]:
    """key=value words, as --property and its like take them."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or (not equals and not accepts_missing):
            raise CommandFault(f"Invalid command line properties: {text} is not key=value")
        found[key] = value
    return found


def json_file(path: str) -> object:
    import json

    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as fault:
        raise CommandFault(f"{path} cannot be read: {fault.strerror}") from None
    except ValueError as fault:
        raise CommandFault(f"{path} is not valid JSON: {fault}") from None


@contextlib.contextmanager
def open_admin(
    given: Given, out: Output, *, config_key: str = "command-config", missing: str = ""
) -> Iterator[Admin]:
    """An admin of the cluster that the flags name; its failures become CommandFaults."""
    bootstrap = bootstrap_of(given, out, missing)
    settings = properties_file(given.text(config_key)) if given.has(config_key) else {}
    settings["bootstrap.servers"] = bootstrap
    with client_faults():
        reach(bootstrap, settings, out)
        from moldau.client.admin.blocking_admin import Admin

        with Admin(settings) as admin:
            yield admin


@contextlib.contextmanager
def client_faults() -> Iterator[None]:
    from moldau.client.shared.client_errors import ConfigError, KafkaError

    try:
        yield
    except KafkaError as error:
        raise fault_of(error) from None
    except ConfigError as error:
        raise CommandFault(str(error)) from None


def fault_of(error: Exception) -> CommandFault:
    return CommandFault(str(error), java=java_name(error))


def java_name(error: Exception) -> str:
    """What Java calls it, for those who search logs for the name."""
    from moldau.cli.answers import exception_name

    return f"org.apache.kafka.common.errors.{exception_name(error)}"


def reach(bootstrap: str, settings: Mapping[str, str], out: Output) -> None:
    """Wait until one of the brokers accepts a connection, and say so if that takes a while."""
    limit_ms = settings.get("default.api.timeout.ms", settings.get("request.timeout.ms", ""))
    seconds = (int(limit_ms) if limit_ms.isdigit() else REACH_MS) / 1000
    deadline = time.monotonic() + seconds
    addresses = [address_of(each) for each in bootstrap.split(",") if each.strip()]
    is_first = True
    while True:
        reasons = [reason for each in addresses if (reason := refusal(*each))]
        if len(reasons) < len(addresses):
            return
        if time.monotonic() >= deadline:
            raise CommandFault(
                f"Timed out waiting for a node assignment: {'; '.join(reasons)}",
                java="org.apache.kafka.common.errors.TimeoutException",
            )
        if is_first:
            out.remark(f"{'; '.join(reasons)}. Trying for {seconds:.0f} s; Ctrl-C ends it.")
            is_first = False
        time.sleep(PROBE_PAUSE_SECONDS)


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    host = host.rpartition("://")[2].strip("[]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise CommandFault(f"Invalid url in bootstrap.servers: {text.strip()} is not host:port")
    return host, int(port)


def refusal(host: str, port: int) -> str | None:
    """Why no connection can be made, or None."""
    try:
        socket.create_connection((host, port), PROBE_SECONDS).close()
    except socket.gaierror:
        return f"Couldn't resolve server {host}:{port} from bootstrap.servers"
    except TimeoutError:
        return f"Connection to {host}:{port} could not be established: no answer"
    except OSError as fault:
        return f"Connection to {host}:{port} could not be established: {fault.strerror}"
    return None
