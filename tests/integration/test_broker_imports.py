"""What a plain broker has imported when it is ready: a short start and little memory are features.

Nothing is timed here; that is what the benchmarks of a start are for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess

LINE = "import time:"
ENVIRONMENT = {"PYTHONPROFILEIMPORTTIME": "1", "MOLDAU_LOOP_WATCH": ""}
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
NOT_NEEDED = (
    "cryptography",
    "ctypes",
    "gssapi",
    "hashlib",
    "hmac",
    "kazoo",
    "yaml",
    "moldau.client",
    "moldau.console",
    "moldau.diagnosis",
    "moldau.pipelines",
    "moldau.tables",
    "moldau.broker.cluster_parts",
    "moldau.broker.access.address_quotas",
    "moldau.broker.access.audit_log",
    "moldau.broker.access.list_authorizer",
    "moldau.broker.access.own_authorizer",
    "moldau.broker.access.quota_keeper",
    "moldau.broker.access.sasl_entrance",
    "moldau.broker.access.sasl_settings",
    "moldau.broker.broker_log.log4j_files",
    "moldau.broker.broker_log.logger_names",
    "moldau.broker.broker_log.request_log",
    "moldau.broker.broker_log.rolling_files",
    "moldau.broker.monitoring.client_telemetry",
    "moldau.broker.monitoring.monitoring",
    "moldau.broker.monitoring.reporting",
    "moldau.broker.segment_scrubber_pass",
    "moldau.cluster.controller_election",
    "moldau.cluster.membership",
    "moldau.cluster.tree.access_control_lists",
    "moldau.cluster.tree.change_notifications",
    "moldau.cluster.tree.stored_client_quotas",
    "moldau.cluster.tree.stored_delegation_tokens",
    "moldau.cluster.tree.stored_scram_credentials",
    "moldau.groups.classic",
    "moldau.handlers.admin",
    "moldau.handlers.guards",
    "moldau.metadata.acl_paths",
    "moldau.metadata.zookeeper",
    "moldau.metrics.mbeans",
    "moldau.metrics.otlp",
    "moldau.metrics.pushed",
    "moldau.metrics.reporting",
    "moldau.metrics.table",
    "moldau.net.host_lookup",
    "moldau.net.loop_watch",
    "moldau.net.oauth",
    "moldau.net.peers",
    "moldau.net.sasl",
    "moldau.net.tls",
    "moldau.security.acl.acl_store",
    "moldau.security.acl.authorizer",
    "moldau.security.jaas",
    "moldau.security.oauth",
    "moldau.security.password_encoding",
    "moldau.security.sasl",
    "moldau.security.tokens",
    "moldau.security.quotas.quota_changes",
    "moldau.security.quotas.quota_filters",
    "moldau.storage.adoption",
    "moldau.storage.compaction.compaction_job",
    "moldau.storage.compaction.compaction_process",
    "moldau.storage.rewriting",
    "moldau.storage.scrubbing",
    "moldau.storage.snapshots",
    "moldau.transactions.transaction_machine",
)
"""What is loaded when it is configured, or when the first client asks for it."""
MODULES_MAX = 268
"""Of Moldau's own. Whoever needs more says here why a plain broker cannot do without. Three are
small ports of what comes when somebody asks: restores, and the hold of answers for a snapshot. Four
are the frame that all commands have, server-start too: flags, help and answers are one for all."""


def imported(broker: BrokerProcess) -> list[str]:
    lines = [line for line in broker.log_text.splitlines() if line.startswith(LINE)]
    return [line.rpartition("|")[2].strip() for line in lines]


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder: Path = tmp_path_factory.mktemp("imports")
    with BrokerProcess(folder, environment=ENVIRONMENT) as broker:
        return imported(broker)


def test_a_plain_broker_imports_nothing_that_nobody_has_asked_for(modules: list[str]) -> None:
    assert "moldau.broker.broker" in modules
    assert [m for m in modules if any(within(m, package) for package in NOT_NEEDED)] == []


def test_a_plain_broker_is_made_of_few_modules(modules: list[str]) -> None:
    assert len([m for m in modules if within(m, "moldau")]) <= MODULES_MAX


def test_what_a_plain_broker_must_not_import_is_there(modules: list[str]) -> None:
    """A module that was renamed would be watched no more."""
    source = Path(__file__).parents[2] / "src"
    own = [package for package in NOT_NEEDED if package.startswith("moldau.")]
    places = [source / package.replace(".", "/") for package in own]
    gone = [each for each in places if not each.is_dir() and not each.with_suffix(".py").is_file()]
    assert gone == []


def test_what_is_configured_is_imported(tmp_path: Path) -> None:
    """The list above would be empty words if nothing were ever read from the log."""
    settings = {"metrics.http.listener": "127.0.0.1:0", "authorizer.class.name": AUTHORIZER}
    with BrokerProcess(tmp_path, overrides=settings, environment=ENVIRONMENT) as broker:
        modules = imported(broker)
    assert "moldau.broker.monitoring.monitoring" in modules
    assert "moldau.broker.access.list_authorizer" in modules
