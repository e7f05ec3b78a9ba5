"""The checker of histories finds each anomaly in a small history made by hand, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.histories.checker import anomalies, told
from tests.support.histories.model import (
    Append,
    Consumed,
    History,
    Look,
    Operation,
    Outcome,
    Read,
)

P, Q, IN, OUT = ("t", 0), ("t", 1), ("in", 0), ("out", 0)
OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN


def plain(value: str, at: float = 0, outcome: Outcome = OK, **append: object) -> Operation:
    given = {"place": P, "offset": None, **append}
    return Operation("plain", outcome, at, at + 1, appends=[Append(value=value, **given)])  # type: ignore[arg-type]


def txn(
    identity: str, at: float, *appends: Append, outcome: Outcome = OK, reads: tuple[Read, ...] = ()
) -> Operation:
    ending = None if outcome is FAIL else at + 1
    return Operation(
        identity, outcome, at, at + 2, identity, ending, appends=list(appends), reads=list(reads)
    )


def reader(at: float, *reads: Read) -> Operation:
    return Operation("reader", OK, at, at + 0.5, reads=list(reads))


def kinds(history: History, strict: bool = False) -> set[str]:
    return {each.kind for each in anomalies(history, strict)}


WHOLE = History(
    [
        txn("one", 0, Append(P, "a", 0), Append(Q, "b", 0)),
        txn("two", 5, Append(P, "c"), Append(Q, "d"), reads=(Read(P, 0, 2, ((0, "a"),)),)),
        txn("one", 6, Append(P, "x"), outcome=FAIL),
        plain("e", 10, offset=6),
        plain("f", 11, UNKNOWN),
        reader(12, Read(P, 0, 7, ((0, "a"), (2, "c"), (6, "e")))),
        reader(13, Read(Q, 0, 2, ((0, "b"),))),
    ],
    {P: ((0, "a"), (2, "c"), (6, "e")), Q: ((0, "b"), (2, "d"))},
)


def test_a_history_without_faults_has_no_anomalies() -> None:
    assert told(anomalies(WHOLE)) == ""
    assert kinds(WHOLE, strict=True) == set()
    assert kinds(History([], {})) == set()


def test_what_is_unknown_may_be_there_or_not_but_whole() -> None:
    unknown = txn("one", 0, Append(P, "a"), Append(Q, "b"), outcome=UNKNOWN)
    assert kinds(History([unknown], {P: (), Q: ()})) == set()
    assert kinds(History([unknown], {P: ((0, "a"),), Q: ((0, "b"),)})) == set()
    assert kinds(History([unknown], {P: ((0, "a"),), Q: ()})) == {"torn transaction"}


def test_a_lost_acknowledged_write_is_found() -> None:
    assert kinds(History([plain("a")], {P: ()})) == {"lost write"}
    both = txn("one", 0, Append(P, "a"), Append(Q, "b"))
    assert kinds(History([both], {P: (), Q: ()})) == {"lost write"}


def test_a_doubled_write_is_found() -> None:
    assert kinds(History([plain("a")], {P: ((0, "a"), (1, "a"))})) == {"doubled write"}
    elsewhere = reader(3, Read(P, 0, 2, ((1, "a"),)))
    assert "doubled write" in kinds(History([plain("a"), elsewhere], {P: ((0, "a"),)}))


def test_a_write_that_is_not_where_it_was_said_to_be_is_found() -> None:
    assert kinds(History([plain("a", offset=4)], {P: ((5, "a"),)})) == {"moved write"}
    assert kinds(History([plain("a")], {P: (), Q: ((0, "a"),)})) == {"moved write"}


def test_a_record_that_nobody_wrote_is_found() -> None:
    assert kinds(History([], {P: ((0, "?"),)})) == {"unwritten record"}
    assert kinds(History([reader(0, Read(P, 0, 1, ((0, "?"),)))], {P: ()})) == {"unwritten record"}


def test_a_record_that_was_read_and_is_gone_is_found() -> None:
    was_read = reader(3, Read(P, 0, 1, ((0, "a"),)))
    operations = [plain("a", outcome=UNKNOWN), plain("b", 9), was_read]
    assert kinds(History(operations[:1] + operations[2:], {P: ()})) == {"vanished record"}
    assert "vanished record" in kinds(History(operations, {P: ((0, "b"),)}))


def test_writes_of_one_client_in_another_order_are_found() -> None:
    operations = [plain("a", 0), plain("b", 2)]
    assert kinds(History(operations, {P: ((0, "b"), (1, "a"))})) == {"reordered write"}
    inside = txn("one", 0, Append(P, "a"), Append(P, "b"))
    assert kinds(History([inside], {P: ((0, "b"), (1, "a"))})) == {"reordered write"}


@pytest.mark.parametrize(
    "reads",
    [
        [Read(P, 0, 2, ((1, "b"), (0, "a")))],
        [Read(P, 0, 2, ((0, "a"), (1, "b"))), Read(P, 1, 2, ((1, "b"),))],
        [Read(P, 1, 2, ((0, "a"), (1, "b")))],
    ],
)
def test_a_reader_that_goes_back_is_found(reads: list[Read]) -> None:
    log = {P: ((0, "a"), (1, "b"))}
    operations = [plain("a", 0), plain("b", 2), reader(5, *reads)]
    assert kinds(History(operations, log)) == {"reader out of order"}


def test_an_aborted_read_is_found() -> None:
    gone = txn("one", 0, Append(P, "a"), outcome=FAIL)
    assert "aborted read" in kinds(History([gone], {P: ((0, "a"),)}))
    seen = reader(5, Read(P, 0, 1, ((0, "a"),)))
    assert "aborted read" in kinds(History([gone, seen], {P: ()}))


def test_a_read_before_the_commit_is_found() -> None:
    early = reader(0.2, Read(P, 0, 1, ((0, "a"),)))
    operations = [txn("one", 0, Append(P, "a")), early]
    assert kinds(History(operations, {P: ((0, "a"),)})) == {"dirty read"}
    own = txn("one", 0, Append(P, "a"), reads=(Read(P, 0, 1, ((0, "a"),)),))
    assert kinds(History([own], {P: ((0, "a"),)})) == {"dirty read"}


def test_a_transaction_that_is_committed_in_part_is_found() -> None:
    operations = [txn("one", 0, Append(P, "a"), Append(Q, "b"))]
    assert kinds(History(operations, {P: ((0, "a"),), Q: ()})) == {"lost write", "torn transaction"}


LOG = {P: ((0, "a"), (1, "b")), Q: ((0, "c"),)}


def test_a_fractured_read_is_found() -> None:
    both = txn("one", 0, Append(P, "a"), Append(P, "b"), Append(Q, "c"))
    partly = reader(5, Read(P, 0, 3, ((0, "a"), (1, "b"))), Read(Q, 0, 2, ()))
    assert kinds(History([both, partly], LOG)) == {"fractured read"}
    later = reader(5, Read(P, 0, 3, ((0, "a"), (1, "b"))), Read(Q, 0, 0, ()))
    assert kinds(History([both, later], LOG)) == set(), "the rest may come later"


def test_an_intermediate_read_is_found() -> None:
    both = txn("one", 0, Append(P, "a"), Append(P, "b"), Append(Q, "c"))
    partly = reader(5, Read(P, 0, 3, ((0, "a"),)))
    assert kinds(History([both, partly], LOG)) == {"intermediate read"}


def test_a_record_that_a_reader_went_past_is_found() -> None:
    past = reader(5, Read(P, 0, 1, ()))
    assert kinds(History([plain("a"), past], {P: ((0, "a"),)})) == {"skipped record"}


# Groups


def step(
    number: int, start: int, end: int, outcome: Outcome = OK, at: float | None = None
) -> Operation:
    made = [Append(OUT, f"made {n} {number}", source=(IN, n)) for n in range(start, end)]
    done = txn("worker", 10.0 * number if at is None else at, *made, outcome=outcome)
    return replace(done, consumed=[Consumed("g", IN, end)])


def look(offset: int, at: float = 100) -> Look:
    return Look("g", IN, offset, at, at)


INPUT = tuple((n, f"in {n}") for n in range(4))
SOURCES = [plain(value, n, place=IN) for n, value in INPUT]


def outputs(*steps: Operation) -> tuple[tuple[int, str], ...]:
    return tuple(enumerate(append.value for each in steps for append in each.appends))


def history(steps: list[Operation], seen: list[Operation], looks: list[Look]) -> History:
    logs = {IN: INPUT, OUT: outputs(*seen)}
    return History([*SOURCES, *steps], logs, looks, {IN: 4})


def test_processing_each_record_once_is_no_anomaly() -> None:
    steps = [step(1, 0, 2), step(2, 2, 3, FAIL), step(3, 2, 4), step(4, 4, 4, UNKNOWN)]
    assert kinds(history(steps, [steps[0], steps[2]], [look(2, 15), look(4)])) == set()


def test_a_group_that_goes_back_is_found() -> None:
    steps = [step(1, 0, 2), step(2, 2, 4)]
    assert "group went back" in kinds(history(steps, steps, [look(2), look(4)]))


def test_an_offset_that_nobody_committed_is_found() -> None:
    steps = [step(1, 0, 2), step(2, 2, 4, FAIL)]
    assert "offset nobody committed" in kinds(history(steps, steps[:1], [look(4)]))


def test_an_offset_beyond_the_data_is_found() -> None:
    steps = [step(1, 0, 4)]
    steps[0].consumed = [Consumed("g", IN, 9)]
    assert kinds(history(steps, steps, [look(9)])) == {"offset beyond the data"}


def test_a_record_processed_twice_is_found() -> None:
    steps = [step(1, 0, 4), step(2, 3, 4)]
    assert kinds(history(steps, steps, [look(4)])) == {"processed twice"}


def test_a_record_that_was_consumed_and_not_processed_is_found() -> None:
    steps = [step(1, 0, 2), step(2, 3, 4)]
    assert kinds(history(steps, steps, [look(4)])) == {"unprocessed record"}


def test_output_without_its_offset_is_found() -> None:
    steps = [step(1, 0, 2), step(2, 2, 4, UNKNOWN)]
    assert kinds(history(steps, steps, [look(2)])) == {"torn processing"}


# Compaction


def test_compaction_may_take_a_record_whose_key_came_again_and_no_other() -> None:
    operations = [
        plain("a", 0, key="k", offset=0),
        plain("b", 2, key="k", offset=1),
        plain("c", 4, key="other", offset=2),
        reader(1.5, Read(P, 0, 1, ((0, "a"),))),
    ]
    compacted = frozenset({"t"})
    log = ((1, "b"), (2, "c"))
    assert kinds(History(operations, {P: log}, compacted=compacted)) == set()
    assert kinds(History(operations, {P: log})) == {"lost write", "vanished record"}
    assert kinds(History(operations, {P: log[1:]}, compacted=compacted)) >= {"lost write"}


# Circles


def test_transactions_of_one_id_in_two_orders_are_a_circle_of_writes() -> None:
    operations = [
        replace(txn("one", 0, Append(P, "a"), Append(Q, "b")), process="first"),
        replace(txn("one", 5, Append(P, "c"), Append(Q, "d")), process="second"),
    ]
    log = {P: ((0, "a"), (1, "c")), Q: ((0, "d"), (1, "b"))}
    assert kinds(History(operations, log)) == {"G0"}
    others = [operations[0], replace(operations[1], identity="two")]
    assert kinds(History(others, log)) == set(), "two ids may be open at the same time"
    assert kinds(History(others, log), strict=True) == {"G0"}


def test_transactions_that_read_one_another_are_a_circle() -> None:
    operations = [
        txn("one", 0, Append(P, "a"), reads=(Read(Q, 0, 1, ((0, "b"),)),)),
        txn("two", 0, Append(Q, "b"), reads=(Read(P, 0, 1, ((0, "a"),)),)),
    ]
    assert kinds(History(operations, {P: ((0, "a"),), Q: ((0, "b"),)})) == {"G1c"}


def test_a_circle_through_three_is_found() -> None:
    places = [("t", n) for n in range(3)]
    operations = [
        txn(
            f"id {n}",
            0,
            Append(place, f"v{n}"),
            reads=(Read(places[n - 1], 0, 1, ((0, f"v{(n - 1) % 3}"),)),),
        )
        for n, place in enumerate(places)
    ]
    log = {place: ((0, f"v{n}"),) for n, place in enumerate(places)}
    (found,) = anomalies(History(operations, log))
    assert found.kind == "G1c"
    assert all(f"id {n}" in found.detail for n in range(3))


def test_reads_before_writes_are_circles_only_where_histories_must_be_serial() -> None:
    one = txn("one", 0, Append(P, "a"), reads=(Read(Q, 0, 0, ()),))
    two = txn("two", 0, Append(Q, "b"), reads=(Read(P, 0, 0, ()),))
    log = {P: ((0, "a"),), Q: ((0, "b"),)}
    assert kinds(History([one, two], log)) == set()
    assert kinds(History([one, two], log), strict=True) == {"G2"}
    saw = txn("two", 0, Append(Q, "b"), reads=(Read(P, 0, 1, ((0, "a"),)),))
    assert kinds(History([one, saw], log), strict=True) == set()
    back = txn("one", 0, Append(P, "a"), Append(("t", 2), "c"), reads=(Read(Q, 0, 0, ()),))
    read = txn("two", 0, Append(Q, "b"), reads=(Read(P, 0, 1, ((0, "a"),)),))
    first = txn("zero", 0, Append(("t", 2), "z"), reads=(Read(Q, 0, 1, ((0, "b"),)),))
    three = {**log, ("t", 2): ((0, "z"), (1, "c"))}
    assert kinds(History([back, read, first], three), strict=True) == {"G1c"}
