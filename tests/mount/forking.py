"""Programs that read a mount, or give it hints, and fork; for child.py."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from tests.mount.probes import misread

_TIMEOUT_S = 60


def exit_status_of(act: Callable[[], object]) -> int:
    """Return the waitpid() status of a forked child that does this: 0 if it succeeded."""
    return os.waitpid(fork(act), 0)[1]


def fork(act: Callable[[], object]) -> int:
    process_id = os.fork()
    if process_id == 0:
        signal.alarm(_TIMEOUT_S)  # ends a child that hangs
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return process_id


def fork_while_reading(
    folder: str, digests: dict[str, str], thread_count: int, fork_count: int
) -> tuple[list[str], list[int]]:
    """Fork beside threads that read uncached; return the misread files and the exit statuses."""
    is_over = threading.Event()
    misread_names: list[str] = []

    def read_on(seed: int) -> None:
        order = random.Random(seed)
        names = sorted(digests)
        while not is_over.is_set():
            name = order.choice(names)
            forget(os.path.join(folder, name))
            misread_names.extend(misread(folder, digests, [name]))

    def read_in_child() -> None:
        names = random.sample(sorted(digests), 5)
        for name in names:
            forget(os.path.join(folder, name))
        if misread(folder, digests, names):
            raise ValueError("wrong bytes")

    threads = [threading.Thread(target=read_on, args=(seed,)) for seed in range(thread_count)]
    for thread in threads:
        thread.start()
    statuses = [exit_status_of(read_in_child) for _ in range(fork_count)]
    is_over.set()
    for thread in threads:
        thread.join()
    return misread_names, statuses


def forget(path: str) -> None:
    """Let the kernel drop the file's pages."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def hint_and_fork(
    mountpoint: str, hinted: list[str], digests: dict[str, str], act: str
) -> Iterator[object]:
    """Hint; fork a child that "closes", "reads", "hints", "sleeps" or "executes"; close.

    Yields after each step; for the child its status, or None if it lives on.
    """
    import ffrfs

    # By record number, so that the kernel does not look them up.
    hints = ffrfs.prefetch([int(os.path.basename(path)) for path in hinted], mountpoint)
    yield hints.wait(_TIMEOUT_S)

    def close() -> None:
        hints.close()
        hints.__del__()

    def read() -> None:
        if misread(mountpoint, digests, hinted[:20]):
            raise ValueError("wrong bytes")

    def hint() -> None:
        with ffrfs.prefetch(hinted[:20], mountpoint) as own:
            if not own.wait(_TIMEOUT_S):
                raise ValueError("no hints from a child")

    match act:
        case "sleeps":
            fork(lambda: time.sleep(_TIMEOUT_S))
            yield None
        case "executes":
            subprocess.Popen(["sleep", str(_TIMEOUT_S)], close_fds=False)
            yield None
        case _:
            yield exit_status_of({"closes": close, "reads": read, "hints": hint}[act])
    hints.close()
    yield "closed"


def fork_while_hinting(mountpoint: str, hinted: list[str], fork_count: int) -> list[int]:
    """Fork beside a thread that hints without end; the children hint, too."""
    import ffrfs

    def forever() -> Iterator[str]:
        while True:
            yield from hinted

    def hint() -> None:
        with ffrfs.prefetch(hinted, mountpoint) as own:
            own.wait(0.01)

    with ffrfs.prefetch(forever(), mountpoint):
        return [exit_status_of(hint) for _ in range(fork_count)]
