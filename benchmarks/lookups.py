"""The program that looks up names in one folder.

    python -m benchmarks.lookups FOLDER LISTING

LISTING is JSON: a list of names. Prints JSON: the seconds that stat() of each took. It is a
process of its own, like reader.py. On a fresh mount the kernel knows no name: each is a request.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(folder: str, listing: str) -> None:
    names = json.loads(Path(listing).read_text())
    os.stat(folder)  # wait until the daemon answers
    seconds = []
    for name in names:
        path = f"{folder}/{name}"
        start = time.perf_counter()
        os.stat(path)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
