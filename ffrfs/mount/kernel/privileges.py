"""Drops privileges of a daemon before it reads the first byte of a pack.

A daemon of root keeps two capabilities: to mount and unmount (CAP_SYS_ADMIN), and to reach
files of other users (CAP_DAC_OVERRIDE: packs, a mount point that it makes and removes, a
log). Neither it nor its children can ever get another one. An ordinary user's daemon keeps
none, but may still start fusermount3, which is set-uid root and without which it could not
unmount: so no_new_privs and a smaller bounding set are not for it.

Concurrency: each thread has its own capabilities, and inherits those of the thread that
starts it: drop() must be called while the process has one thread.

Not here: the worker, which drops all (native/worker/lockdown.h).
"""

from __future__ import annotations

import ctypes
import os

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_OVERRIDE, CAP_SYS_ADMIN = 1, 21
_KEPT_BY_ROOT = 1 << CAP_SYS_ADMIN | 1 << CAP_DAC_OVERRIDE
_WORD_COUNT = 2  # a set of capabilities has 64 bits

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Word(ctypes.Structure):
    """32 capabilities."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def drop() -> list[str]:
    """Drop the privileges that a daemon does not need; return notices for the user, a line each.

    A privilege that the kernel refuses to take back is kept.
    """
    is_root = os.geteuid() == 0
    try:
        if is_root:
            if _libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0) != 0:
                raise _failure()
            _bound(_KEPT_BY_ROOT)
        _keep(_KEPT_BY_ROOT if is_root else 0)
    except OSError as error:
        return [f"the daemon keeps more privileges than it needs: {error.strerror}"]
    return []


def _bound(kept: int) -> None:
    """Remove all capabilities but `kept` from the bounding set, if that is permitted."""
    for capability in range(32 * _WORD_COUNT):
        if kept >> capability & 1:
            continue
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            # The kernel has no further capabilities; or a container has not given CAP_SETPCAP,
            # and with no_new_privs the bounding set has no effect.
            return


def _keep(kept: int) -> None:
    """Keep only `kept` of the capabilities that this thread has."""
    header, words = _Header(CAPABILITY_VERSION_3, 0), (_Word * _WORD_COUNT)()
    if _libc.capget(ctypes.byref(header), words) != 0:
        raise _failure()
    for index, word in enumerate(words):
        word.permitted &= kept >> 32 * index & 0xFFFF_FFFF
        word.effective = word.permitted
        word.inheritable = 0  # this clears the ambient ones, too
    if _libc.capset(ctypes.byref(header), words) != 0:
        raise _failure()


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
