"""Runs a command several times while the whole machine is under load: `make load-test`.

    python -m tests.beside_load TIMES COMMAND…

The load is two busy loops for each core, and a writer that keeps dirtying pages. It ends with
the runs, or at Ctrl-C. The first failure ends the runs, and its status becomes this program's.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

_WRITE_SIZE = 64 << 20  # bytes, rewritten again and again


def _spin() -> None:
    while True:
        pass


def _dirty_pages() -> None:
    piece = os.urandom(1 << 20)
    with tempfile.TemporaryFile() as file:
        while True:
            file.seek(0)
            for _ in range(_WRITE_SIZE // len(piece)):
                file.write(piece)
            file.flush()


def main() -> int:
    times, command = int(sys.argv[1]), sys.argv[2:]
    loads = [_spin] * 2 * (os.cpu_count() or 1) + [_dirty_pages]
    processes = [multiprocessing.Process(target=load, daemon=True) for load in loads]
    for process in processes:
        process.start()
    try:
        for number in range(1, times + 1):
            begin_s = time.monotonic()
            status = subprocess.call(command)
            took_s = time.monotonic() - begin_s
            print(f"== run {number} of {times}: {took_s:.0f} s, status {status}", flush=True)
            if status:
                return status
    finally:
        for process in processes:
            process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
