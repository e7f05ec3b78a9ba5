"""`moldau security init`: a new broker that lets nobody in without a key."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.cli.security.new_cluster import Plan

PORT = 9093
DAYS = 825
USER = "client"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HOST = re.compile(r"[A-Za-z0-9.:_-]{1,255}")
RESERVED = ("broker", "admin", "ca", "server")


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def init(given: Given, out: Output) -> None:
    from moldau.net.tls.pem_blocks import StoreFault
    from moldau.storage.storage_faults import StorageFault

    try:
        from moldau.cli.security.new_cluster import Plan, make

        directory = Path(given.text("directory")).absolute()
        plan = Plan(
            directory=directory,
            log_dir=Path(given.value("log-dir") or directory / "data").absolute(),
            hosts=_names("host", given.texts("host") or _own_hosts(), HOST),
            port=_within("port", given.number("port"), 65535),
            users=_names("user", given.texts("user") or [USER], NAME),
            prefix=given.value("prefix") or "",
            has_passwords=not given.has("mutual-tls"),
            days=_within("days", given.number("days"), 36500),
        )
        files = make(plan)
    except (StoreFault, StorageFault) as fault:
        raise CommandFault(str(fault)) from fault
    if given.has("json"):
        out.json(
            {
                "bootstrapServers": plan.bootstrap,
                "securityProtocol": plan.protocol,
                "serverProperties": str(plan.path("server.properties")),
                "logDir": str(plan.log_dir),
                "users": ["admin", *plan.users],
                "files": [str(path) for path in files],
            }
        )
        return
    for line in _told(plan, len(files)):
        out.line(line)


def _told(plan: Plan, file_count: int) -> tuple[str, ...]:
    """What to do next. No secret is printed: terminals and build logs remember."""
    settings = plan.path(f"{plan.users[0]}.properties")
    return (
        f"Made {file_count} files in {plan.directory}, readable by you alone, and the first users "
        f"in {plan.log_dir}.",
        "",
        "Start the broker:",
        f"  moldau server-start {plan.path('server.properties')}",
        "",
        "A client needs three settings:",
        f"  bootstrap.servers={plan.bootstrap}",
        f"  security.protocol={plan.protocol}",
        f"  and who it is, which nobody else should see: {settings}",
        "",
        "Try it:",
        f"  echo hello | moldau console-producer --bootstrap-server {plan.bootstrap} --topic "
        f"{plan.prefix}hello --producer.config {settings}",
        "",
        f"User admin ({plan.path('admin.properties')}) may do everything; "
        f"{', '.join(plan.users)} may read, write and create "
        + (f"topics that begin with {plan.prefix}." if plan.prefix else "all topics."),
        f"Keep {plan.path('ca.key')} somewhere else: whoever has it can be anybody.",
    )


def _own_hosts() -> list[str]:
    return list(dict.fromkeys(["localhost", socket.gethostname(), "127.0.0.1"]))


def _names(flag: str, names: Sequence[str], form: re.Pattern[str]) -> tuple[str, ...]:
    for name in names:
        if not form.fullmatch(name) or (flag == "user" and name in RESERVED):
            also = f" and none of {', '.join(RESERVED)}" if flag == "user" else ""
            raise UsageFault(f"--{flag} {name!r} must be made of letters, digits, . _ -{also}")
    if len(set(names)) < len(names):
        raise UsageFault(f"--{flag} names one of {', '.join(names)} twice")
    return tuple(names)


def _within(flag: str, number: int, most: int) -> int:
    if not 0 < number <= most:
        raise UsageFault(f"--{flag} {number} must be between 1 and {most}")
    return number


def refuse(given: Given, out: Output) -> None:
    raise CommandFault("Name what to do: security init --directory DIR")


TOOL = Tool(
    name="security",
    does="Makes what a secured broker needs: certificates, users, access lists, settings.",
    flags=(),
    main=refuse,
    commands=(
        Tool(
            name="security init",
            does="Makes all that a new broker on its own needs to let nobody in without a key: a "
            "certificate authority, the broker's certificate, users with passwords, access control "
            "lists, server.properties for the broker and a file of settings for each user. "
            "Nothing that is there is overwritten.",
            flags=(
                Flag(
                    "--directory",
                    "The folder for certificates, keys and settings.",
                    takes="DIR",
                    required=True,
                ),
                Flag("--log-dir", "The broker's log directory; else DIR/data.", takes="DIR"),
                Flag(
                    "--host",
                    "A name or address by which clients reach the broker; give the flag once for "
                    "each, the first is the one they are told. Else localhost and this machine's.",
                    takes="HOST",
                    repeats=True,
                ),
                Flag(
                    "--port",
                    "The port that the broker listens on.",
                    takes="N",
                    kind=int,
                    default=PORT,
                ),
                Flag(
                    "--user",
                    "A user beside admin; give the flag once for each. Else one, client.",
                    takes="NAME",
                    repeats=True,
                ),
                Flag(
                    "--prefix",
                    "Users may only use topics, groups and transactional ids that begin so. Else "
                    "all.",
                    takes="TEXT",
                ),
                Flag(
                    "--mutual-tls",
                    "Certificates say who clients are (SSL), instead of passwords (SASL_SSL with "
                    "SCRAM-SHA-512).",
                ),
                Flag(
                    "--days",
                    "How long certificates are valid.",
                    takes="N",
                    kind=int,
                    default=DAYS,
                ),
                JSON,
            ),
            main=init,
            examples=(
                "moldau security init --directory secured",
                "moldau security init --directory secured --host kafka.example --user orders",
                "moldau server-start secured/server.properties",
                "moldau topics --list --bootstrap-server localhost:9093 --command-config "
                "secured/admin.properties",
            ),
            notes="Passwords are drawn at random and stand in the users' files only. More users "
            "and lists come at run time, with admin.properties.",
        ),
    ),
    examples=("moldau security init --directory secured",),
)
