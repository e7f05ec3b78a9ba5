"""The first users and access control lists of a broker that has never started.

Who asks for a log-in must know somebody before the first client comes. So they are written into the
embedded metadata store beside the logs, where the first start finds them: what Kafka's
`kafka-storage format --add-scram` does. The store appears by one rename when it is complete, and a
directory that was used before is never touched.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from moldau.broker.system_clock import SystemClock
from moldau.cluster.tree.access_control_lists import AccessLists
from moldau.cluster.tree.stored_scram_credentials import UserCredentials
from moldau.cluster.tree.tree_layout import lay_out
from moldau.engine.timers import Timers
from moldau.metadata.embedded import FILE_NAME, EmbeddedStore
from moldau.metadata.store import MetadataStore, StoreError
from moldau.model.errors import ApiError
from moldau.security.acl.acl_model import Acl
from moldau.security.sasl.scram_changes import CredentialChange
from moldau.security.sasl.scram_keys import HASHES, make_credential
from moldau.storage.directories.log_directory import LogDirectory
from moldau.storage.log_files import sync_directory
from moldau.storage.storage_faults import StorageFault

UNFINISHED_NAME = FILE_NAME + ".securing"
ITERATIONS = 8192
"""As Kafka's own tool takes."""
SALT_BYTES = 20


def credentials_of(
    users: Mapping[str, str], iterations: int = ITERATIONS
) -> list[CredentialChange]:
    """For both mechanisms of SCRAM; some milliseconds for each user."""
    return [
        CredentialChange(
            user,
            mechanism,
            make_credential(mechanism, password, os.urandom(SALT_BYTES), iterations),
        )
        for user, password in users.items()
        for mechanism in HASHES
    ]


def write_first_access(
    log_directory: str, credentials: Sequence[CredentialChange], acls: Sequence[Acl] = ()
) -> None:
    """Raises StorageFault, and leaves nothing behind, if the directory was used before."""
    directory = LogDirectory(log_directory)
    unfinished = directory.file(UNFINISHED_NAME)
    directory.prepare()
    try:
        used = [name for name in os.listdir(log_directory) if _shows_use(name)]
        if used:
            reason = f"it was used before: {used[0]} is in it; change users by `moldau configs`"
            raise StorageFault("cannot write the first users into", log_directory, reason=reason)
        _forget(unfinished)
        asyncio.run(_fill(unfinished, credentials, acls))
        os.rename(unfinished, directory.file(FILE_NAME))
        sync_directory(log_directory)
    except (ApiError, OSError, StoreError) as error:
        _forget(unfinished)
        raise StorageFault(
            "cannot write the first users into", log_directory, reason=str(error)
        ) from error
    finally:
        directory.unlock()


def _shows_use(name: str) -> bool:
    return name in (FILE_NAME, "meta.properties")


def _forget(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


async def _fill(path: str, credentials: Sequence[CredentialChange], acls: Sequence[Acl]) -> None:
    store = EmbeddedStore(path)
    store.open()
    try:
        await lay_out(store)
        await add_access(store, credentials, acls)
    finally:
        await store.close()


async def add_access(
    store: MetadataStore,
    credentials: Sequence[CredentialChange],
    acls: Sequence[Acl],
) -> None:
    """Raises ApiError and StoreError."""
    clock = SystemClock()
    timers = Timers(clock, asyncio.get_running_loop().call_later)
    users = UserCredentials(store, clock=clock, timers=timers, is_alone=True)
    lists = AccessLists(store, clock=clock, timers=timers, changed=lambda acls: None, is_alone=True)
    try:
        await lists.load()
        rows = [*await users.alter(credentials), *await lists.create(acls)]
    finally:
        timers.close()
    for refusal in rows:
        if refusal is not None:
            raise refusal
