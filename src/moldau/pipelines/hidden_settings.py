"""Settings of a pipeline that do not show their secrets when somebody prints what holds them.

They are pickled with the tasks as they are; a plan, an exception or a debugger shows `[hidden]`.
"""

from __future__ import annotations

import re

from moldau.config.setting_definition import HIDDEN

SECRET_NAMES = r"jaas|password|secret|token|credential|keystore\.key|ssl\.key"
"""In the names of options whose values nobody may see; Java understands it as well."""
_SECRET = re.compile(SECRET_NAMES, re.IGNORECASE)


class HiddenSettings(dict[str, str]):
    """By name, with or without the prefix `kafka.`"""

    def __repr__(self) -> str:
        shown = {name: HIDDEN if _SECRET.search(name) else value for name, value in self.items()}
        return repr(shown)
