"""A broker that begins as a snapshot of another one: a test may do with the data what it likes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from moldau.testing.local_broker import LocalBroker


def fork_broker(
    snapshot: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> LocalBroker:
    """Made, and not started. `snapshot` is the folder of a snapshot, as `moldau snapshot describe`
    names it: `<log directory>-snapshots/<name>`, with or without `/data`."""
    from moldau.broker.forked_directories import fork_directories
    from moldau.storage.directories.leftover_snapshots import DIRECTORY_SUFFIX
    from moldau.storage.snapshots.snapshot_files import DATA, read_manifest

    path = Path(snapshot).absolute()
    if path.name == DATA:
        path = path.parent
    if not path.parent.name.endswith(DIRECTORY_SUFFIX):
        raise ValueError(f"{path} is no snapshot: it is not in a folder *{DIRECTORY_SUFFIX}")
    manifest = read_manifest(str(path.parent).removesuffix(DIRECTORY_SUFFIX), path.name)
    target = Path(directory)
    fork = fork_directories(manifest, str(target), lambda count: None)
    own = {"broker.id": manifest.node_id, "log.dirs": ",".join(fork.directories)}
    return LocalBroker(target, {**manifest.settings, **own, **(settings or {})}, **options)


@contextlib.contextmanager
def fork(
    snapshot: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
    *,
    directory: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Iterator[LocalBroker]:
    """A broker with everything that a snapshot holds; nothing that happens to it is seen by the
    original. Options are those of `broker()`.

    with moldau.testing.fork("/var/lib/kafka-snapshots/before-release") as broker:
        broker.delete_topics(...)
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-fork-"))
        yield stack.enter_context(fork_broker(snapshot, directory, settings, **options))
