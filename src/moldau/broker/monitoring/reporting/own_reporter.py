"""A reporter by a Python path: loaded at the start, run in a thread of its own.

Its code is somebody else's: what it raises while it is loaded stops the start, with its reason.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from moldau.broker.access.own_authorizer import open_settings
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.metrics.reporting.measurements import MetricsReporter

SETTING = "metric.reporters"


def loaded(path: str, config: BrokerConfig) -> Any:
    """The object, configured. `path` is module:Class, or module.Class. Raises ConfigError."""
    module_name, colon, class_name = path.partition(":")
    if not colon:
        module_name, _, class_name = path.rpartition(".")
    try:
        found: Any = import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
        made = found()
        if not isinstance(made, MetricsReporter):
            raise TypeError("it is not derived from moldau.reporting.MetricsReporter")
        made.configure(open_settings(config))
    except Exception as fault:
        limit = f"the reporter cannot be loaded: {type(fault).__name__}: {fault}"
        raise ConfigError(SETTING, path, " ".join(limit.split())) from fault
    return made
