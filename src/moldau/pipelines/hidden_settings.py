"""Settings of a pipeline that do not show their secrets when somebody prints what holds them.

They are pickled with the tasks as they are; a plan, an exception or a debugger shows `[hidden]`.
"""

from __future__ import annotations

import logging
import re

from moldau.config.setting_definition import HIDDEN

SECRET_NAMES = r"jaas|password|secret|token|credential|keystore\.key|ssl\.key"
"""In the names of options whose values nobody may see; Java understands it as well."""
_SECRET = re.compile(SECRET_NAMES, re.IGNORECASE)
_SECRET_LINE = re.compile(f"{SECRET_NAMES}|private key", re.IGNORECASE)
CARRIERS = ("py4j.java_gateway", "py4j.clientserver")
"""At DEBUG these log every call to the JVM whole, and with it every option of a pipeline."""


class HiddenSettings(dict[str, str]):
    """By name, with or without the prefix `kafka.`"""

    def __repr__(self) -> str:
        shown = {name: HIDDEN if _SECRET.search(name) else value for name, value in self.items()}
        return repr(shown)


class HidesSecrets(logging.Filter):
    """Ends a line where the first name of a secret stands: what follows may be its value."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        found = _SECRET_LINE.search(said)
        if found is not None:
            record.msg, record.args = "%s", (f"{said[: found.start()]}{HIDDEN}",)
        return True


_HIDES_SECRETS = HidesSecrets()


def hide_what_is_carried_to_the_jvm() -> None:
    """More than once does no harm."""
    for name in CARRIERS:
        logging.getLogger(name).addFilter(_HIDES_SECRETS)
