"""The engine's promises: order, nothing seen before it is safe, everybody answered."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from moldau.engine.engine import REFUSED_AGAIN_MS, Engine
from moldau.engine.machine import Decision, JournalFault, Reply, Send, Timer, Token, Volatile
from moldau.engine.timers import Timers
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from tests.support import seeds
from tests.support.manual_journal import ManualJournal
from tests.support.virtual_time import ManualTime


class Add(NamedTuple):
    amount: int


class Total(NamedTuple):
    pass


class Wait(NamedTuple):
    """Answered when somebody says Open."""


class Open(NamedTuple):
    pass


class OpenOrTurnAway(NamedTuple):
    pass


class TurnAway(NamedTuple):
    error: Error


class Alarm(NamedTuple):
    delay_ms: int | None


class Ring(NamedTuple):
    pass


class Tell(NamedTuple):
    whom: str


class Refuse(NamedTuple):
    pass


class Break(NamedTuple):
    where: str


class Set(NamedTuple):
    """Comes often; only the last counts."""

    total: int


class WasSet(NamedTuple):
    total: int


class Added(NamedTuple):
    amount: int


class Waits(NamedTuple):
    token: Token


class Opened(NamedTuple):
    pass


class Broken(NamedTuple):
    pass


class Counting:
    """A machine that adds up, lets callers wait for each other, and rings."""

    def __init__(self) -> None:
        self.total = 0
        self.waiting: list[Token] = []

    def decide(self, command: object, token: Token, now: Now) -> Decision:
        match command:
            case Add(amount):
                total = self.total + amount
                return Decision((Added(amount),), replies=(Reply(token, total),))
            case Set(total):
                return Decision((Volatile(WasSet(total), is_observed=False),))
            case Total():
                return Decision.reply(token, self.total)
            case Wait():
                return Decision((Volatile(Waits(token)),))
            case OpenOrTurnAway():
                everybody = (*self.waiting, token)
                return Decision(
                    (Opened(),),
                    replies=tuple(Reply(t, "open") for t in everybody),
                    instead=lambda refusal: TurnAway(refusal.error),
                )
            case TurnAway(error):
                told = tuple(Reply(t, error) for t in (*self.waiting, token))
                return Decision((Volatile(Opened()),), replies=told)
            case Open():
                everybody = (*self.waiting, token)
                return Decision((Opened(),), replies=tuple(Reply(t, "open") for t in everybody))
            case Alarm(delay_ms):
                at_ms = None if delay_ms is None else now.monotonic_ms + delay_ms
                return Decision(
                    timers=(Timer("alarm", at_ms, Ring()),), replies=(Reply(token, None),)
                )
            case Ring():
                return Decision((Added(1000),))
            case Tell(whom):
                send = Send(whom, self.total)
                return Decision((Added(1),), replies=(Reply(token, None),), sends=(send,))
            case Refuse():
                return Decision.refuse(token, Error.INVALID_REQUEST, "no")
            case Break("decide"):
                raise RuntimeError("on purpose")
            case Break(_):
                return Decision((Added(1), Broken()), replies=(Reply(token, None),))
        raise AssertionError(command)

    def apply(self, fact: object) -> None:
        match fact:
            case Added(amount):
                self.total += amount
            case WasSet(total):
                self.total = total
            case Waits(token):
                self.waiting.append(token)
            case Opened():
                self.waiting.clear()
            case Broken():
                raise RuntimeError("on purpose")


@dataclass
class Bench:
    journal: ManualJournal = field(default_factory=ManualJournal)
    time: ManualTime = field(default_factory=ManualTime)
    machine: Counting = field(default_factory=Counting)
    observed: list[tuple[object, ...]] = field(default_factory=list)
    sent: list[Send] = field(default_factory=list)
    stopped_with: list[ApiError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.start(10)

    def start(self, tokens_max: int) -> Engine:
        return Engine(
            "counting",
            self.machine,
            self.journal,
            clock=self.time.clock,
            timers=Timers(self.time.clock, self.time.call_later),
            on_committed=lambda facts: self.observed.append(tuple(facts)),
            on_stopped=self.stopped_with.append,
            send=self.sent.append,
            tokens_max=tokens_max,
        )


def run(scenario: Callable[[Bench], Awaitable[None]], **kwargs: Any) -> None:
    async def main() -> None:
        await scenario(Bench(**kwargs))

    asyncio.run(main())


def test_a_reply_leaves_only_after_the_commit() -> None:
    async def scenario(bench: Bench) -> None:
        added = bench.engine.submit(Add(5))
        assert bench.machine.total == 5, "applied at once, so that the next command sees it"
        assert not added.done()
        bench.journal.commit()
        assert added.result() == 5

    run(scenario)


def test_commands_are_decided_one_after_the_other_while_commits_are_awaited() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = bench.engine.submit(Add(5)), bench.engine.submit(Add(7))
        assert bench.journal.facts == [Added(5), Added(7)]
        bench.journal.commit(1)
        assert first.result() == 5
        assert not second.done()
        bench.journal.commit(2)
        assert second.result() == 12

    run(scenario)


def test_a_read_waits_for_everything_it_could_have_seen() -> None:
    async def scenario(bench: Bench) -> None:
        before = bench.engine.submit(Total())
        assert before.result() == 0, "nothing is pending, nothing to wait for"
        bench.engine.submit(Add(5))
        during = bench.engine.submit(Total())
        assert not during.done()
        bench.journal.commit()
        assert during.result() == 5

    run(scenario)


def test_a_refusal_waits_too_and_is_raised() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Add(5))
        refused = bench.engine.submit(Refuse())
        assert not refused.done()
        bench.journal.commit()
        with pytest.raises(ApiError) as caught:
            await refused
        assert caught.value.error is Error.INVALID_REQUEST

    run(scenario)


def test_a_journal_that_commits_at_once_answers_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        assert bench.engine.submit(Add(5)).result() == 5
        assert bench.engine.submit(Add(5)).result() == 10
        assert bench.observed == [(Added(5),), (Added(5),)]

    run(scenario, journal=ManualJournal(commits_at_once=True))


def test_one_decision_may_answer_everybody_who_waits() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = [bench.engine.submit(Wait()) for _ in range(3)]
        opener = bench.engine.submit(Open())
        assert not any(each.done() for each in waiting)
        bench.journal.commit()
        assert [each.result() for each in (*waiting, opener)] == ["open"] * 4

    run(scenario)


def test_volatile_facts_are_applied_but_not_journalled() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Wait())
        assert bench.journal.facts == []
        assert len(bench.machine.waiting) == 1
        assert bench.observed == [(Waits(1),)]

    run(scenario)


def test_what_nobody_waits_for_is_told_however_many_others_wait_and_leaves_nothing_behind() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = [bench.engine.submit(Add(1)) for _ in range(10)]
        for total in range(100):
            bench.engine.tell(Set(total))
        assert bench.machine.total == 99
        assert len(bench.engine._held) == len(waiting)
        bench.journal.commit()
        assert bench.observed == [(Added(1),)] * 10
        bench.engine.stop(Error.NOT_COORDINATOR)
        bench.engine.tell(Set(0))
        assert bench.machine.total == 99

    run(scenario)


def test_the_observer_sees_facts_after_the_commit_and_before_the_reply() -> None:
    async def scenario(bench: Bench) -> None:
        added = bench.engine.submit(Add(5))
        assert bench.observed == []
        bench.engine._on_committed = lambda facts: bench.observed.append((facts, added.done()))
        bench.journal.commit()
        assert bench.observed == [((Added(5),), False)]
        assert added.done()

    run(scenario)


def test_an_observer_may_submit_and_answers_still_leave_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        waiting_when_observed: list[list[Token]] = []

        def observe(_: object) -> None:
            waiting_when_observed.append(list(bench.engine._waiting))
            if len(waiting_when_observed) == 1:
                nested = bench.engine.submit(Add(10))
                assert not nested.done(), "the answer before it has not left yet"

        bench.engine._on_committed = observe
        assert bench.engine.submit(Add(5)).result() == 5
        assert waiting_when_observed == [[1], [2]], "the first was answered before the second"
        assert bench.machine.total == 15

    run(scenario, journal=ManualJournal(commits_at_once=True))


def test_a_commit_inside_append_releases_nothing_before_the_facts_are_applied() -> None:
    async def scenario(bench: Bench) -> None:
        bench.journal = late = ManualJournal()
        bench.engine = bench.start(10)
        totals: list[int] = []
        bench.engine._on_committed = lambda _: totals.append(bench.machine.total)
        bench.engine.submit(Add(1))
        append = late.append
        late.append = lambda facts: (append(facts), late.commit())[0]  # type: ignore[method-assign]
        bench.engine.submit(Add(2))
        assert totals == [3, 3], "both were released after the second was applied"

    run(scenario)


def test_a_failing_observer_does_not_keep_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        def fail(_: object) -> None:
            raise RuntimeError("on purpose")

        bench.engine._on_committed = fail
        added = bench.engine.submit(Add(5))
        bench.journal.commit()
        assert added.result() == 5

    run(scenario)
    assert "observer failed engine=counting" in caplog.text


def test_sends_leave_after_the_commit() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Tell("broker 1"))
        assert bench.sent == []
        bench.journal.commit()
        assert bench.sent == [Send("broker 1", 0)]

    run(scenario)


def test_a_timer_runs_its_command() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Alarm(500))
        bench.time.pass_ms(499)
        assert bench.machine.total == 0
        bench.time.pass_ms(1)
        assert bench.machine.total == 1000
        assert bench.journal.facts == [Added(1000)]

    run(scenario)


def test_a_timer_with_the_same_key_is_replaced_and_one_without_a_time_cancelled() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Alarm(500))
        bench.engine.submit(Alarm(900))
        bench.time.pass_ms(899)
        assert bench.machine.total == 0
        bench.engine.submit(Alarm(None))
        bench.time.pass_ms(10_000)
        assert bench.machine.total == 0

    run(scenario)


def test_a_timer_whose_command_the_journal_refused_rings_again() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Alarm(100))
        bench.journal.refuses_with = JournalFault(Error.NOT_ENOUGH_REPLICAS, "one is left")
        bench.time.pass_ms(100 + 3 * REFUSED_AGAIN_MS)
        assert bench.machine.total == 0
        bench.journal.refuses_with = None
        bench.time.pass_ms(REFUSED_AGAIN_MS)
        assert bench.machine.total == 1000
        bench.time.pass_ms(10 * REFUSED_AGAIN_MS)
        assert bench.machine.total == 1000

    run(scenario)


def test_a_command_that_cannot_be_decided_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        broken = bench.engine.submit(Break("decide"))
        with pytest.raises(ApiError) as caught:
            await broken
        assert caught.value.error is Error.UNKNOWN_SERVER_ERROR
        assert bench.engine.is_running
        added = bench.engine.submit(Add(1))
        bench.journal.commit()
        assert added.result() == 1

    run(scenario)
    assert "decide failed" in caplog.text


def test_a_fact_that_cannot_be_applied_stops_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        waiting = bench.engine.submit(Wait())
        broken = bench.engine.submit(Break("apply"))
        for each in (waiting, broken):
            with pytest.raises(ApiError):
                await each
        assert not bench.engine.is_running
        assert len(bench.stopped_with) == 1

    run(scenario)
    assert "apply failed" in caplog.text


def test_whoever_waits_for_a_refused_append_is_told_what_happens_instead() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = bench.engine.submit(Wait())
        bench.journal.refuses_with = JournalFault(Error.MESSAGE_TOO_LARGE, "by far")
        opening = bench.engine.submit(OpenOrTurnAway())
        assert opening.result() is Error.MESSAGE_TOO_LARGE
        assert waiting.result() is Error.MESSAGE_TOO_LARGE
        assert bench.engine.is_running
        bench.journal.refuses_with = None
        waiting, opening = bench.engine.submit(Wait()), bench.engine.submit(OpenOrTurnAway())
        bench.journal.commit()
        assert (waiting.result(), opening.result()) == ("open", "open")

    run(scenario)


def test_an_append_that_is_refused_changes_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        bench.journal.refuses_with = JournalFault(Error.NOT_ENOUGH_REPLICAS, "one is left")
        with pytest.raises(ApiError) as caught:
            await bench.engine.submit(Add(5))
        assert caught.value.error is Error.NOT_ENOUGH_REPLICAS
        assert bench.machine.total == 0
        bench.journal.refuses_with = None
        added = bench.engine.submit(Add(5))
        bench.journal.commit()
        assert added.result() == 5

    run(scenario)


def test_a_fault_of_the_journal_answers_everybody_and_stops() -> None:
    async def scenario(bench: Bench) -> None:
        futures = [bench.engine.submit(c) for c in (Add(1), Add(2), Total(), Wait())]
        bench.journal.commit(1)
        bench.journal.fail(Error.NOT_COORDINATOR, "moved")
        assert futures[0].result() == 1
        for each in futures[1:]:
            with pytest.raises(ApiError) as caught:
                await each
            assert caught.value.error is Error.NOT_COORDINATOR
        with pytest.raises(ApiError):
            await bench.engine.submit(Total())
        assert [error.error for error in bench.stopped_with] == [Error.NOT_COORDINATOR]

    run(scenario)


def test_stopping_answers_tokens_and_silences_timers() -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Alarm(100))
        waiting = bench.engine.submit(Wait())
        bench.engine.stop(Error.NOT_COORDINATOR)
        bench.engine.stop(Error.NOT_COORDINATOR)
        with pytest.raises(ApiError):
            await waiting
        bench.time.pass_ms(1000)
        assert bench.machine.total == 0
        assert bench.stopped_with == [], "whoever stops it knows"

    run(scenario)


def test_too_many_waiting_commands_are_refused() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = [bench.engine.submit(Wait()) for _ in range(10)]
        with pytest.raises(ApiError) as caught:
            await bench.engine.submit(Total())
        assert caught.value.error is Error.REQUEST_TIMED_OUT
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert bench.engine.submit(Total()).result() == 0, "who gives up makes room"

    run(scenario)


def test_facts_are_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        bench.engine.submit(Add(5))

    with caplog.at_level(logging.DEBUG):
        run(scenario)
    assert "applied engine=counting fact=Added(amount=5)" in caplog.text


def test_no_answer_is_ever_lost_in_a_crash() -> None:
    """Whatever was answered by the time of the crash follows from the durable facts."""

    async def scenario(bench: Bench) -> None:
        for seed in seeds.several(200, first=0):
            rng = random.Random(seed)
            journal, machine = ManualJournal(), Counting()
            crashing = Bench(journal=journal, machine=machine)
            crashing.engine = crashing.start(1000)
            answers: list[asyncio.Future[object]] = []
            for _ in range(rng.randrange(60)):
                action = rng.random()
                if action < 0.5:
                    answers.append(crashing.engine.submit(Add(rng.randrange(1, 9))))
                elif action < 0.7:
                    answers.append(crashing.engine.submit(Total()))
                elif journal.facts:
                    journal.commit(rng.randint(journal.durable_count, len(journal.facts)))
            reborn = Counting()
            possible = {0}
            for fact in journal.durable:
                reborn.apply(fact)
                possible.add(reborn.total)
            assert {each.result() for each in answers if each.done()} <= possible, seed
            order = [each.done() for each in answers]
            assert order == sorted(order, reverse=True), "answers leave in order"

    run(scenario)
