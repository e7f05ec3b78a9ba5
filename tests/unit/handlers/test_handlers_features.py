"""UpdateFeatures; codes and sentences compared with Kafka 4.3.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.brokers import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.services import Node, play

TRANSACTIONS = "transaction.version"
UP, DOWN = 1, 2


async def update(
    node: Node, *updates: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> Any:
    rows = [
        FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind == DOWN
        )
        for name, level, kind in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=rows, validate_only=validate_only)
    return await node.call(request, version)


async def told(node: Node) -> tuple[dict[str, int], int]:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    response = await node.call(request, 4)
    levels = {row.name: row.max_version_level for row in response.finalized_features}
    return levels, response.finalized_features_epoch


@pytest.mark.parametrize("version", range(3))
def test_clients_are_told_of_a_change_with_a_higher_epoch(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        down = await update(node, (TRANSACTIONS, 1, DOWN), version=version)
        assert down.error_code == Error.NONE
        names = [row.feature for row in down.results]
        assert names == ([TRANSACTIONS] if version < 2 else [])
        assert await told(node) == ({"metadata.version": 30, TRANSACTIONS: 1}, 1)
        assert (await update(node, (TRANSACTIONS, 2, UP), version=version)).error_code == 0
        assert await told(node) == ({"metadata.version": 30, TRANSACTIONS: 2}, 2)

    play(scenario, tmp_path)


def test_a_feature_at_level_0_is_not_told(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        assert (await update(node, (TRANSACTIONS, 0, DOWN))).error_code == Error.NONE
        assert await told(node) == ({"metadata.version": 30}, 1)

    play(scenario, tmp_path)


def test_a_trial_and_a_refusal_change_nothing(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        before = await told(node)
        trial = await update(node, (TRANSACTIONS, 1, DOWN), validate_only=True)
        assert trial.error_code == Error.NONE
        refused = await update(node, (TRANSACTIONS, 1, DOWN), ("nope", 1, UP))
        assert refused.error_code == Error.INVALID_UPDATE_VERSION
        assert "Local controller 1 does not support this feature." in refused.error_message
        up = await update(node, (TRANSACTIONS, 1, UP), version=0)
        assert up.error_code == Error.INVALID_UPDATE_VERSION
        assert await told(node) == before

    play(scenario, tmp_path)
