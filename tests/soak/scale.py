"""The length of the soak tests: seconds in every test run, minutes in `make soak`."""

from __future__ import annotations

import os

IS_LONG = bool(os.environ.get("FFRFS_SOAK"))

SMALL_PACK_MB = 64  # twice the cache of a mount in these tests
CYCLES = 1000 if IS_LONG else 3
MOUNTS = 1000 if IS_LONG else 5  # at once; fewer where memory is short
READERS = 64 if IS_LONG else 8
DURATION_S = 60.0 if IS_LONG else 1.0
TURMOIL_S = 1800.0 if IS_LONG else 8.0
PACK_MB = 1500 if IS_LONG else SMALL_PACK_MB
TEST_TIMEOUT_S = 3000 if IS_LONG else 120
