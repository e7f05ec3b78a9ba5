"""Lives that are told rather than drawn: a calm cluster, and one thing that happens to it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moldau.metadata import paths
from moldau.model.names import TopicPartition
from tests.sim.cluster import Host
from tests.sim.load import PARTITIONS, TOPIC
from tests.sim.scenario import MEMORY, RECOVERY_MS, Scenario

CALM_MS = 4_000


class Story:
    """Use `told`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = scenario.world
        self.hosts = scenario.hosts
        self.client = scenario.client
        self.invariants = scenario.invariants

    def begin(self) -> None:
        for host in self.hosts:
            host.start()
        self.scenario.load.start(min_insync=2, producers=2)
        self.passes(CALM_MS)
        assert self.scenario.load.acknowledged > 0

    def passes(self, delay_ms: int) -> None:
        self.world.run_until(lambda: False, delay_ms)

    def does(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The client does something; what came of it."""
        tasks: list[asyncio.Task[Any]] = []
        loop = self.client.loop
        loop.call_soon(lambda: tasks.append(loop.create_task(work)))
        assert self.world.run_until(lambda: bool(tasks) and tasks[0].done(), RECOVERY_MS), (
            self.world.faults
        )
        return tasks[0].result()

    @property
    def controller(self) -> Host:
        node = self.scenario.ensemble.tree.tree.find(paths.CONTROLLER)
        assert node is not None
        return self.hosts[paths.decode_controller(node.data).broker]

    def leader(self, place: TopicPartition) -> Host:
        name = self.invariants.newest_leader(place)
        return next(host for host in self.hosts if host.name == name)

    def follower(self) -> Host:
        """One that leads nothing that is written to, if there is one."""
        leaders = {self.leader(TopicPartition(TOPIC, n)).name for n in range(PARTITIONS)}
        return min(self.hosts, key=lambda host: (host.name in leaders, host is self.controller))

    def end(self) -> None:
        """All is healed; everybody has to come to the end of what they do."""
        for host in self.hosts:
            if host.loop is None:
                host.start()
        self.scenario.recover()
        assert self.world.faults == []


@contextmanager
def told(seed: int = 0) -> Iterator[Story]:
    place = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="moldau-sim-", dir=place) as directory:
        scenario = Scenario(seed, Path(directory))
        scenario.load.with_moves = scenario.load.with_topics = False
        scenario.world.grain_us, scenario.ensemble.tree.lag_us = 1, (50, 500)
        logging.disable(logging.CRITICAL)
        try:
            story = Story(scenario)
            story.begin()
            yield story
        finally:
            logging.disable(logging.NOTSET)
            scenario.bury()
