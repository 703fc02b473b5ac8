"""Names of an archive's members: which ones are valid below a directory, and which are refused.

Pure functions of names; nothing here touches the disk.
"""

from __future__ import annotations

from ffrfs.packing.sources.folder_lister import DEPTH_LIMIT

_NAME_LIMIT = 255  # bytes, the limit of Linux


class BadNameError(Exception):
    """A member's name is wrong; `special`: skip_special may leave it out."""

    def __init__(self, reason: str, special: bool = False) -> None:
        super().__init__(reason)
        self.special = special


def parts_of(name: str) -> list[bytes]:
    """Split "./a/b" or "a/b/" into [b"a", b"b"]; [] is the root. Raises BadNameError."""
    if name.startswith("/"):
        raise BadNameError("is an absolute path")
    if "\0" in name:
        raise BadNameError("has a NUL in it")
    if name in (".", "./"):  # the first member of `tar c .`
        return []
    parts = name.removeprefix("./").removesuffix("/").split("/")
    for part in parts:
        _check(part)
    if len(parts) > DEPTH_LIMIT + 1:
        raise BadNameError(f"is deeper than {DEPTH_LIMIT} directories")
    try:
        return [part.encode() for part in parts]
    except UnicodeEncodeError:
        raise BadNameError("the name is not UTF-8", special=True) from None


def _check(part: str) -> None:
    if part == "":
        raise BadNameError("has an empty name in it")
    if part == "..":
        raise BadNameError('leads upwards, by ".."')
    if part == ".":
        raise BadNameError('has a "." in it')
    if len(part.encode("utf-8", "surrogateescape")) > _NAME_LIMIT:
        raise BadNameError(f"has a name of over {_NAME_LIMIT} bytes in it")
