"""What the tests of ffrfs.torch share."""

from __future__ import annotations

import multiprocessing

# Once for all workers that a test process starts that way, each of which takes seconds to.
multiprocessing.set_forkserver_preload(["torch"])
