"""The files that Spark keeps in a query's checkpoint: read as text, and repaired in one case.

Spark writes each file under a hidden name and renames it when it is whole. A driver killed while
it writes the plan of the first batch leaves `offsets/.0.….tmp`, and from then on Spark refuses the
checkpoint, for a query without a batch must find its folders empty. Nothing is lost there, so
`Kafka.to` removes such a file. Whatever else is in a checkpoint is left alone: a batch that is
planned, committed, or was so once may be in the output already.
"""

from __future__ import annotations

import json
import logging
import re
import time
from typing import TYPE_CHECKING, Any

from moldau.pipelines.sink.sink_options import SinkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("moldau.pipelines.sink")

METADATA, OFFSETS = "metadata", "offsets"
EMPTY_AT_FIRST = ("commits", "state")
"""Before any batch there is nothing in these either."""
LIVE_WRITE_SECONDS = 5.0
"""A driver that lives has renamed its file after so long; one that was killed never will."""
LOOK_AGAIN_SECONDS = 0.25
_UNFINISHED = re.compile(r"\.0\..+\.tmp")
_BATCH = re.compile(r"\d+")


class Checkpoint:
    """A folder on whatever file system Spark finds it on."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self.place = place
        java: Any = spark.sparkContext._jvm
        self._java = java
        self._root = java.org.apache.hadoop.fs.Path(place)
        context: Any = spark.sparkContext._jsc
        self._files = self._root.getFileSystem(context.hadoopConfiguration())

    def text(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        try:
            text: str = self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """What is in a folder, as Spark sees it: without the checksums of local files."""
        if not self.exists(folder):
            return []
        return sorted(
            each.getPath().getName() for each in self._files.listStatus(self._path(folder))
        )

    def remove(self, name: str) -> None:
        self._files.delete(self._path(name), False)

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._root, name)


def repair(checkpoint: Checkpoint) -> None:
    """Remove what a kill has left of the first batch's plan, if there is nothing else."""
    if not checkpoint.exists(METADATA):
        return  # Spark has not been here yet, or this is no checkpoint.
    _check_metadata(checkpoint)
    left = _unfinished(checkpoint)
    deadline = time.monotonic() + LIVE_WRITE_SECONDS
    while left and time.monotonic() < deadline:
        # Another driver may be about to finish the file.
        time.sleep(LOOK_AGAIN_SECONDS)
        left = _unfinished(checkpoint)
    for name in left:
        checkpoint.remove(f"{OFFSETS}/{name}")
        log.warning(
            "The checkpoint %s is repaired: a driver was killed while it planned the first batch, "
            "and its unfinished file %s/%s is removed. No batch had begun, so nothing is lost",
            *(checkpoint.place, OFFSETS, name),
        )


def _unfinished(checkpoint: Checkpoint) -> list[str]:
    """The first batch's plans that were never finished; none if there is anything else."""
    found = checkpoint.names(OFFSETS)
    if not all(_UNFINISHED.fullmatch(name) for name in found):
        return []
    if any(checkpoint.names(folder) for folder in EMPTY_AT_FIRST):
        return []
    return found


def _check_metadata(checkpoint: Checkpoint) -> None:
    """Spark would end with a line about JSON; who begins anew must know what that means here."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        if json.loads(checkpoint.text(METADATA))["id"]:
            return
        reason = "it names no query"
    except Py4JJavaError as fault:
        reason = str(fault.java_exception).splitlines()[0]
    except (ValueError, TypeError, KeyError) as fault:
        reason = f"it is no JSON with the id of a query: {fault}"
    planned = [name for name in checkpoint.names(OFFSETS) if _BATCH.fullmatch(name)]
    state = f"{len(planned)} batches are planned there" if planned else "no batch is left there"
    raise SinkError(
        f"The file {METADATA} of the checkpoint {checkpoint.place} is damaged ({reason}), perhaps "
        f"by a power cut, and {state}. Nothing was touched, for nobody can tell which batches are "
        "written: restore the checkpoint, or go on with a new one and the startingOffsets at which "
        "the output ends"
    )
