"""The rows of the tables in docs/compatibility.md, for the tests that check each row."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.checkout import CHECKOUT

Check = Callable[..., None]


class Row(NamedTuple):
    original: str
    parameters: str  # "(a, b=1)"; "": the original is no function
    ours: str
    difference: str


def _section(heading: str) -> str:
    page = (CHECKOUT / "docs/compatibility.md").read_text()
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def row_names(heading: str) -> list[str]:
    return re.findall(r"^\| `([\w.]+)", _section(heading), re.MULTILINE)


def rows(heading: str, root: str) -> list[Row]:
    """Return the rows of a table whose originals are in the package `root`."""
    pattern = rf"^\| `({root}\.[\w.]+)(\(.*\))?` \| `(ffrfs\.[\w.]+)` \|(.*)\|$"
    section = _section(heading)
    found = re.findall(pattern, section, re.MULTILINE)
    assert len(found) + 2 == section.count("\n|")  # no row has another form
    return [Row(*map(str.strip, groups)) for groups in found]


class Differences(dict[str, Check]):
    """A check for each row that says how ours differs."""

    def __call__(self, *originals: str) -> Callable[[Check], Check]:
        def note(check: Check) -> Check:
            self.update(dict.fromkeys(originals, check))
            return check

        return note


def parameters(function: Any) -> list[inspect.Parameter]:
    """Return the parameters of a call, without `self` or the class."""
    found = [*inspect.signature(function).parameters.values()]
    return found[1:] if found and found[0].name in ("self", "_cls") else found


def defaults(given: list[inspect.Parameter]) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in given]
