"""Which epoch wrote what, and where each ended."""

from __future__ import annotations

from moldau.storage.log_state.leader_epoch_history import EpochHistory, EpochStart


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(EpochStart(*entry) for entry in entries)


def test_an_epoch_ends_where_the_next_one_starts_and_the_last_at_the_logs_end() -> None:
    epochs = history((2, 0), (5, 10), (6, 30))
    assert epochs.end_of(2, 99) == (2, 10)
    assert epochs.end_of(5, 99) == (5, 30)
    assert epochs.end_of(6, 99) == (6, 99)


def test_an_epoch_that_wrote_nothing_ends_with_the_one_before_it() -> None:
    epochs = history((2, 0), (5, 10))
    assert epochs.end_of(4, 99) == (2, 10)


def test_an_epoch_older_than_the_log_ends_where_the_log_starts() -> None:
    assert history((5, 10), (6, 30)).end_of(1, 99) == (1, 10)


def test_an_epoch_newer_than_any_is_undefined() -> None:
    assert history((5, 10)).end_of(6, 99) == (-1, -1)
    assert history().end_of(0, 99) == (-1, -1)
    assert history((5, 10)).end_of(-1, 99) == (-1, -1)


def test_assigning_the_same_epoch_again_is_no_news() -> None:
    epochs = history((5, 10))
    assert not epochs.assign(5, 20)
    assert epochs.entries == [(5, 10)]


def test_an_epoch_that_starts_earlier_than_known_ones_replaces_them() -> None:
    epochs = history((2, 0), (5, 10), (6, 30))
    assert epochs.assign(7, 10)
    assert epochs.entries == [(2, 0), (7, 10)]
    assert epochs.latest == 7


def test_every_offset_belongs_to_the_epoch_that_wrote_it() -> None:
    epochs = history((2, 5), (5, 10))
    assert [epochs.epoch_at(offset) for offset in (4, 5, 9, 10, 1000)] == [-1, 2, 2, 5, 5]


def test_truncation_at_the_end_forgets_epochs_that_start_there_or_later() -> None:
    epochs = history((2, 0), (5, 10), (6, 30))
    assert epochs.truncate_from_end(30)
    assert epochs.latest == 5
    assert not epochs.truncate_from_end(11)
    assert epochs.truncate_from_end(0)
    assert epochs.latest == -1


def test_truncation_at_the_start_moves_the_start_of_the_epoch_it_falls_into() -> None:
    epochs = history((2, 0), (5, 10), (6, 30))
    assert epochs.truncate_from_start(15)
    assert epochs.entries == [(5, 15), (6, 30)]
    assert not epochs.truncate_from_start(15)
    assert not epochs.truncate_from_start(3)
