"""What a backup, a restore or a verification fails with; commands say the sentence and end."""

from __future__ import annotations


class BackupFault(Exception):
    """It cannot be done, or not gone on with."""

    @property
    def sentence(self) -> str:
        return str(self)


class Damaged(BackupFault):
    """A file of a backup is missing or is not what was written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason
