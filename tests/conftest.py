"""What holds for every test."""

from __future__ import annotations

import signal

# A shell that starts something in the background lets it ignore Ctrl-C, and that is inherited by
# every process started from there: tests that interrupt one would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
