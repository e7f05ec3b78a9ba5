"""`moldau console`: a cluster in the browser, for any Kafka cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from moldau.cli.command_clients import address_of, bootstrap_of, client_faults, properties_file
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, Tool, run_tool

PORT = 8090
MISSING = "the console needs three more packages: pip install 'moldau[console]'"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    try:
        from moldau.console.console_settings import ConsoleSettings
        from moldau.console.serving import bind, serve
    except ModuleNotFoundError as fault:
        raise CommandFault(f"{MISSING} ({fault.name} is not there)") from None
    bootstrap = bootstrap_of(given, out)
    for each in bootstrap.split(","):
        address_of(each)
    client = properties_file(given.text("command-config")) if given.has("command-config") else {}
    settings = ConsoleSettings(
        bootstrap=bootstrap,
        client=client,
        host=given.text("host"),
        port=given.number("port"),
        path_prefix=given.text("path-prefix").rstrip("/"),
        read_only=given.has("read-only"),
        allowed_hosts=tuple(given.texts("allowed-host")),
        certificate=given.text("tls-certificate"),
        key=given.text("tls-key"),
        audit_path=given.text("audit-file"),
        schema_registry=registry_of(given.text("schema-registry")),
        metrics=tuple(given.texts("metrics")),
        log_files=given.text("log-files"),
        checkpoints=given.text("checkpoints"),
    )
    refusal = settings.refusal()
    if refusal is not None:
        raise CommandFault(refusal)
    try:
        listener = bind(settings)
    except OSError as fault:
        raise CommandFault(
            f"cannot listen on {settings.host}:{settings.port}: {fault.strerror}"
        ) from None
    settings = dataclasses.replace(settings, port=listener.getsockname()[1])

    def tell(address: str) -> None:
        if out.is_json:
            out.json({"bootstrapServer": bootstrap, "address": address})
        out.line(f"The console of {bootstrap} is at {address}")
        out.flush()

    with client_faults(), listener:
        serve(settings, listener, tell)


def registry_of(address: str) -> str:
    """The address as it was given, if it can be one."""
    from moldau.client.serialization.schema_registry import Registry, RegistryError

    if address:
        try:
            Registry(address)
        except RegistryError as fault:
            raise CommandFault(str(fault)) from None
    return address


TOOL = Tool(
    name="console",
    does="Shows a cluster in the browser, and changes it where you say so.",
    flags=(
        BOOTSTRAP,
        Flag(
            "--port",
            "The port that it listens on; 0 takes any that is free.",
            takes="PORT",
            kind=integer,
            default=PORT,
        ),
        Flag("--host", "The address it listens on.", takes="HOST", default="127.0.0.1"),
        COMMAND_CONFIG,
        Flag("--read-only", "Refuse everything that changes something."),
        Flag(
            "--path-prefix",
            "Under which path a reverse proxy shows it.",
            takes="/PATH",
            default="",
        ),
        Flag(
            "--allowed-host",
            "A name under which browsers reach it, beside localhost; may be repeated.",
            takes="NAME",
            repeats=True,
        ),
        Flag("--tls-certificate", "A certificate in PEM form.", takes="FILE", default=""),
        Flag("--tls-key", "Its private key in PEM form.", takes="FILE", default=""),
        Flag(
            "--audit-file",
            "Where changes are written down.",
            takes="FILE",
            default="console-audit.jsonl",
        ),
        Flag(
            "--schema-registry",
            "A schema registry, for values in Avro and Protobuf.",
            takes="URL",
            default="",
        ),
        Flag(
            "--metrics",
            "Where a broker tells its metrics (metrics.http.listener); may be repeated.",
            takes="URL",
            repeats=True,
        ),
        Flag("--log-files", "The directory of a broker's log files.", takes="DIR", default=""),
        Flag(
            "--checkpoints",
            "A directory with checkpoints of Spark's queries.",
            takes="DIR",
            default="",
        ),
    ),
    main=main,
    notes="A --command-config with security.protocol=SASL_SSL (or SASL_PLAINTEXT), a sasl.mechanism"
    " and no user makes the console ask for a log-in: everybody then acts as the Kafka user that"
    " they sign in as. With a user in it, everybody acts as that user. Without TLS and a log-in it"
    " listens on this machine only.",
    examples=(
        "moldau console --bootstrap-server localhost:9092",
        "moldau console --bootstrap-server kafka.example:9093 --command-config login.properties",
        "moldau console --bootstrap-server localhost:9092 --read-only --path-prefix /kafka",
    ),
)
