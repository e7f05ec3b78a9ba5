"""One cluster of three for every module that asks for it, whole again after each test.

A module says by `cluster_settings` what its brokers are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.support.cluster_of_three import ClusterOfThree, cluster_of_three


@pytest.fixture(scope="module")
def cluster_settings() -> Mapping[str, str]:
    return {}


@pytest.fixture(scope="module")
def of_three(
    tmp_path_factory: pytest.TempPathFactory, cluster_settings: Mapping[str, str]
) -> Iterator[ClusterOfThree]:
    with cluster_of_three(tmp_path_factory.mktemp("cluster"), cluster_settings) as made:
        yield made


@pytest.fixture
def cluster(of_three: ClusterOfThree) -> Iterator[ClusterOfThree]:
    """Whoever the test has ended or paused comes back after it."""
    yield of_three
    of_three.revive()
