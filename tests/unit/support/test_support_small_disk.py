"""A small disk is gone after its test, also after one that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_disk import mounted


def test_a_disk_is_not_mounted_any_more_after_a_test_that_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), mounted(tmp_path / "disk") as disk:
        assert disk.is_mount()
        raise ZeroDivisionError
    assert not (tmp_path / "disk").is_mount()
