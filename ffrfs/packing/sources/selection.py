"""Which files of a directory are packed: patterns to include and to exclude, and a list of paths.

A pattern is that of a shell (`*`, `?`, `[abc]`). Without a slash it is matched against the
name of a file or directory, anywhere; with one, against its path below SRC,
where `*` also matches slashes. A slash at the end is ignored; "/" or "./" at the beginning
means SRC itself.

A walk goes down from `root` by step(). What is packed matches a pattern to include and is on
the list, itself or by a directory above it, and matches no pattern to exclude. A selection
remembers which patterns and paths have found something. Nothing here touches the disk.
Concurrency: one thread.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ffrfs.errors import PackError
from ffrfs.packing.sources.path_list import ListedFolder, PathList, find


class Wanted(NamedTuple):
    """How far a path is asked for."""

    included: bool  # a pattern asks for it, or for a directory above it
    line: int | None  # of the list, that names it or a directory above it; 0: there is no list
    listed: ListedFolder | None  # what the list names below it

    @property
    def is_asked_for(self) -> bool:
        """It is packed, with all that it holds."""
        return self.included and self.line is not None


class Selection:
    """`include` (None: everything) less `exclude`, as far as it is `listed` (None: all is)."""

    def __init__(
        self,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        listed: PathList | None = None,
    ) -> None:
        self.takes_all = include is None
        self.excludes_nothing = not exclude
        self._list = listed
        self.root = Wanted(include is None, 0, None)
        if listed is not None:
            self.root = Wanted(include is None, listed.root.line or None, listed.root)
        self._include = _Patterns(include or ())
        self._exclude = _Patterns(exclude or ())
        # Those that have matched nothing yet, each as a set of its own.
        self._unmatched = {pattern: _Patterns([pattern]) for pattern in include or ()}

    @property
    def has_list(self) -> bool:
        return self._list is not None

    @property
    def is_searching(self) -> bool:
        """There are patterns that have matched nothing: includes() must see every name."""
        return bool(self._unmatched)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Patterns to include that have matched nothing yet."""
        return tuple(self._unmatched)

    def takes_whole(self, folder: Wanted) -> bool:
        """Tell whether all in `folder` is asked for just as it is: step() would say `folder`."""
        return (
            folder.is_asked_for
            and folder.listed is None
            and self.excludes_nothing
            and not self.is_searching
        )

    def step(self, above: Wanted, name: str, path: str) -> Wanted | None:
        """Say how far `name` is asked for, whose path is `path`, in the directory `above`.

        None: neither it nor anything below it.
        """
        line, listed = above.line, None
        if above.listed is not None:
            own_line, listed = find(above.listed, name)
            line = min((number for number in (own_line, line) if number), default=None)
            if line is None and listed is None:
                return None
        if self.excludes(name, path):
            return None
        included = above.included
        if not included or self.is_searching:
            included = self.includes(name, path) or included
        return Wanted(included, line, listed)

    def includes(self, name: str, path: str) -> bool:
        """Tell whether a file, or all that is in a directory, is asked for."""
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
        """Tell whether "a/b/c" is asked for, by its name or by a directory's above it.

        None: neither it nor anything below it can be.
        """
        wanted = self.root
        end = 0
        for name in path.split("/"):
            end += len(name)
            below = self.step(wanted, name, path[:end])
            if below is None:
                return None
            wanted = below
            end += 1
        return wanted.is_asked_for

    def check_matched(self, place: str) -> None:
        """After all names in `place`: raise PackError if something was asked for in vain."""
        for pattern in self._unmatched:
            what = "nothing" if self.excludes_nothing else "nothing that is not excluded"
            raise PackError(
                f"{place}: {what} in it matches --include {pattern!r}; a pattern without a slash "
                f"is a name, one with a slash is a path below {place}"
            )
        if self._list is not None:
            self._list.check_found(place)


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
