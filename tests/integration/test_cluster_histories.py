"""What clients saw of a cluster under faults, judged by the checker of histories.

Moldau's client and librdkafka append and read in transactions, process one topic into another in a
group, and write plain records, on topics of which one is compacted all the while; the internal
topics are compacted too. Brokers, the controller and ZooKeeper's leader are killed, held, cut off
and lose their connections. The short form runs for some 15 seconds, the long one for
MOLDAU_HISTORY_MINUTES (10).
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path

import pytest

from moldau.testing.zookeeper_process import ensemble
from tests.support import seeds
from tests.support.eventually import eventually
from tests.support.fire import COMPACTING, ClusterUnderFire
from tests.support.histories.judgement import has_compacted, judge
from tests.support.histories.model import History
from tests.support.histories.stage import PARTITIONS, Stage

SHORT_SECONDS = 15.0
WARM_SECONDS_MAX = 90.0
TOPICS = {**PARTITIONS, "__consumer_offsets": 3, "__transaction_state": 3}


def history_under_faults(directory: Path, seconds: float, seed: int) -> History:
    draw = random.Random(seed)
    with (
        ensemble(directory) as servers,
        ClusterUnderFire(directory, servers, draw, COMPACTING) as cluster,
        contextlib.closing(Stage(cluster.reach, random.Random(seed))) as stage,
    ):
        stage.start()
        try:
            eventually(stage.is_under_way, WARM_SECONDS_MAX)
            stage.compact_internal_topics()
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                fault = cluster.next_fault()
                cluster.begin(fault)
                time.sleep(fault.seconds)
                cluster.end(fault)
                print(fault)
                # The next one may come before everybody is in sync again.
                time.sleep(draw.uniform(0.2, 3.0))
        finally:
            stage.finish()
            print(dict(stage.notes.faults.most_common(20)))
        cluster.until_whole(TOPICS)
        return stage.history()


def test_clients_of_a_cluster_under_faults_see_no_anomaly(tmp_path: Path) -> None:
    judge(history_under_faults(tmp_path, SHORT_SECONDS, seeds.one()))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_clients_of_a_cluster_under_faults_see_no_anomaly_for_long(tmp_path: Path) -> None:
    minutes = float(os.environ.get("MOLDAU_HISTORY_MINUTES", "10"))
    history = history_under_faults(tmp_path, minutes * 60, seeds.one())
    judge(history)
    assert has_compacted(history)
