"""Which files of a folder are packed: patterns to include and to exclude.

A pattern is that of a shell (`*`, `?`, `[abc]`). Without a slash it is matched against the
name of a file or folder, anywhere; with one, against its path below the packed folder,
where `*` also matches slashes. A slash at the end is ignored; "/" or "./" at the beginning
means the packed folder.

A selection remembers which patterns have found something. Nothing here touches the disk.
Concurrency: one thread.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

from ffrfs.errors import PackError


class Selection:
    """`include` (None: everything) less `exclude`."""

    def __init__(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> None:
        self.takes_all = include is None
        self.excludes_nothing = not exclude
        self._include = _Patterns(include or ())
        self._exclude = _Patterns(exclude or ())
        # Those that have matched nothing yet, each as a set of its own.
        self._unmatched = {pattern: _Patterns([pattern]) for pattern in include or ()}

    @property
    def is_searching(self) -> bool:
        """There are patterns that have matched nothing: includes() must see every name."""
        return bool(self._unmatched)

    def includes(self, name: str, path: str) -> bool:
        """Tell whether a file, or all that is in a folder, is asked for."""
        if self.takes_all:
            return True
        found = self._include.match(name, path)
        if found and self._unmatched:
            for pattern in [p for p, own in self._unmatched.items() if own.match(name, path)]:
                del self._unmatched[pattern]
        return found

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
            if not asked_for or self.is_searching:
                asked_for = self.includes(name, path[:end]) or asked_for
            end += 1
        return asked_for

    def check_matched(self, place: str) -> None:
        """After all names in `place`: raise PackError for a pattern that included none of them."""
        for pattern in self._unmatched:
            what = "nothing" if self.excludes_nothing else "nothing that is not excluded"
            raise PackError(
                f"{place}: {what} in it matches --include {pattern!r}; a pattern without a slash "
                f"is a name, one with a slash is a path below {place}"
            )


class _Patterns:
    def __init__(self, patterns: Sequence[str]) -> None:
        if isinstance(patterns, str):
            raise TypeError(f"patterns are a list of strings, not one string: {patterns!r}")
        trimmed = [pattern.rstrip("/") for pattern in patterns]
        self._of_names = _union(p for p in trimmed if "/" not in p)
        self._of_paths = _union(_below_root(p) for p in trimmed if "/" in p)

    def match(self, name: str, path: str) -> bool:
        return bool(
            (self._of_names and self._of_names.match(name))
            or (self._of_paths and self._of_paths.match(path))
        )


def _below_root(pattern: str) -> str:
    """Shells complete "./a", so people write it; "././/a" is the same path."""
    return re.sub(r"^(\.?/)+", "", pattern)


def _union(patterns: Iterable[str]) -> re.Pattern[str] | None:
    expressions = [fnmatch.translate(pattern) for pattern in patterns]
    return re.compile("|".join(expressions)) if expressions else None
