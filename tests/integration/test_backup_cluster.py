"""Backups of a cluster of three brokers, of which one dies and returns; restores onto one."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

import moldau.testing
from moldau.testing.broker_process import BrokerProcess
from tests.support.backups import back_up, restore, restore_whole
from tests.support.cluster_of_three import cluster_of_three
from tests.support.fork_load import TransactionalLoad, check_fork
from tests.support.tracked_topic import produce, read

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def die_and_return(broker: BrokerProcess) -> None:
    broker.kill()
    time.sleep(0.5)
    broker.start()


def test_a_cluster_is_backed_up_while_a_broker_fails_and_takes_a_restore_by_produce(
    tmp_path: Path,
) -> None:
    backup = tmp_path / "backup"
    with cluster_of_three(tmp_path) as cluster:
        bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers)
        with TransactionalLoad(bootstrap, "three") as load:
            load.wait_for_more(20)
            back_up(bootstrap, backup)
            failing = threading.Timer(0.7, die_and_return, args=(cluster.brokers[2],))
            failing.start()
            before = load.acknowledged
            said = json.loads(back_up(bootstrap, backup, "--json"))
            after = load.begun
            failing.join()
        assert said["exact"] is True
        with moldau.testing.broker(with_faults=False) as target:
            restore_whole(target.bootstrap, backup)
            check_fork(target.bootstrap, load, before, after)
            produce(target.bootstrap, "small", range(50))
            back_up(target.bootstrap, tmp_path / "other", "--topics", "small")
        done = restore(bootstrap, tmp_path / "other")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Records have other offsets now" in done.stderr
        assert read(bootstrap, "small") == [str(number) for number in range(50)]
