"""What holds for all unit tests."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has them ignore SIGINT, and whatever they start, too. The tests
# of Ctrl-C would then wait for ever for an interrupt that cannot come.
signal.signal(signal.SIGINT, signal.default_int_handler)
