"""Transcripts of a machine: given these facts, when this command, then that decision."""

from __future__ import annotations

from moldau.engine.machine import Decision, Machine, Reply, Volatile
from moldau.model.clock import Now


class Transcript:
    """`when` also applies the decision, so that a story can go on."""

    def __init__(self, machine: Machine, wall_ms: int = 0) -> None:
        self.machine = machine
        self.now = Now(wall_ms, 0)
        self.token = 0
        self.decision = Decision()

    def given(self, *facts: object) -> Transcript:
        for fact in facts:
            self.machine.apply(fact)
        return self

    def when(self, command: object) -> Transcript:
        self.token += 1
        self.decision = self.machine.decide(command, self.token, self.now)
        for fact in self.decision.facts:
            self.machine.apply(fact.fact if isinstance(fact, Volatile) else fact)
        return self

    @property
    def facts(self) -> tuple[object, ...]:
        return self.decision.facts

    @property
    def answer(self) -> object:
        """What the command's own token was told."""
        replies = [reply for reply in self.decision.replies if reply.token == self.token]
        assert len(replies) == 1, f"{replies} for one command"
        assert isinstance(replies[0], Reply)
        return replies[0].outcome
