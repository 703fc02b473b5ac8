"""Going to the background: fork first, then mount, and wait for the result.

The daemon is in the root directory, without terminal and, once it has reported, in its own
session; of the descriptors it inherits it keeps two pipes. It reports through one of them,
once. Until then the caller waits; if the caller is gone by then, the daemon unmounts and ends.

Concurrency: start() forks, so only a process with one thread may call it (the command; a
program uses mounted.py).
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
from typing import NoReturn

from ffrfs.errors import MountError
from ffrfs.files.interpreter import starting_process
from ffrfs.mount.config.report import Report
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.notify import Notifier

_FD_MIN = 3  # above the standard descriptors, which become /dev/null


def start(request: MountRequest) -> Report:
    """Serve the mount from a new daemon; return its report when it is ready or has failed."""
    os.close(os.open(os.devnull, os.O_RDWR))  # fails here, while the error can be reported
    # Before the fork, because the service manager knows this process.
    notifier = Notifier.from_environment()
    if request.while_open is not None:
        notifier = Notifier(None)  # the manager's service is the owner, or an ancestor of it
        owner = fcntl.fcntl(request.while_open, fcntl.F_DUPFD_CLOEXEC, _FD_MIN)
        request = dataclasses.replace(request, while_open=owner)
    reading, writing = os.pipe()
    with starting_process():
        child = os.fork()
    if child == 0:
        _become_daemon(request, writing, notifier)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as report:
        return Report.decode(report.read())


def _become_daemon(request: MountRequest, report_to: int, notifier: Notifier) -> NoReturn:
    try:
        try:
            with starting_process():
                child = os.fork()  # so that the process that waits is not the daemon's parent
        except OSError as error:
            os.write(report_to, Report(failure=error).encode())
            os._exit(0)
        if child == 0:
            keep = [report_to] if request.while_open is None else [report_to, request.while_open]
            _leave_everything(keep)
            _serve(request, report_to, notifier)
    finally:
        os._exit(0)


def _leave_everything(keep: list[int]) -> None:
    if cache_dir := os.environ.get("FFRFS_CACHE_DIR"):  # the fetchers of this daemon read it
        os.environ["FFRFS_CACHE_DIR"] = os.path.abspath(cache_dir)
    os.chdir("/")
    os.umask(os.umask(0o022) | 0o022)  # files of the user's (a log) are not more open than others
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(_FD_MIN):
        os.dup2(nothing, fd)
    first = _FD_MIN
    for fd in sorted(keep):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _serve(request: MountRequest, report_to: int, notifier: Notifier) -> None:
    reported = False

    def report(what: Report) -> None:
        nonlocal reported
        reported = True
        # setsid() must not come earlier: when autofs mounts a directory on access, all processes
        # but its manager's process group, which includes mount(8), wait until the mount is done.
        os.setsid()
        os.write(report_to, what.encode())
        os.close(report_to)

    try:
        # Here, not above: the process that waits does not need trio. It may find no memory.
        from ffrfs.mount.daemon import daemon

        daemon.serve(
            request,
            lambda notices: report(Report(tuple(notices))),
            notifier=notifier,
        )
        if not reported:
            text = f"{request.mountpoint}: unmounted before it was ready"
            report(Report(failure=MountError(text)))
    except Exception as error:
        if not reported:
            report(Report(failure=error))
