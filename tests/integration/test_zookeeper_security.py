"""A real ZooKeeper that asks who is there: log-ins, certificates, nodes that have an owner."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from moldau.metadata.store import Create, SessionState, StoreError, StoreUnavailable
from moldau.metadata.zookeeper import ZooKeeperStore
from moldau.metadata.zookeeper_access import (
    ZooKeeperAccess,
    ZooKeeperLogin,
    ZooKeeperTls,
    acls_of,
    tls_context,
)
from moldau.metadata.zookeeper_nodes import ROOTS
from moldau.testing.broker_process import BrokerProcess, BrokerStartError
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.secured_zookeeper import (
    SecuredZooKeeper,
    client_jaas,
    looking,
    secured_zookeeper,
)

SECONDS_MAX = 30
X509_NAME = "CN=kafka,O=River\\, Ltd,C=CZ"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as server:
        yield server


async def opened(access: ZooKeeperAccess) -> ZooKeeperStore:
    store = ZooKeeperStore(access)
    await store.open()
    return store


def run_with(access: ZooKeeperAccess, work: Callable[[ZooKeeperStore], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await opened(access)
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(main())


def owners(client: KazooClient, path: str) -> set[tuple[str, str, tuple[str, ...]]]:
    acls, _ = client.get_acls(path)
    return {(acl.id.scheme, acl.id.id, tuple(acl.acl_list)) for acl in acls}


READABLE = {("sasl", "kafka", ("ALL",)), ("world", "anyone", ("READ",))}
SECRET = {("sasl", "kafka", ("ALL",))}
OPEN = {("world", "anyone", ("ALL",))}


# Log-ins


def test_nodes_belong_to_whoever_logged_in_and_secrets_are_read_by_nobody_else(
    server: SecuredZooKeeper,
) -> None:
    access = server.access(chroot="/owned")._replace(protects_nodes=True)

    async def work(store: ZooKeeperStore) -> None:
        await store.create("/config")
        await store.multi([Create("/config/users"), Create("/config/users/alice", b"salted")])
        await store.create("/consumers")
        await store.create("/me", ephemeral=True)
        with looking(ZooKeeperAccess(server.plain)) as anybody:
            assert owners(anybody, "/owned") == READABLE
            assert owners(anybody, "/owned/config") == READABLE
            assert owners(anybody, "/owned/me") == READABLE
            assert owners(anybody, "/owned/consumers") == OPEN
            with pytest.raises(NoAuthError):
                anybody.get("/owned/config/users/alice")
            with pytest.raises(NoAuthError):
                anybody.set("/owned/config", b"mine")
            with pytest.raises(NoAuthError):
                anybody.create("/owned/config/topics", b"")
        with looking(server.access("operator")) as other, pytest.raises(NoAuthError):
            other.get("/owned/config/users/alice")
        with looking(server.access()) as same:
            assert same.get("/owned/config/users/alice")[0] == b"salted"
            assert owners(same, "/owned/config/users/alice") == SECRET

    run_with(access, work)


def test_a_wrong_password_is_one_sentence_at_once(server: SecuredZooKeeper) -> None:
    access = ZooKeeperAccess(server.plain, login=ZooKeeperLogin("kafka", "guess"))
    with pytest.raises(StoreError, match="does not let this broker in"):
        asyncio.run(opened(access))


def test_a_session_that_is_connected_again_logs_in_again(server: SecuredZooKeeper) -> None:
    async def work(store: ZooKeeperStore) -> None:
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.create("/again", b"1")
        session = store.session_id
        assert store._client is not None
        store._client._connection._socket.shutdown(2)
        async with asyncio.timeout(SECONDS_MAX):
            while states[-1:] != [SessionState.CONNECTED]:
                await asyncio.sleep(0.02)
        assert store.session_id == session
        await store.set_if_version("/again", b"2")
        await store.create("/again/below", b"")

    run_with(server.access(chroot="/reconnected")._replace(protects_nodes=True), work)


# kazoo's thread ends of a refused log-in.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_log_in_that_is_refused_for_a_while_costs_the_session_and_not_the_store(
    server: SecuredZooKeeper,
) -> None:
    async def work(store: ZooKeeperStore) -> None:
        states: list[SessionState] = []
        store.on_session(states.append)
        client: Any = store._client
        right, client._connection._login = (
            client._connection._login,
            ZooKeeperLogin("kafka", "guess"),
        )
        client._connection._socket.shutdown(2)
        async with asyncio.timeout(SECONDS_MAX):
            while SessionState.EXPIRED not in states:
                await asyncio.sleep(0.02)
        with pytest.raises(StoreError):
            await store.create("/not-yet", b"")
        client._connection._login = right
        async with asyncio.timeout(SECONDS_MAX):
            while states[-1:] != [SessionState.CONNECTED]:
                await asyncio.sleep(0.02)
            while True:
                try:
                    await store.create("/back", b"")
                    return
                except StoreUnavailable:
                    await asyncio.sleep(0.02)

    run_with(server.access(chroot="/refused")._replace(protects_nodes=True), work)


# TLS


def test_a_certificate_lets_the_broker_in_and_owns_its_nodes(server: SecuredZooKeeper) -> None:
    access = server.encrypted_access("/by-certificate")._replace(protects_nodes=True)

    async def work(store: ZooKeeperStore) -> None:
        await store.create("/secret", b"whispered")
        assert (await store.get("/secret")).data == b"whispered"
        # Answers that come in one piece are all found.
        await asyncio.gather(*(store.create(f"/secret/{n}") for n in range(200)))
        assert len(await store.children("/secret")) == 200
        with looking(ZooKeeperAccess(server.plain)) as anybody:
            expected = {("x509", X509_NAME, ("ALL",)), ("world", "anyone", ("READ",))}
            assert owners(anybody, "/by-certificate/secret") == expected

    run_with(access, work)


def test_a_zookeeper_that_is_signed_by_somebody_else_is_not_spoken_to(
    server: SecuredZooKeeper, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority("Somebody else").certificate_pem)
    tls = ZooKeeperTls(ssl_truststore_location=str(other), ssl_truststore_type="PEM")
    access = ZooKeeperAccess(server.encrypted, connection_timeout_ms=1000, tls=tls_context(tls))
    with pytest.raises(StoreUnavailable, match="its certificate is not good"):
        asyncio.run(opened(access))


def test_a_host_that_the_certificate_does_not_name_is_not_spoken_to(
    server: SecuredZooKeeper,
) -> None:
    access = server.encrypted_access()._replace(
        connect=f"127.0.0.2:{server.secure_port}", connection_timeout_ms=1000
    )
    with pytest.raises(StoreUnavailable, match="its certificate is not good: IP address"):
        asyncio.run(opened(access))


def test_a_zookeeper_that_wants_a_certificate_is_guessed_at_where_there_is_none(
    server: SecuredZooKeeper,
) -> None:
    tls = ZooKeeperTls(ssl_truststore_location=str(server.trust_store), ssl_truststore_type="PEM")
    access = ZooKeeperAccess(server.encrypted, connection_timeout_ms=3000, tls=tls_context(tls))
    with pytest.raises(StoreUnavailable, match="it may want to see a certificate"):
        asyncio.run(opened(access))


# A broker, and the migration of its tree


def broker_on(
    server: SecuredZooKeeper, directory: Path, chroot: str, settings: Mapping[str, str]
) -> BrokerProcess:
    connect = server.encrypted if "zookeeper.ssl.client.enable" in settings else server.plain
    overrides = {"zookeeper.connect": f"{connect}{chroot}", "broker.id": "1", **settings}
    return BrokerProcess(directory, overrides=overrides)


def all_nodes(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in client.get_children(path):
        yield from all_nodes(client, f"{path.rstrip('/')}/{name}")


def assert_protected(client: KazooClient, chroot: str, owner: tuple[str, str]) -> None:
    mine = (*owner, ("ALL",))
    for path in all_nodes(client, chroot):
        below = path.removeprefix(chroot)
        found = owners(client, path)
        if below == "/consumers":
            assert found == OPEN, path
        elif below.startswith(("/config/users", "/config/brokers", "/delegation_token/tokens")):
            assert found == {mine}, path
        else:
            assert found == {mine, ("world", "anyone", ("READ",))}, path


def test_everything_that_a_broker_writes_is_protected(
    server: SecuredZooKeeper, tmp_path: Path
) -> None:
    settings = {
        **server.log_in_settings,
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "secret",
    }
    with broker_on(server, tmp_path / "broker", "/whole", settings) as broker:
        fill(broker)
        with looking(server.access()) as same:
            assert_protected(same, "/whole", ("sasl", "kafka"))


def fill(broker: BrokerProcess) -> None:
    """With something in every room of the tree."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        NewTopic,
        ResourcePatternType,
        ResourceType,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    eventually(lambda: admin.list_topics(timeout=SECONDS_MAX).controller_id == 1)
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(SECONDS_MAX)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", info, b"wonderland")
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(SECONDS_MAX)
    allow, read = AclPermissionType.ALLOW, AclOperation.READ
    for pattern in (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED):
        binding = AclBinding(ResourceType.TOPIC, "t", pattern, "User:alice", "*", read, allow)
        admin.create_acls([binding])[binding].result(SECONDS_MAX)


def migrate(server: SecuredZooKeeper, chroot: str, *words: str, jaas: str = "") -> str:
    command = [sys.executable, "-m", "moldau.main", "zookeeper-security-migration"]
    options = f"-Djava.security.auth.login.config={jaas or server.jaas_file}"
    done = subprocess.run(
        [*command, f"--zookeeper.connect={server.plain}{chroot}", *words],
        env={**os.environ, "KAFKA_OPTS": options},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_an_open_tree_is_protected_and_opened_again_under_a_running_broker(
    server: SecuredZooKeeper, tmp_path: Path
) -> None:
    open_to_all = {
        **server.log_in_settings,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = broker_on(server, tmp_path / "broker", "/migrated", open_to_all)
    with broker, looking(ZooKeeperAccess(server.plain)) as anybody:
        fill(broker)
        assert all(owners(anybody, path) == OPEN for path in all_nodes(anybody, "/migrated"))
        assert migrate(server, "/migrated", "--zookeeper.acl=secure").startswith("0 ")
        with looking(server.access()) as same:
            migrated = [path for path in all_nodes(same, "/migrated") if "/consumers" not in path]
            assert {f"/migrated{root}" for root in ROOTS} <= {*migrated}
            for path in migrated:
                assert ("sasl", "kafka", ("ALL",)) in owners(same, path), path
        with pytest.raises(NoAuthError):
            anybody.get("/migrated/config/users/alice")
        # The broker, which logs in, goes on; so does one that protects what it writes.
        broker.stop()
        protecting = {**open_to_all, "zookeeper.set.acl": "true"}
        with broker_on(server, tmp_path / "second", "/migrated", protecting) as second:
            fill_topic(second, "after")
            with looking(server.access()) as same:
                assert_protected(same, "/migrated", ("sasl", "kafka"))
        assert migrate(server, "/migrated", "--zookeeper.acl=unsecure").startswith("0 ")
        assert all(owners(anybody, path) == OPEN for path in all_nodes(anybody, "/migrated"))


def fill_topic(broker: BrokerProcess, name: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    eventually(lambda: admin.list_topics(timeout=SECONDS_MAX).controller_id == 1)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)


def test_a_migration_needs_somebody_to_own_the_nodes_and_the_right_place(
    server: SecuredZooKeeper, tmp_path: Path
) -> None:
    nobody = tmp_path / "nobody.conf"
    nobody.write_text("")
    said = migrate(server, "/nothing", "--zookeeper.acl=secure", jaas=str(nobody))
    assert said.startswith("1 ERROR: No JAAS configuration file")
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(client_jaas("kafka", "guess"))
    said = migrate(server, "/nothing", "--zookeeper.acl=secure", jaas=str(wrong))
    assert said.startswith("1 ZooKeeper at") and "Traceback" not in said
    checked = migrate(server, "/nothing", "--zookeeper.acl=secure", "--enable.path.check")
    assert checked.startswith("1 Warning: The following secure root paths do not exist")
    assert migrate(server, "/nothing", "--zookeeper.acl=ajar").startswith("1 ")
    with looking(server.access()) as client:
        assert client.exists("/nothing/brokers") is None


def test_the_shell_logs_in_as_kafka_opts_say(server: SecuredZooKeeper) -> None:
    with looking(server.access()) as same:
        same.create("/for-the-shell", b"whispered", acl=acls_of("/config/users", is_protected=True))
    command = [sys.executable, "-m", "moldau.main", "zookeeper-shell", server.plain]
    options = f"-Djava.security.auth.login.config={server.jaas_file}"
    for given, expected in ((options, True), ("", False)):
        done = subprocess.run(
            [*command, "get", "/for-the-shell"],
            env={**os.environ, "KAFKA_OPTS": given},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX * 2,
        )
        assert ("whispered" in done.stdout) is expected, done.stdout + done.stderr


def test_a_broker_that_is_not_let_in_says_so_in_one_sentence(
    server: SecuredZooKeeper, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(client_jaas("kafka", "s0me-guess"))
    settings = {"java.security.auth.login.config": str(wrong)}
    broker = broker_on(server, tmp_path / "broker", "/nowhere", settings)
    with pytest.raises(BrokerStartError):
        broker.start()
    eventually(lambda: "ZooKeeper does not let this broker in" in broker.log_text)
    assert "Traceback" not in broker.log_text and "s0me-guess" not in broker.log_text


def test_a_broker_keeps_its_metadata_behind_tls(server: SecuredZooKeeper, tmp_path: Path) -> None:
    settings = {**server.tls_settings, "zookeeper.set.acl": "true"}
    with broker_on(server, tmp_path / "broker", "/behind-tls", settings) as broker:
        fill_topic(broker, "t")
        with looking(server.encrypted_access()) as same:
            assert_protected(same, "/behind-tls", ("x509", X509_NAME))
