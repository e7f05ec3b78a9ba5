"""Everything that a new, secured broker needs: who signs, who may come in, who may do what.

Worked out whole before anything is written. Files are for their owner alone and never overwritten;
the broker's first users stand in its metadata before it starts for the first time.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.broker.access.first_access import credentials_of, write_first_access
from moldau.config.properties import format_properties
from moldau.net.tls.authority import Authority
from moldau.security.acl.acl_model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from moldau.security.jaas import login_module_text
from moldau.security.naming.principal import USER, Principal
from moldau.security.sasl.sasl_mechanism import SCRAM_SHA_512
from moldau.storage.storage_faults import StorageFault

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
BROKER, ADMIN = "broker", "admin"
PASSWORD_BYTES = 24
FILE_MODE, FOLDER_MODE = 0o600, 0o700
NAME_RULE = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
"""`CN=alice` of a certificate is the user alice, as if alice had logged in by a password."""
ALLOWED: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""What a user may do at first, on everything that begins with the prefix."""


class Plan(NamedTuple):
    directory: Path
    log_dir: Path
    hosts: Sequence[str]
    port: int
    users: Sequence[str]
    """Beside `admin`, who may do everything."""
    prefix: str
    """Of the topics, groups and transactional ids that users may use; empty for all."""
    has_passwords: bool
    """SASL_SSL with SCRAM; else certificates say who clients are."""
    days: int

    @property
    def protocol(self) -> str:
        return "SASL_SSL" if self.has_passwords else "SSL"

    @property
    def bootstrap(self) -> str:
        return f"{self.hosts[0]}:{self.port}"

    def path(self, name: str) -> Path:
        return self.directory / name


def make(plan: Plan) -> list[Path]:
    """The files, all written. Raises StorageFault, and leaves nothing behind, if one of them is
    there already, or the log directory was used before."""
    passwords = {
        name: secrets.token_urlsafe(PASSWORD_BYTES) for name in (BROKER, ADMIN, *plan.users)
    }
    files = _files(plan, passwords)
    written: list[Path] = []
    try:
        plan.directory.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for name, text in files.items():
            _write(plan.path(name), text)
            written.append(plan.path(name))
        credentials = credentials_of(passwords) if plan.has_passwords else []
        write_first_access(str(plan.log_dir), credentials, acls_of(plan))
    except (OSError, StorageFault) as fault:
        for path in written:
            path.unlink()
        if isinstance(fault, OSError):
            raise StorageFault.of("cannot write", str(fault.filename), fault) from fault
        raise
    return written


def acls_of(plan: Plan) -> list[Acl]:
    pattern = PatternType.PREFIXED if plan.prefix else PatternType.LITERAL
    rows = [
        (ResourcePattern(kind, plan.prefix or WILDCARD, pattern), operation)
        for kind, operations in ALLOWED.items()
        for operation in operations
    ]
    cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
    rows.append((cluster, Operation.IDEMPOTENT_WRITE))
    return [
        Acl(resource, Entry(str(Principal(USER, name)), WILDCARD, operation, Permission.ALLOW))
        for name in plan.users
        for resource, operation in rows
    ]


def _files(plan: Plan, passwords: dict[str, str]) -> dict[str, str]:
    """By name. Raises StoreFault without the package that makes certificates."""
    authority = Authority.create("Moldau CA", plan.days)
    broker = authority.issue_broker(BROKER, plan.hosts, plan.days)
    files = {
        "ca.key": authority.identity.key,
        "ca.pem": authority.identity.certificate,
        "broker.pem": broker.together,
        "server.properties": _properties(
            f" moldau server-start {plan.path('server.properties')}",
            _server(plan, passwords[BROKER]),
        ),
    }
    for name in (ADMIN, *plan.users):
        if not plan.has_passwords:
            files[f"{name}.pem"] = authority.issue_client(name, plan.days).together
        files[f"{name}.properties"] = _properties(
            f" for clients of {name}: --command-config {plan.path(f'{name}.properties')}",
            _client(plan, name, passwords[name]),
        )
    return files


def _server(plan: Plan, password: str) -> dict[str, str]:
    protocol = plan.protocol
    settings = {
        "broker.id": "0",
        "log.dirs": str(plan.log_dir),
        "listeners": f"{protocol}://:{plan.port}",
        "advertised.listeners": f"{protocol}://{plan.bootstrap}",
        "security.inter.broker.protocol": protocol,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(plan.path("broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(plan.path("ca.pem")),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"{USER}:{ADMIN};{USER}:{BROKER}",
    }
    if not plan.has_passwords:
        return settings | {
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": NAME_RULE,
        }
    own = login_module_text(SCRAM_MODULE, {"username": BROKER, "password": password})
    return settings | {
        "sasl.enabled.mechanisms": SCRAM_SHA_512,
        "sasl.mechanism.inter.broker.protocol": SCRAM_SHA_512,
        f"listener.name.sasl_ssl.{SCRAM_SHA_512.lower()}.sasl.jaas.config": own,
    }


def _client(plan: Plan, name: str, password: str) -> dict[str, str]:
    settings = {
        "security.protocol": plan.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(plan.path("ca.pem")),
    }
    if not plan.has_passwords:
        return settings | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(plan.path(f"{name}.pem")),
        }
    own = login_module_text(SCRAM_MODULE, {"username": name, "password": password})
    return settings | {"sasl.mechanism": SCRAM_SHA_512, "sasl.jaas.config": own}


def _properties(comment: str, settings: dict[str, str]) -> str:
    return format_properties(settings, comment=comment)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
