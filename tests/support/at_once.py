"""Threads for tests without a loop: the work is done where it stands."""

from __future__ import annotations

from moldau.storage.directories.storage_threads import Done, Work


class AtOnce:
    """A `Threads` whose work is done when `run` returns."""

    def run(self, work: Work, done: Done) -> None:
        done(work())

    def stop(self) -> None:
        pass
