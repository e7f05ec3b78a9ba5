"""The process of a broker under test: settings as words, and an end when its parent ends.

The parent holds the other end of standard input. A test run that is killed cannot clean up, but
the kernel closes that end for it, and then the broker has nobody left to serve.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from moldau.broker.process import run_broker
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError


def main(words: Sequence[str]) -> int:
    settings = {key: value for key, _, value in (word.partition("=") for word in words)}
    try:
        config, remarks = BrokerConfig.parse(settings)
    except ConfigError as fault:
        print(fault, file=sys.stderr)
        return 1
    threading.Thread(target=end_with_parent, daemon=True).start()
    return run_broker(config, remarks)


def end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
