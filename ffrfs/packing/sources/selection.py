"""Selects files of a directory: by patterns to include and to exclude, and by a list of paths.

A pattern is that of a shell (`*`, `?`, `[abc]`). Without a slash it is matched against the
name of a file or directory, anywhere; with one, against its path below SRC,
where `*` also matches slashes. A slash at the end is ignored; "/" or "./" at the beginning
means SRC itself.

A walk goes down from `root` by step(). A file is packed if it, or a directory above it, matches a
pattern to include and is on the list, and none of them matches a pattern to exclude. A selection
remembers which patterns and paths have found a file. Nothing here touches the disk.
Concurrency: one thread.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ffrfs.errors import PackError
from ffrfs.packing.sources.path_list import ListedFolder, PathList, find, lose
from ffrfs.printable import quoted


class Wanted(NamedTuple):
    """How far a path is selected."""

    included: bool  # a pattern includes it, or a directory above it
    line: int | None  # the line that names it or a directory above it; 0: there is no list
    listed: ListedFolder | None  # the listed paths below it

    @property
    def is_asked_for(self) -> bool:
        """Return whether it is packed, with everything in it."""
        return self.included and self.line is not None


class Selection:
    """Files that `include` names (None: all), less `exclude`, and `listed` has (None: all).

    `without`: these paths, and all below them, are excluded.
    """

    def __init__(
        self,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        listed: PathList | None = None,
        without: PathList | None = None,
    ) -> None:
        self.takes_all = include is None
        self.excludes_nothing = not exclude and without is None
        self._without = without
        self._list = listed
        self.root = Wanted(include is None, 0, None)
        if listed is not None:
            self.root = Wanted(include is None, listed.root.line or None, listed.root)
        self._include = _Patterns(include or ())
        self._exclude = _Patterns(exclude or ())
        # The patterns that have matched nothing yet.
        self._unmatched = {pattern: _Patterns([pattern]) for pattern in include or ()}

    @property
    def has_list(self) -> bool:
        return self._list is not None

    @property
    def is_searching(self) -> bool:
        """Return whether patterns have matched nothing yet: then includes() must see every name."""
        return bool(self._unmatched)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Return the patterns to include that have matched nothing yet."""
        return tuple(self._unmatched)

    def takes_whole(self, folder: Wanted) -> bool:
        """Return whether all in `folder` is selected alike: step() would return `folder`."""
        return (
            folder.is_asked_for
            and folder.listed is None
            and self.excludes_nothing
            and not self.is_searching
        )

    def step(self, above: Wanted, name: str, path: str) -> Wanted | None:
        """Return how far `name` in the directory `above`, with the path `path`, is selected.

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

    def lose(self, above: Wanted, name: str) -> None:
        """Note that `name` in the directory `above` has vanished since step() found it."""
        if above.listed is not None:
            lose(above.listed, name)

    def includes(self, name: str, path: str) -> bool:
        """Return whether a pattern includes a file, or everything in a directory."""
        if self.takes_all:
            return True
        found = self._include.match(name, path)
        if found and self._unmatched:
            for pattern in [p for p, own in self._unmatched.items() if own.match(name, path)]:
                del self._unmatched[pattern]
        return found

    def excludes(self, name: str, path: str) -> bool:
        if self._without is not None and self._without.has(path):
            return True
        return self._exclude.match(name, path)

    def wanted(self, path: str) -> Wanted | None:
        """Return how far "a/b/c" is selected, by its name or by a directory above it.

        None: neither it nor anything below it can be.
        """
        wanted: Wanted | None = self.root
        end = 0
        for name in path.split("/"):
            if wanted is None:
                break
            end += len(name)
            wanted = self.step(wanted, name, path[:end])
            end += 1
        return wanted

    def check_matched(self, place: str) -> None:
        """Raise PackError if a pattern or path has found nothing in `place`; call it last."""
        refuse_unmatched(place, self._unmatched, excludes=not self.excludes_nothing)
        if self._list is not None:
            self._list.check_found(place)


def refuse_unmatched(place: str, patterns: Iterable[str], *, excludes: bool) -> None:
    """Raise PackError for the first of the patterns to include that have matched nothing."""
    for pattern in patterns:
        what = "nothing that is not excluded" if excludes else "nothing"
        raise PackError(
            f"{place}: {what} in it matches --include {quoted(pattern)}; a pattern without a slash "
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
    """Return the path without "./" at its beginning, which shells complete; also "././/a"."""
    return re.sub(r"^(\.?/)+", "", pattern)


def _union(patterns: Iterable[str]) -> re.Pattern[str] | None:
    expressions = [fnmatch.translate(pattern) for pattern in patterns]
    return re.compile("|".join(expressions)) if expressions else None
