"""What a console is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.console.machine.broker_metrics import address_fault

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SASL = ("SASL_PLAINTEXT", "SASL_SSL")
TYPED_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Those whose secret is a password, which a form can ask for."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the client library, as --command-config has them."""
    host: str = "127.0.0.1"
    port: int = 8090
    path_prefix: str = ""
    """Begins with a slash and does not end with one; empty without a reverse proxy."""
    read_only: bool = False
    allowed_hosts: tuple[str, ...] = ()
    """Names under which browsers may reach the console, beside those of loopback."""
    certificate: str = ""
    key: str = ""
    audit_path: str = "console-audit.jsonl"
    schema_registry: str = ""
    """Where schemas are asked for; only the operator says so."""
    metrics: tuple[str, ...] = ()
    """Where brokers tell their metrics; only the operator says so."""
    log_files: str = ""
    """The directory of a broker's log files, on this machine."""
    checkpoints: str = ""
    """A directory with checkpoints of Spark's queries, on this machine."""
    sample_seconds: float = 10.0

    @property
    def has_tls(self) -> bool:
        return bool(self.certificate)

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def protocol(self) -> str:
        return self.client.get("security.protocol", "PLAINTEXT").upper()

    @property
    def asks_for_login(self) -> bool:
        """The cluster wants a log-in and the settings have nobody's: users type their own."""
        has_own = {"sasl.jaas.config", "sasl.username"} & self.client.keys()
        return self.protocol in SASL and not has_own and self.mechanism in TYPED_MECHANISMS

    @property
    def mechanism(self) -> str:
        return self.client.get("sasl.mechanism", "SCRAM-SHA-256").upper()

    def refusal(self) -> str | None:
        """Why a console cannot be started like this, in one sentence."""
        if self.path_prefix and not self.path_prefix.startswith("/"):
            return f"--path-prefix must begin with a slash, not '{self.path_prefix}'."
        if bool(self.certificate) != bool(self.key):
            return "--tls-certificate and --tls-key belong together: give both."
        for address in self.metrics:
            fault = address_fault(address)
            if fault is not None:
                return fault
        if self.is_loopback or (self.has_tls and self.asks_for_login):
            return None
        return (
            f"--host {self.host} can be reached from other machines, which needs TLS"
            " (--tls-certificate, --tls-key) and a log-in (a --command-config with"
            " security.protocol=SASL_SSL or SASL_PLAINTEXT and without a user in it);"
            " without them the console listens on 127.0.0.1 only."
        )
