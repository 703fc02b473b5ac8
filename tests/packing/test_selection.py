"""The names that patterns choose."""

from __future__ import annotations

import pytest

from ffrfs.packing.sources.selection import Selection

PATHS = ["a.png", "b.txt", "d", "d/a.png", "d/e", "d/e/c.png", "D/A.PNG", "[x]"]


def matches(pattern: str) -> list[str]:
    selection = Selection(include=[pattern])
    return [path for path in PATHS if selection.includes(path.rpartition("/")[2], path)]


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("*.png", ["a.png", "d/a.png", "d/e/c.png"]),
        ("/*.png", ["a.png", "d/a.png", "d/e/c.png"]),  # `*` matches slashes in a path
        ("/a.png", ["a.png"]),
        ("d/*.png", ["d/a.png", "d/e/c.png"]),
        ("d", ["d"]),
        ("d/", ["d"]),
        ("e", ["d/e"]),
        ("/e", []),
        ("./a.png", ["a.png"]),
        (".//./d/", ["d"]),
        ("./e", []),
        ("../a.png", []),
        ("d/e", ["d/e"]),
        ("?.png", ["a.png", "d/a.png", "d/e/c.png"]),
        ("[ab].*", ["a.png", "b.txt", "d/a.png"]),
        ("[[]x]", ["[x]"]),
        ("A.PNG", ["D/A.PNG"]),  # case-sensitive, like Linux
        ("a.pn", []),
        (".png", []),
    ],
)
def test_pattern(pattern: str, chosen: list[str]) -> None:
    assert matches(pattern) == chosen
    exclusion = Selection(exclude=[pattern])
    excluded = [path for path in PATHS if exclusion.excludes(path.rpartition("/")[2], path)]
    assert excluded == chosen


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("a", False),
        ("a.txt", True),
        ("d/e/c.png", True),  # because of its folder
        ("d/c.png", False),
        ("x/d/e", False),
        ("old/a.txt", None),
        ("d/e/old/a.txt", None),
        ("d/e/a.bak", None),
    ],
)
def test_a_path_is_selected_by_its_name_or_a_parent(path: str, taken: bool | None) -> None:
    selection = Selection(include=["*.txt", "d/e"], exclude=["old", "*.bak"])
    wanted = selection.wanted(path)
    assert (wanted and wanted.is_asked_for) is taken


def test_several_patterns_are_a_union() -> None:
    selection = Selection(include=["*.txt", "d/e"], exclude=["*.png", "*.txt"])
    assert [path for path in PATHS if selection.includes(path.rpartition("/")[2], path)] == [
        "b.txt",
        "d/e",
    ]
    assert selection.excludes("c.png", "d/e/c.png")


def test_no_patterns() -> None:
    assert Selection().includes("a", "a")
    assert not Selection().excludes("a", "a")
    assert not Selection(include=[]).includes("a", "a")


def test_one_string_instead_of_patterns_is_refused() -> None:
    with pytest.raises(TypeError, match=r"\*\.png"):
        Selection(include="*.png")
