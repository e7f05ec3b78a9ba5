"""Where bodies lie between the tasks that make them and those that write them.

Spark's shuffle copies a body some eight times through the JVM. Tasks that share a file system with
the driver, which is so on `local[*]`, leave the bytes in a file instead, and Spark carries only
where they are. Elsewhere the bytes travel with the row.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from moldau.pipelines.sink.sink_options import SinkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SpooledPayload(NamedTuple):
    file: str
    position: int
    length: int


class SpoolFile:
    """The bodies that one attempt of a task has made, one after another."""

    def __init__(self, folder: str, name: str) -> None:
        self._path = os.path.join(folder, name)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._end = 0

    def put(self, payload: bytes) -> SpooledPayload:
        position = self._end
        rest = memoryview(payload)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._end += len(payload)
        return SpooledPayload(self._path, position, len(payload))

    def close(self) -> None:
        os.close(self._file)


class SpoolReader:
    """Reads what places name; keeps the file of the last one open."""

    def __init__(self) -> None:
        self._path = ""
        self._file = -1

    def get(self, place: SpooledPayload) -> bytes:
        if place.file != self._path:
            self.close()
            self._file = os.open(place.file, os.O_RDONLY)
            self._path = place.file
        payload = os.pread(self._file, place.length, place.position)
        if len(payload) < place.length:
            raise SinkError(
                f"{place.file} ends within the {place.length} bytes from {place.position}: "
                "something else has cut it short"
            )
        return payload

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._path, self._file = "", -1


@contextmanager
def spool_folder(spark: SparkSession) -> Iterator[str | None]:
    """A folder for one attempt of a batch, gone after it; None where tasks run elsewhere.

    It lies in the folder that Spark itself removes when the driver ends."""
    from pyspark import SparkFiles

    if not (spark.sparkContext.master or "").startswith("local"):
        yield None
        return
    folder = tempfile.mkdtemp(prefix="bodies-", dir=SparkFiles.getRootDirectory())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
