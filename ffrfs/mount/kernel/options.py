"""The values of `-o`: mount(8)'s own options, FUSE's, and ours.

mount(8) and fstab pass many options that are meant for other programs (nofail, _netdev,
x-systemd.*): those are accepted and dropped. Only the fields of TreeOptions reach the
kernel and the engine; an unknown option is an error that names it.

Not here: the options for the kernel (kernel_mount.py). No state: safe from any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args

from ffrfs.errors import OptionError

_DIGITS_MAX = 20
ID_MAX = 2**32 - 2  # 2**32 - 1 means "no change" to the kernel
OnConflict = Literal["error", "first", "last"]
ON_CONFLICT = get_args(OnConflict)


class TreeKeywords(TypedDict, total=False):
    """The keywords of ffrfs.mount() for TreeOptions, and for words of -o."""

    allow_other: bool
    allow_root: bool
    uid: int | None
    gid: int | None
    umask: int | str | None  # a number (0o022), or octal digits ("022")
    fsname: str | None
    xattr: bool
    nonempty: bool
    noexec: bool
    nosymfollow: bool
    suid: bool
    dev: bool
    on_conflict: OnConflict | None
    allow_missing: bool


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """The appearance of a tree, and the users that may see it. It is always read-only."""

    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)
    umask: int = 0
    fsname: str | None = None  # the first word in /proc/mounts; None: the first pack's path
    allow_other: bool = False
    allow_root: bool = False
    suid: bool = False
    dev: bool = False
    exec: bool = True
    symfollow: bool = True  # the kernel follows symbolic links of the tree
    xattr: bool = False
    nonempty: bool = False
    rw: bool = False  # requested, in vain
    on_conflict: OnConflict = "error"  # for a path that several packs have
    allow_missing: bool = False  # show the packs of a set that exist


# Word → field, and its value.
_FLAGS: dict[str, tuple[str, bool]] = {
    **{word: (word, True) for word in ("allow_other", "allow_root", "suid", "dev", "exec")},
    **{word: (word, True) for word in ("symfollow", "xattr", "nonempty", "allow_missing", "rw")},
    **{f"no{field}": (field, False) for field in ("suid", "dev", "exec", "symfollow")},
    "ro": ("rw", False),
}

# These have no effect: they always hold (default_permissions), mean nothing on a read-only tree
# (access times, sync), or are meant for mount(8) and systemd.
_ACCEPTED = frozenset(
    """
    default_permissions defaults auto noauto nofail _netdev user nouser users owner group
    atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime
    lazytime nolazytime sync async dirsync iversion noiversion mand nomand silent loud sloppy
    """.split()  # noqa: SIM905
)
_ACCEPTED_PREFIXES = ("x-", "X-", "user=", "comment=")
_SLOPPY = "sloppy"  # mount -s: ignore unknown options
_REMOUNT = "remount"

_WORD = re.compile(r"(?:[^,\\]|\\.)+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def split_options(texts: Iterable[str]) -> list[str]:
    """Return the words in the values of all `-o`, unescaped."""
    return [word for text in texts for word in _split(text)]


def parse_words(words: Iterable[str]) -> TreeOptions:
    """Return the options of these words (split_options()); of two that disagree the later holds."""
    words = list(words)
    if _REMOUNT in words:
        raise OptionError("remount: options of a mount cannot change; unmount, and mount again")
    chosen: dict[str, Any] = {}
    for word in words:
        meaning = _meaning(word)
        if meaning is None and _SLOPPY not in words:
            shown = word.partition("=")[0] if may_be_secret(word) else word
            raise OptionError(f"unknown mount option {shown!r}")
        chosen.update(meaning or {})
    if chosen.get("allow_other") and chosen.get("allow_root"):
        raise OptionError("allow_other and allow_root exclude each other: choose one")
    return TreeOptions(**chosen)


def escape(value: str) -> str:
    """Return `value` as one word, with escapes, as in fsname=a\\,b."""
    return value.replace("\\", "\\\\").replace(",", "\\,")


def may_be_secret(text: str) -> bool:
    """Return whether a wrong value may hold a password or a key, which no message repeats."""
    return "@" in text or "?" in text


def _split(text: str) -> list[str]:
    rest = _WORD.sub("", text).replace(",", "")
    if rest:
        raise OptionError(f"mount options {text!r} end in a backslash that escapes nothing")
    return [_ESCAPE.sub(r"\1", word) for word in _WORD.findall(text)]


def _meaning(word: str) -> dict[str, Any] | None:
    """Return the fields that the word sets, or None if it is unknown."""
    if word in _FLAGS:
        name, value = _FLAGS[word]
        return {name: value}
    if word in _ACCEPTED or word.startswith(_ACCEPTED_PREFIXES):
        return {}
    name, equals, text = word.partition("=")
    return {name: _VALUES[name](word, text)} if equals and name in _VALUES else None


def _id(word: str, text: str) -> int:
    return _number(word, text, base=10, limit=ID_MAX)


def _umask(word: str, text: str) -> int:
    return _number(word, text, base=8, limit=0o777)


def _on_conflict(word: str, text: str) -> str:
    if text not in ON_CONFLICT:
        raise OptionError(f"mount option {word!r} needs one of {', '.join(ON_CONFLICT)}")
    return text


def _fsname(_: str, text: str) -> str:
    if not text or "\0" in text:
        raise OptionError("mount option 'fsname=' needs a name")
    return text


_VALUES: dict[str, Callable[[str, str], int | str]] = {
    "uid": _id,
    "gid": _id,
    "umask": _umask,
    "on_conflict": _on_conflict,
    "fsname": _fsname,
}


def _number(word: str, text: str, *, base: int, limit: int) -> int:
    digits = "01234567" if base == 8 else "0123456789"
    is_number = 0 < len(text) <= _DIGITS_MAX and not text.strip(digits)
    value = int(text, base) if is_number else limit + 1
    if value > limit:
        kind = "an octal number" if base == 8 else "a number"
        most = f"{limit:o}" if base == 8 else str(limit)
        raise OptionError(f"mount option {word!r} needs {kind} from 0 to {most}")
    return value
