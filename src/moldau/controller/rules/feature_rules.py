"""The cluster's features: abilities that clients may use once the whole cluster has them.

Pure. The table has what is true of Moldau; ApiVersions tells it to clients. Levels can be changed
within the supported range, with the rules and sentences of Apache Kafka: all of a request or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.controller.controller_facts import FeaturesUpdated
from moldau.controller.controller_state import ControllerState
from moldau.model.errors import ApiError, Error

METADATA_VERSION = "metadata.version"


class Feature(NamedTuple):
    name: str
    level_min: int
    level_max: int
    doc: str


FEATURES: tuple[Feature, ...] = (
    Feature(
        METADATA_VERSION,
        7,
        30,
        "What the cluster can keep in its metadata, told in Apache Kafka's numbers: 30 is 4.3. It "
        "does not go down.",
    ),
    Feature(
        "transaction.version",
        0,
        2,
        "2 gives every transaction an epoch of its own (KIP-890); below it clients fall back to "
        "one epoch per producer. 0 and 1 are the same, since the log of transactions is always "
        "written in its newer format.",
    ),
)
"""One row per feature. A cluster begins at the highest level of each."""


ABSENT = frozenset(
    {"eligible.leader.replicas.version", "group.version", "share.version", "streams.version"}
)
"""Features of Apache Kafka 4.3 that are at level 0 as long as they have no row above."""


class UpgradeType(IntEnum):
    """Numbered as in the protocol."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    upgrade_type: int


def level_of(feature: Feature, changed: Mapping[str, int]) -> int:
    """Levels from a newer program than this one count as the highest that is known here."""
    return min(changed.get(feature.name, feature.level_max), feature.level_max)


def changes_nothing(update: FeatureUpdate) -> bool:
    """Whether a feature that is not there is asked to stay away: tools switch off so what they do
    not want, whether it is on or not."""
    is_absent = update.name in ABSENT and all(row.name != update.name for row in FEATURES)
    return is_absent and update.level == 0 and update.upgrade_type in set(UpgradeType)


def updated(state: ControllerState, updates: Sequence[FeatureUpdate]) -> FeaturesUpdated | None:
    """None if nothing changes; the refusal of one is that of all."""
    levels = dict(state.cluster.features)
    for update in updates:
        if changes_nothing(update):
            continue
        try:
            feature = _checked(update, levels, state.cluster.controller_id)
        except ApiError as refusal:
            raise ApiError(
                refusal.error,
                "The update failed for all features since the following feature had an error: "
                + refusal.message,
            ) from refusal
        levels[feature.name] = update.level
    levels = {f.name: level_of(f, levels) for f in FEATURES if level_of(f, levels) != f.level_max}
    if levels == state.cluster.features:
        return None
    return FeaturesUpdated(levels, state.cluster.features_epoch + 1)


def _checked(update: FeatureUpdate, levels: Mapping[str, int], controller_id: int) -> Feature:
    name, wanted, upgrade_type = update
    if upgrade_type not in set(UpgradeType):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if wanted < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    feature = next((row for row in FEATURES if row.name == name), None)
    if feature is None:
        missing = f"Feature {name} not found."
        unsupported = f"Local controller {controller_id} does not support this feature."
        raise _invalid(update, unsupported if wanted else missing)
    if not feature.level_min <= wanted <= feature.level_max:
        raise _invalid(
            update,
            f"Local controller {controller_id} only supports versions "
            f"{feature.level_min}-{feature.level_max}",
        )
    now = level_of(feature, levels)
    if wanted < now and upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if wanted > now and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if wanted < now and name == METADATA_VERSION:
        raise ApiError(
            Error.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {now} to {wanted}. "
            + (
                "Refusing to perform the requested downgrade because it might delete metadata "
                "information."
                if upgrade_type == UpgradeType.SAFE_DOWNGRADE
                else "Unsafe metadata downgrade is not supported in this version."
            ),
        )
    return feature


def _invalid(update: FeatureUpdate, reason: str) -> ApiError:
    return ApiError(
        Error.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
