"""Levels of features: which changes are allowed, with the sentences of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.controller.controller_facts import FeaturesUpdated
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.feature_rules import (
    FEATURES,
    FeatureUpdate,
    UpgradeType,
    changes_nothing,
    level_of,
    updated,
)
from moldau.model.cluster import ClusterImage
from moldau.model.errors import ApiError, Error

UP, DOWN, UNSAFE = UpgradeType
METADATA, TRANSACTIONS = "metadata.version", "transaction.version"
PREFIX = "The update failed for all features since the following feature had an error: "


def cluster(**levels: int) -> ControllerState:
    features = {name.replace("_", "."): level for name, level in levels.items()}
    return ControllerState(ClusterImage("c", 3, features=features, features_epoch=8))


def test_every_row_has_a_range_and_a_sentence() -> None:
    assert [row.name for row in FEATURES if row.level_min > row.level_max] == []
    assert [row.name for row in FEATURES if not row.doc.endswith(".")] == []


def test_a_cluster_is_at_the_highest_level_of_each_feature_until_told_otherwise() -> None:
    assert [level_of(row, {}) for row in FEATURES] == [30, 2]
    assert [level_of(row, {METADATA: 99, TRANSACTIONS: 1}) for row in FEATURES] == [30, 1]


def test_going_down_and_up_again_counts_in_the_epoch() -> None:
    state = cluster()
    fact = updated(state, [FeatureUpdate(TRANSACTIONS, 1, DOWN)])
    assert fact == FeaturesUpdated({TRANSACTIONS: 1}, 9)
    state.apply(fact)
    assert updated(state, [FeatureUpdate(TRANSACTIONS, 2, UP)]) == FeaturesUpdated({}, 10)


def test_a_level_that_the_cluster_is_at_changes_nothing() -> None:
    asked = [FeatureUpdate(METADATA, 30, UP), FeatureUpdate(TRANSACTIONS, 2, UP)]
    assert updated(cluster(), asked) is None
    assert updated(cluster(), []) is None


def test_a_feature_that_is_not_there_is_at_level_nought_and_may_stay_there() -> None:
    for how in UpgradeType:
        asked = FeatureUpdate("eligible.leader.replicas.version", 0, how)
        assert changes_nothing(asked)
        assert updated(cluster(), [asked]) is None
    assert not changes_nothing(FeatureUpdate("eligible.leader.replicas.version", 1, UP))
    assert not changes_nothing(FeatureUpdate("nobodys.version", 0, DOWN))
    both = [asked, FeatureUpdate(TRANSACTIONS, 1, DOWN)]
    assert updated(cluster(), both) == FeaturesUpdated({TRANSACTIONS: 1}, 9)


@pytest.mark.parametrize(
    ("name", "level", "kind", "sentence"),
    [
        (METADATA, 31, UP, "Local controller 3 only supports versions 7-30"),
        (METADATA, 0, DOWN, "Local controller 3 only supports versions 7-30"),
        (TRANSACTIONS, 3, UP, "Local controller 3 only supports versions 0-2"),
        (TRANSACTIONS, -1, DOWN, "A feature version cannot be less than 0."),
        (TRANSACTIONS, 2, 0, "The controller does not support the given upgrade type."),
        (TRANSACTIONS, 2, 9, "The controller does not support the given upgrade type."),
        (
            TRANSACTIONS,
            0,
            UP,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        ),
        (TRANSACTIONS, 2, DOWN, "Can't downgrade to a newer version."),
        ("nope", 1, UP, "Local controller 3 does not support this feature."),
        ("nope", 0, UP, "Feature nope not found."),
    ],
)
def test_an_impossible_level_is_refused(name: str, level: int, kind: int, sentence: str) -> None:
    with pytest.raises(ApiError) as caught:
        updated(cluster(transaction_version=1), [FeatureUpdate(name, level, kind)])
    assert caught.value.error is Error.INVALID_UPDATE_VERSION
    assert caught.value.message == (
        f"{PREFIX}Invalid update version {level} for feature {name}. {sentence}"
    )


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            DOWN,
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information.",
        ),
        (UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_metadata_never_goes_down(kind: int, sentence: str) -> None:
    with pytest.raises(ApiError) as caught:
        updated(cluster(), [FeatureUpdate(METADATA, 29, kind)])
    assert caught.value.message == (
        f"{PREFIX}Unsupported metadata.version downgrade from 30 to 29. {sentence}"
    )


def test_one_refusal_is_the_refusal_of_all() -> None:
    asked = [FeatureUpdate(TRANSACTIONS, 1, DOWN), FeatureUpdate("nope", 1, UP)]
    with pytest.raises(ApiError):
        updated(cluster(), asked)
