"""Runs the fuzz targets, each a fixed number of times or for a time.

    python -m tests.fuzz.run BUILD                 as in `make check`: a few seconds for each target
    python -m tests.fuzz.run BUILD --minutes 10    continues with the inputs of earlier long runs

BUILD is the folder where native/CMakeLists.txt has built them (-DFFRFS_FUZZ=ON). Their seeds
come from seeds.py. Each target prints one line. If a target fails, its whole output is printed,
and the input that made it fail stays in BUILD/failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.seeds import SIZE_LIMIT, write_seeds
from tests.golden_files import write_golden_files

HERE = Path(__file__).resolve().parent
# So many runs take a few seconds for each target.
RUN_COUNTS = {
    "example_fuzz": 100_000,
    "header_fuzz": 20_000,
    "index_fuzz": 10_000,
    "pickle_fuzz": 60_000,
    "request_fuzz": 200_000,
    "tfrecord_fuzz": 20_000,
    "union_fuzz": 10_000,
}
# The time for one input. The sanitizers make it about ten times slower.
INPUT_TIMEOUT_S = 10
# For one allocation (an input has SIZE_LIMIT bytes at most); for the process with sanitizers.
ALLOCATION_LIMIT_MB = 64
MEMORY_LIMIT_MB = 1024
# Longer than a fixed number of runs takes on a busy machine.
TARGET_TIMEOUT_S = 300


def command(build: Path, target: str, found: Path, duration_s: int | None) -> list[str]:
    limit = f"-runs={RUN_COUNTS[target]}" if duration_s is None else f"-max_total_time={duration_s}"
    dictionary = HERE / f"{target.removesuffix('_fuzz')}.dict"
    return [
        str(build / target),
        limit,
        "-seed=1",
        f"-max_len={SIZE_LIMIT}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-malloc_limit_mb={ALLOCATION_LIMIT_MB}",
        f"-rss_limit_mb={MEMORY_LIMIT_MB}",
        f"-artifact_prefix={build / 'failed'}/{target}-",
        "-print_final_stats=1",
        # Leaks of a short run are found at its end. libFuzzer would look for them after each input
        # that leaves memory in a cache, and this takes ten times as long as all inputs.
        *(["-detect_leaks=0"] if duration_s is None else []),
        *([f"-dict={dictionary}"] if dictionary.exists() else []),
        str(found),
        str(build / "seeds" / target),
    ]


def fuzz(build: Path, target: str, duration_s: int | None) -> tuple[bool, str]:
    """Return whether all runs held, and one line about them or the whole output."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ffrfs-fuzz-") as scratch:
        # Short runs are the same each time: they neither use nor keep the inputs that were found.
        found = Path(scratch, "found") if duration_s is None else build / "found" / target
        found.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            command(build, target, found, duration_s),
            env=os.environ
            | {"TMPDIR": scratch, "XDG_CACHE_HOME": scratch, "UBSAN_OPTIONS": "print_stacktrace=1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=TARGET_TIMEOUT_S + (duration_s or 0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output += f"\n{target}: did not end in time\n".encode()
    text = output.decode(errors="replace")
    runs = re.search(r"number_of_executed_units: (\d+)", text)
    if process.returncode != 0 or runs is None:
        return False, f"{target}: failed with status {process.returncode}\n{text}"
    edges = re.findall(r"cov: (\d+)", text)
    duration = time.monotonic() - began_s
    return True, f"{target}: {runs[1]} runs, {edges[-1]} edges, {duration:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("targets", nargs="*", help="default: all", metavar="TARGET")
    arguments = parser.parse_intermixed_args()
    build = arguments.build.resolve()
    (build / "failed").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ffrfs-golden-") as scratch:
        golden = Path(scratch, "golden")
        write_golden_files(golden)
        write_seeds(build / "seeds", golden)
    duration_s = None if arguments.minutes is None else round(arguments.minutes * 60)
    targets = arguments.targets or sorted(RUN_COUNTS)
    status = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for held, text in pool.map(lambda target: fuzz(build, target, duration_s), targets):
            print(text, flush=True)
            status |= not held
    return status


if __name__ == "__main__":
    sys.exit(main())
