"""One long-lived process that mounts, reads and unmounts again and again.

    cycles.py ENGINE PACK TMPDIR COUNT

It prints what there was before and at the end, as JSON. test_cycles.py runs it in separate
process and mount namespaces, so that everything it finds comes from itself.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from ffrfs import mounted
from tests.leftovers import found, found_in_the_end, reap, wait_for_daemons
from tests.mount import probes
from tests.mount.child import ask
from tests.mount.command import engine_settings


def main() -> None:
    engine, pack, folder, count = sys.argv[1:]
    tempfile.tempdir = folder
    log_file = Path(folder) / "log"
    log_file.touch()
    cycle(engine, pack, log_file)  # makes the runtime directory, which stays and is no leak
    wait_for_daemons()
    before = found(folder)
    began_s = time.monotonic()
    for _ in range(int(count)):
        cycle(engine, pack, log_file)
    duration_s = time.monotonic() - began_s
    after = found_in_the_end(folder, before)
    print(json.dumps({"before": before, "after": after, "duration_s": duration_s}))


def cycle(engine: str, pack: str, log_file: Path) -> None:
    with mounted(pack, log_file=log_file, **engine_settings(engine)) as root:
        if ask(probes.read, str(root / "d" / "file")) != b"bytes" * 10_000:
            raise ValueError("wrong bytes")
    reap()


if __name__ == "__main__":
    main()
