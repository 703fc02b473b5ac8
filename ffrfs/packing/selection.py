"""Which files of a folder are packed: patterns to include and to exclude.

A pattern is that of a shell (`*`, `?`, `[abc]`). Without a slash it is matched against the
name of a file or folder, anywhere; with one, against its path below the packed folder,
where `*` also matches slashes. A slash at the end is ignored, one at the beginning
means the packed folder.

Pure functions of names; nothing here touches the disk.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence


class Selection:
    """`include` (None: everything) less `exclude`."""

    def __init__(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> None:
        self.takes_all = include is None
        self.excludes_nothing = not exclude
        self._include = _Patterns(include or ())
        self._exclude = _Patterns(exclude or ())

    def includes(self, name: str, path: str) -> bool:
        """Tell whether a file, or all that is in a folder, is asked for."""
        return self.takes_all or self._include.match(name, path)

    def excludes(self, name: str, path: str) -> bool:
        return self._exclude.match(name, path)

    def takes(self, path: str) -> bool | None:
        """Tell whether "a/b/c" is asked for, by its name or by a folder's above it.

        None: it, or a folder above it, is excluded.
        """
        asked_for = self.takes_all
        end = 0
        for name in path.split("/"):
            end += len(name)
            if self.excludes(name, path[:end]):
                return None
            asked_for = asked_for or self.includes(name, path[:end])
            end += 1
        return asked_for


class _Patterns:
    def __init__(self, patterns: Sequence[str]) -> None:
        if isinstance(patterns, str):
            raise TypeError(f"patterns are a list of strings, not one string: {patterns!r}")
        trimmed = [pattern.rstrip("/") for pattern in patterns]
        self._of_names = _union(p for p in trimmed if "/" not in p)
        self._of_paths = _union(p.lstrip("/") for p in trimmed if "/" in p)

    def match(self, name: str, path: str) -> bool:
        return bool(
            (self._of_names and self._of_names.match(name))
            or (self._of_paths and self._of_paths.match(path))
        )


def _union(patterns: Iterable[str]) -> re.Pattern[str] | None:
    expressions = [fnmatch.translate(pattern) for pattern in patterns]
    return re.compile("|".join(expressions)) if expressions else None
