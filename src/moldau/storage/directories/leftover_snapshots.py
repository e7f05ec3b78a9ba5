"""What a crash left of a snapshot that was being made, or deleted."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from moldau.storage.storage_faults import StorageFault

DIRECTORY_SUFFIX = "-snapshots"
"""The snapshots of a log directory are beside it."""

log = logging.getLogger("moldau.snapshots")


def remove_unfinished_snapshots(directories: Sequence[str]) -> None:
    """Blocks, if there is something."""
    if not any(os.path.isdir(directory + DIRECTORY_SUFFIX) for directory in directories):
        return
    from moldau.storage.snapshots.snapshot_files import remove_unfinished

    try:
        for name in remove_unfinished(directories):
            log.info("Removed what was left of the snapshot %s, which was not whole", name)
    except StorageFault as fault:
        log.warning("%s; the next start tries again", fault)
