"""The statistics of TFRecord files, as `ffrfs schema stats` counts them, by a process of their own.

Counting takes all of a processor, for which pages do not wait, and memory, which it gives back.
As a program this module is that process: it reads file names, and writes its progress, then the
message. It ends when the server does, since then its pipe breaks.

Concurrency: functions without state; count() waits for the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, NamedTuple

from ffrfs.errors import FfrfsError, MissingPackageError
from ffrfs.view.child import FEW_THREADS

if TYPE_CHECKING:
    from ffrfs.schema.messages import Proto
    from ffrfs.view.job import Job

_HEAD = struct.Struct("<cqq")  # what follows, and two numbers
_PROGRESS, _RESULT, _ERROR = b"p", b"r", b"e"
_JOBS_MAX = 8
_ADDRESSES_MAX = 4 << 30  # bytes of address space, of the process and of each of its jobs


class Counted(NamedTuple):
    """A DatasetFeatureStatisticsList, and the number of damaged records that it leaves out."""

    statistics: Proto
    skipped_count: int


def count(files: Sequence[str], name: str, job: Job[Counted]) -> Counted:
    """Count in a process. Raises what ends the job, and FfrfsError as the process tells it."""
    try:
        from ffrfs.schema import Statistics
    except MissingPackageError as error:
        raise FfrfsError(str(error)) from None

    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ffrfs.view.counting"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **FEW_THREADS},
        start_new_session=True,  # Ctrl-C is for the server, which ends it
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps([name, *files]).encode())
            process.stdin.close()
            while head := process.stdout.read(_HEAD.size):
                kind, first, second = _HEAD.unpack(head)
                if kind == _PROGRESS:
                    job.tick(first)
                    continue
                data = process.stdout.read(first)
                if kind == _ERROR:
                    raise FfrfsError(data.decode(errors="replace"))
                return Counted(Statistics.FromString(data), second)
        finally:
            process.kill()
    raise FfrfsError(f"{name}: the process that counts has ended; memory may be short")


def _count(given: IO[bytes], answers: IO[bytes]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES_MAX, _ADDRESSES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from ffrfs.schema import generate_statistics

    def answer(kind: bytes, data: bytes, second: int = 0) -> None:
        answers.write(_HEAD.pack(kind, len(data), second) + data)
        answers.flush()

    def progress(records: int, size: int) -> None:
        answers.write(_HEAD.pack(_PROGRESS, records, size))
        answers.flush()

    name, *files = json.load(given)
    jobs = min(_JOBS_MAX, max(1, len(os.sched_getaffinity(0)) - 1))
    try:
        found = generate_statistics(files, jobs=jobs, on_error="skip", name=name, progress=progress)
    except BrokenPipeError:
        raise
    except MemoryError:
        return  # the server says so
    except (FfrfsError, OSError) as error:
        answer(_ERROR, str(error).encode(errors="replace"))
        return
    data = found.statistics.SerializeToString(deterministic=True)
    answer(_RESULT, data, found.skipped_count)


if __name__ == "__main__":
    with open(0, "rb") as files, open(1, "wb") as pipe, contextlib.suppress(BrokenPipeError):
        _count(files, pipe)
