"""The statistics of TFRecord files, as `ffrfs schema stats` counts them, by a process of their own.

Counting takes all of a processor, for which pages do not wait, and memory, which it gives back.
The process gets file names, and answers with numbers of records, then with the message. It ends
when the server does, since then its connection breaks.

Concurrency: functions without state; count() waits for the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from ffrfs.errors import FfrfsError, MissingPackageError
from ffrfs.view.child import Child, EndedError, connection, lower

if TYPE_CHECKING:
    from ffrfs.schema import Generated
    from ffrfs.view.job import Job

_JOBS_MAX = 8
_ADDRESSES_MAX = 4 << 30  # bytes of address space, of the process and of each of its jobs


def count(files: Sequence[str], name: str, job: Job[Generated]) -> Generated:
    """Count in a process. Raises StoppedError if the job ends, and FfrfsError of the process."""
    try:
        from ffrfs.schema import Generated, Statistics
    except MissingPackageError as error:
        raise FfrfsError(str(error)) from None

    child = Child(__name__, is_trusted=True)
    try:
        child.send(json.dumps([name, *files]).encode())
        while isinstance(found := json.loads(child.receive()), int):
            job.tick(found)
        if "error" in found:
            raise FfrfsError(found["error"])
        return Generated(Statistics.FromString(child.receive()), found["skipped"])
    except EndedError:
        text = f"{name}: the process that counts has ended; memory may be short"
        raise FfrfsError(text) from None
    finally:
        child.end()


# All code below runs in the child.


def serve() -> None:
    with contextlib.suppress(EOFError, OSError), connection() as link:
        _count(link)


def _count(link: Connection) -> None:
    lower(resource.RLIMIT_AS, _ADDRESSES_MAX)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from ffrfs.schema import generate_statistics

    def answer(value: object) -> None:
        link.send_bytes(json.dumps(value).encode())

    def progress(records: int, _size: int) -> None:
        answer(records)

    name, *files = json.loads(link.recv_bytes())
    jobs = min(_JOBS_MAX, max(1, len(os.sched_getaffinity(0)) - 1))
    try:
        found = generate_statistics(files, jobs=jobs, on_error="skip", name=name, progress=progress)
    except MemoryError:
        return  # count() reports that the process has ended
    except (FfrfsError, OSError) as error:
        return answer({"error": str(error)})
    answer({"skipped": found.skipped_count})
    link.send_bytes(found.statistics.SerializeToString(deterministic=True))
