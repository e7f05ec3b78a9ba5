"""`moldau zookeeper-security-migration`: protect a cluster's tree in ZooKeeper, or open it again.

Takes what zookeeper-security-migration.sh takes. Who it is comes from the JAAS file that KAFKA_OPTS
names, or from the certificate in --zk-tls-config-file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.cli.command_clients import properties_file
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from moldau.metadata.zookeeper_access import ZooKeeperAccess

SECURE, UNSECURE = "secure", "unsecure"
TLS_KEYS = ("zookeeper.ssl.", "zookeeper.clientCnxnSocket", "zookeeper.digest")
NO_KEY = (
    "No JAAS configuration file has been specified and no TLS client certificate has been "
    "specified. Please make sure that you set the system property java.security.auth.login.config "
    "(in KAFKA_OPTS) or provide a ZooKeeper client TLS configuration via --zk-tls-config-file "
    "<filename> identifying at least zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, and "
    "zookeeper.ssl.keystore.location"
)
WRONG_ROOT = "That might be due to an incorrect chroot is specified when executing the command."


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    wanted = given.maybe_text("zookeeper.acl")
    if wanted not in (SECURE, UNSECURE):
        raise UsageFault(f"--zookeeper.acl must be {SECURE} or {UNSECURE}.")
    access = access_of(given, is_protected=wanted == SECURE)
    try:
        client = connected(access)
        try:
            work(
                client,
                access,
                out,
                checks_roots=given.has("enable.path.check"),
                as_json=given.has("json"),
            )
        finally:
            client.stop()
            client.close()
    except (KazooException, KazooTimeoutError) as fault:
        reason = str(fault) or type(fault).__name__
        raise CommandFault(f"ZooKeeper at {access.connect} does not do it: {reason}") from None


def work(
    client: KazooClient,
    access: ZooKeeperAccess,
    out: Output,
    *,
    checks_roots: bool,
    as_json: bool,
) -> None:
    from moldau.metadata.zookeeper_migration import migrate, missing_roots

    missing = missing_roots(client)
    if missing and not as_json:
        paths = ",".join(missing)
        out.line(f"Warning: The following secure root paths do not exist in ZooKeeper: {paths}")
        out.line(WRONG_ROOT)
    if missing and checks_roots:
        raise CommandFault("Exit the command.")
    count = migrate(client, is_protected=access.protects_nodes)
    done = "protected" if access.protects_nodes else "opened"
    if as_json:
        out.json({done: count, "missing": missing})
    else:
        out.line(f"{count} nodes {done}.")


def access_of(given: Given, *, is_protected: bool) -> ZooKeeperAccess:
    from moldau.config.broker_config import BrokerConfig
    from moldau.config.java_options import java_settings
    from moldau.config.setting_definition import ConfigError
    from moldau.metadata.zookeeper_access import ZooKeeperAccess

    settings = {
        "zookeeper.connect": given.text("zookeeper.connect"),
        "zookeeper.session.timeout.ms": str(given.number("zookeeper.session.timeout")),
        "zookeeper.connection.timeout.ms": str(given.number("zookeeper.connection.timeout")),
        **java_settings(os.environ),
    }
    if given.has("zk-tls-config-file"):
        found = properties_file(given.text("zk-tls-config-file"))
        settings |= {key: value for key, value in found.items() if key.startswith(TLS_KEYS)}
    try:
        config, _ = BrokerConfig.parse(settings)
        access = ZooKeeperAccess.of(config)
        has_certificate = access.tls is not None and config.zookeeper_ssl_keystore_location
    except ConfigError as fault:
        raise CommandFault(str(fault)) from None
    if not (access.login or access.digest or has_certificate):
        raise CommandFault(f"ERROR: {NO_KEY}")
    return access._replace(protects_nodes=is_protected)


def connected(access: ZooKeeperAccess) -> KazooClient:
    from moldau.metadata.zookeeper_access import new_client

    client = new_client(access)
    client.start(timeout=access.connection_timeout_ms / 1000)
    return client


TOOL = Tool(
    name="zookeeper-security-migration",
    does="Protects a cluster's nodes in ZooKeeper, so that only the brokers may change them,"
    " or opens them again.",
    flags=(
        Flag(
            "--zookeeper.acl",
            "secure gives the nodes to whoever runs this, readable for others where nothing is "
            "secret; unsecure opens them for everybody.",
            takes="WHICH",
        ),
        Flag(
            "--zookeeper.connect",
            "The ensemble, as host:port,host:port with the brokers' chroot.",
            takes="HOST:PORT",
            default="localhost:2181",
        ),
        Flag(
            "--zookeeper.session.timeout",
            "ZooKeeper forgets the command after this long without a sign of life.",
            takes="MS",
            kind=integer,
            default=30000,
        ),
        Flag(
            "--zookeeper.connection.timeout",
            "How long to wait for ZooKeeper.",
            takes="MS",
            kind=integer,
            default=30000,
        ),
        Flag("--enable.path.check", "Do nothing if one of Kafka's nodes is missing."),
        Flag(
            "--zk-tls-config-file",
            "A properties file with zookeeper.ssl.* settings.",
            takes="FILE",
        ),
        JSON,
    ),
    main=main,
    examples=(
        "KAFKA_OPTS=-Djava.security.auth.login.config=jaas.conf moldau "
        "zookeeper-security-migration --zookeeper.acl=secure --zookeeper.connect=localhost:2181",
    ),
    notes=(
        "First give every broker a user for ZooKeeper, with zookeeper.set.acl=false; then start "
        "them again with zookeeper.set.acl=true; then run this. On the way back brokers get "
        "zookeeper.set.acl=false first, then run this, then take the user away."
    ),
)
