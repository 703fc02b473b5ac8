"""Requests a FUSE mount from the kernel, and ends it, in two ways each.

Root uses the system calls; other users need fusermount3, which is set-uid root. Either
way attach() returns the connection: a descriptor of /dev/fuse from which an engine reads
requests. The process with the last copy of it holds the mount: when it closes, the kernel
answers all requests with ENOTCONN.

Concurrency: blocking, no state; detach() may be called from any thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pwd
import re
import select
import socket
import stat
import subprocess
from collections.abc import Callable

from ffrfs.errors import MountError
from ffrfs.mount.kernel.mount_table import FSTYPE, MountEntry, mount_at
from ffrfs.mount.kernel.options import TreeOptions, escape

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOSYMFOLLOW = 1, 2, 4, 8, 256
MNT_FORCE, MNT_DETACH, UMOUNT_NOFOLLOW = 1, 2, 8
FUSE_DEVICE = "/dev/fuse"
FUSE_CONF = "/etc/fuse.conf"
_IN_A_CONTAINER = "(in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN)"
_CAP_SYS_ADMIN = 21
CONNECTIONS = "/sys/fs/fuse/connections"
DEVICES = "/sys/class/bdi"
BACKGROUND_REQUESTS_MAX = 64
# A READ carries 1 MiB at most. The kernel begins with a fraction of this limit, which must be so
# large that a program that reads 128 KiB at a time (cp) gets a megabyte in two READs.
READAHEAD_KB = 4096
# mount(8) and cron run with a PATH that may lack /usr/local.
SEARCH_PATH = "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin"

_libc = ctypes.CDLL(None, use_errno=True)


def attach(mountpoint: str, source: str, options: TreeOptions) -> int:
    """Mount there; return the connection's descriptor, which the caller owns.

    `source` is the first word in /proc/mounts.
    """
    if os.geteuid() == 0:
        return _attach_as_root(mountpoint, source, options)
    return _attach_by_helper(mountpoint, source, options)


def check(mountpoint: str, options: TreeOptions) -> None:
    """Raise the error of attach(), as far as it can be known before; changes nothing.

    The mount point may be missing, if it can be made, or be a dead mount of ffrfs, which would
    be removed before.
    """
    os.close(_open_device())
    if os.geteuid() == 0:
        if not _has_capability(_CAP_SYS_ADMIN):
            raise _refusal(mountpoint, errno.EPERM)
        return
    _refuse_without_privileges(mountpoint)
    is_free = mount_at(mountpoint) is None
    if is_free and os.path.isdir(mountpoint):
        place = os.stat(mountpoint)
        if place.st_mode & stat.S_ISVTX and place.st_uid != os.geteuid():
            raise MountError(f"{mountpoint}: cannot mount: it is sticky, and user does not own it")
        if not os.access(mountpoint, os.W_OK):
            raise MountError(f"{mountpoint}: cannot mount: user has no write access to it")
    if (options.allow_other or options.allow_root) and not _may_users_allow_other():
        raise MountError(
            f"{mountpoint}: cannot mount: option allow_other only allowed if "
            f"'user_allow_other' is set in {FUSE_CONF}"
        )


def allow_more_requests(device: str) -> None:
    """Let the kernel keep more reads in flight than its default of 12, if it can be set.

    Readahead and asynchronous reads count; at the limit further readers wait, even for
    files whose answers are at hand. `device` is the mount's, as in MountEntry.
    """
    folder = os.path.join(CONNECTIONS, device.partition(":")[2])
    # The directory is missing if fusectl is not mounted.
    with contextlib.suppress(OSError):
        for name, count in (
            ("max_background", BACKGROUND_REQUESTS_MAX),
            ("congestion_threshold", BACKGROUND_REQUESTS_MAX * 3 // 4),
        ):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(str(count))


def raise_readahead(device: str) -> None:
    """Let the kernel read further ahead than its default of 128 KiB, so that a file of a
    megabyte comes in one or two requests. Raises OSError if that is not permitted.

    The limit is the file system's (its BDI's), whatever max_readahead was negotiated.
    """
    with open(os.path.join(DEVICES, device, "read_ahead_kb"), "w", encoding="ascii") as file:
        file.write(str(READAHEAD_KB))


def detach(mountpoint: str, *, is_dead: bool = False) -> bool:
    """Unmount; return True if the mount was in use, and is now detached lazily.

    A lazily detached mount is gone for new users at once, for good when its last open file
    closes. `is_dead`: it has no daemon, so waiting requests are to fail (only root can do that).
    """
    # The mount table cannot show the result: there may be another mount, below this one.
    if (
        is_dead
        and os.geteuid() == 0
        and _libc.umount2(os.fsencode(mountpoint), UMOUNT_NOFOLLOW | MNT_FORCE) == 0
    ):
        return False
    unmount = _umount if os.geteuid() == 0 else _unmount_by_helper
    try:
        unmount(mountpoint, lazy=False)
    except _BusyError:
        unmount(mountpoint, lazy=True)
        return True
    return False


def abort(connection: int, mount: MountEntry) -> None:
    """End the mount's connection by force, if it lives: all its requests fail at once.

    Closing it does not end it while a thread of a killed process is blocked in a call on it.
    If fusectl is not mounted, only root can, while the mount is at its place.
    """
    _abort(mount, lambda: is_connected(connection))


def abort_of(process: int, mount: MountEntry) -> None:
    """Do as abort(), unless the process of that pidfd, which keeps the connection, has ended."""
    _abort(mount, lambda: not select.select([process], [], [], 0)[0])


def _abort(mount: MountEntry, lives: Callable[[], bool]) -> None:
    path = os.path.join(CONNECTIONS, mount.device.partition(":")[2], "abort")
    try:
        with open(path, "wb", buffering=0) as file:
            # Tested after opening: while the connection lives, its device number is not reused.
            if lives():
                file.write(b"1")
    except OSError:
        if os.geteuid() == 0:
            _abort_by_force(mount, lives)


def _abort_by_force(mount: MountEntry, lives: Callable[[], bool]) -> None:
    try:
        used = os.open(mount.mountpoint, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        # The kernel aborts, and leaves the mount, because `used` is open: without it, readers
        # would find an empty directory in place of an error.
        if mount_at(mount.mountpoint) == mount and lives():
            _libc.umount2(os.fsencode(mount.mountpoint), UMOUNT_NOFOLLOW | MNT_FORCE)
    finally:
        os.close(used)


def _has_capability(number: int) -> bool:
    with open("/proc/self/status", "rb") as file:
        found = re.search(rb"^CapEff:\s*([0-9a-f]+)$", file.read(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> number & 1)


def _may_users_allow_other() -> bool:
    try:
        with open(FUSE_CONF, "rb") as file:
            return any(line.strip() == b"user_allow_other" for line in file)
    except OSError:
        return False


def is_connected(connection: int) -> bool:
    """Return whether the kernel has not ended the connection."""
    poll = select.poll()
    poll.register(connection, 0)
    return not poll.poll(0)  # POLLERR: the connection has ended


class _BusyError(Exception):
    """Files of the mount are open, or a process has its working directory in it."""


def _umount(mountpoint: str, *, lazy: bool) -> None:
    flags = UMOUNT_NOFOLLOW | (MNT_DETACH if lazy else 0)
    if _libc.umount2(os.fsencode(mountpoint), flags) != 0:
        number = ctypes.get_errno()
        if number == errno.EBUSY:
            raise _BusyError
        raise MountError(f"{mountpoint}: cannot unmount: {os.strerror(number)}")


def _unmount_by_helper(mountpoint: str, *, lazy: bool) -> None:
    there = mount_at(mountpoint)
    complaint = _run_helper(["-u", *(["-z"] if lazy else []), "--", mountpoint])
    # A program that ignores SIGCHLD gets no status, and may have our texts in another language.
    if there is not None and mount_at(mountpoint) != there:
        return
    if not lazy:
        raise _BusyError  # for another reason it fails lazily, too
    if there is not None and there.is_anothers:
        raise MountError(f"{mountpoint}: mounted by user {there.user_id}; ask them, or root")
    raise MountError(f"{mountpoint}: cannot unmount: {complaint or 'fusermount3 has failed'}")


def _attach_as_root(mountpoint: str, source: str, options: TreeOptions) -> int:
    connection = _open_device()
    try:
        root_mode = stat.S_IFMT(os.stat(mountpoint).st_mode)
        data = ",".join(
            [
                f"fd={connection},rootmode={root_mode:o}",
                f"user_id={os.getuid()},group_id={os.getgid()}",
                *_permissions(options),
            ]
        )
        flags = MS_RDONLY
        flags |= 0 if options.suid else MS_NOSUID
        flags |= 0 if options.dev else MS_NODEV
        flags |= 0 if options.exec else MS_NOEXEC
        flags |= 0 if options.symfollow else MS_NOSYMFOLLOW
        names = (os.fsencode(name) for name in (source, mountpoint, FSTYPE))
        if _libc.mount(*names, ctypes.c_ulong(flags), data.encode()) != 0:
            raise _refusal(mountpoint, ctypes.get_errno())
    except BaseException:
        os.close(connection)
        raise
    return connection


def _attach_by_helper(mountpoint: str, source: str, options: TreeOptions) -> int:
    _refuse_without_privileges(mountpoint)
    words = ["ro", f"fsname={escape(source)}", f"subtype={FSTYPE.removeprefix('fuse.')}"]
    words += _permissions(options)
    words += [word for word in ("suid", "dev") if getattr(options, word)]
    words += [f"no{word}" for word in ("exec", "symfollow") if not getattr(options, word)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        complaint = _run_helper(["-o", ",".join(words), "--", mountpoint], reply_to=theirs)
        if complaint is not None:
            # It opens the device with our rights: if that failed, our own error says more.
            os.close(_open_device())
            advice = "; mount as root" if "nosymfollow" in complaint else _advice_for_nameless()
            raise MountError(f"{mountpoint}: cannot mount: {complaint}{advice}")
        return _receive_fd(ours)


def _refuse_without_privileges(mountpoint: str) -> None:
    """Raise MountError if fusermount3, which is set-uid root, cannot become root."""
    is_set_uid = os.stat(_find_helper()).st_mode & stat.S_ISUID
    with open("/proc/self/status", "rb") as file:
        is_forbidden = re.search(rb"^NoNewPrivs:\t1$", file.read(), re.MULTILINE) is not None
    if is_set_uid and is_forbidden and not _has_capability(_CAP_SYS_ADMIN):
        raise MountError(
            f"{mountpoint}: cannot mount: fusermount3 may not become root here (no_new_privs, as "
            "of a service with NoNewPrivileges=, a container or a sandbox): mount outside of it"
        )


def _advice_for_nameless() -> str:
    """Return advice for a user without an entry, as in many containers: fusermount3 refuses it."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f" (fusermount3 needs an entry of user {os.getuid()} in /etc/passwd: add one)"
    return ""


def _permissions(options: TreeOptions) -> list[str]:
    """Return options: the kernel checks modes, and admits other users if it may.

    The kernel has no allow_root: the engine rejects the other users.
    """
    everybody = options.allow_other or options.allow_root
    return ["default_permissions", *(["allow_other"] if everybody else [])]


def _open_device() -> int:
    try:
        device = os.open(FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except PermissionError as error:
        advice = f"run as root: chmod 666 {FUSE_DEVICE} {_IN_A_CONTAINER}"
        raise MountError(f"{FUSE_DEVICE}: {error.strerror}: {advice}") from None
    except OSError as error:
        advice = f"FUSE is needed: run: modprobe fuse {_IN_A_CONTAINER}"
        raise MountError(f"{FUSE_DEVICE}: {error.strerror}: {advice}") from None
    # A container may get a regular file of this name from a host without the device.
    if not stat.S_ISCHR(os.fstat(device).st_mode):
        os.close(device)
        advice = f"remove it, and run: modprobe fuse {_IN_A_CONTAINER}"
        raise MountError(f"{FUSE_DEVICE}: not a device: {advice}")
    return device


def _refusal(mountpoint: str, number: int) -> MountError:
    text = f"{mountpoint}: cannot mount: {os.strerror(number)}"
    if number == errno.EPERM:
        text += f" {_IN_A_CONTAINER}"
    return MountError(text)


def _run_helper(arguments: list[str], reply_to: socket.socket | None = None) -> str | None:
    """Run fusermount3; return its error text, or None. A connection comes through `reply_to`."""
    path = _find_helper()
    environment = {"PATH": SEARCH_PATH, "LC_ALL": "C"}
    fds = []
    if reply_to is not None:
        fds.append(reply_to.fileno())
        environment["_FUSE_COMMFD"] = str(reply_to.fileno())
    done = subprocess.run(
        [path, *arguments],
        env=environment,
        pass_fds=fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"fusermount3 exited with {done.returncode}"]
    return lines[-1].rpartition("fusermount3: ")[2]


def _find_helper() -> str:
    import shutil  # here, not above: root does not need it

    path = shutil.which("fusermount3", path=SEARCH_PATH)
    if path is None:
        raise MountError("fusermount3 is needed to mount without being root: install fuse3")
    return path


def _receive_fd(sock: socket.socket) -> int:
    _, fds, _, _ = socket.recv_fds(sock, 1, 1)
    if not fds:
        raise MountError("fusermount3 handed over no connection")
    os.set_inheritable(fds[0], False)
    return fds[0]
