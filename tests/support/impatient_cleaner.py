"""A broker that loses patience with a compacting process after seconds instead of minutes.

Run as a module instead of `moldau.main`; MOLDAU_PATIENCE says how many seconds.
"""

from __future__ import annotations

import os
import sys

from moldau.main import main
from moldau.storage.compaction import compaction_process

PATIENCE = "MOLDAU_PATIENCE"

if __name__ == "__main__":
    compaction_process.SILENCE_SECONDS_MAX = float(os.environ[PATIENCE])
    sys.exit(main())
