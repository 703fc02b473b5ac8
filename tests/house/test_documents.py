"""The documents agree with the code.

A promise of docs/semantics.md is a paragraph that begins with its number, as in
`**S12.** A read of ...`. The test of a promise names it: `@pytest.mark.promise("S12")`, on a
function, a class or (as `pytestmark`) a module; several numbers are several arguments.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from ffrfs.cli.main import COMMANDS
from tests.house import sources

PROMISE = re.compile(r"^\*\*S(\d+)\.\*\* +\S", re.MULTILINE)
# An S-number set in bold in any other shape is a promise that PROMISE would overlook.
LOOKALIKE = re.compile(r"\*\*S\d+\.?\*\*")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)")
# `ffrfs/mount/daemon/reload.py`, but not `tests/native/NAME/` or `tests/native/ROOM/*_test.cc`.
NAMED_FILE = re.compile(r"`((?:\.ci|[a-z]+)/[\w./-]+)`")
# The changelog's versions are history.
WITH_VERSIONS = {"pyproject.toml", "CHANGELOG.md"}
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|\bNAME_")


def promises() -> list[int]:
    return [int(number) for number in PROMISE.findall(sources.text(Path("docs/semantics.md")))]


def promise_calls(path: Path) -> list[ast.Call]:
    if "mark.promise" not in sources.text(path):
        return []
    return [
        node
        for node in sources.nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.promise")
    ]


@functools.cache
def places_by_promise() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in sources.files(".py", below="tests"):
        for call in promise_calls(path):
            place = f"{path}:{call.lineno}"
            assert call.args, f"{place}: promise() names none"
            for argument in call.args:
                assert isinstance(argument, ast.Constant), f"{place}: name it as a string"
                found[str(argument.value)].append(place)
    return dict(found)


def test_promises_are_numbered_in_order() -> None:
    numbers = promises()
    assert numbers
    assert numbers == sorted(set(numbers))
    assert len(LOOKALIKE.findall(sources.text(Path("docs/semantics.md")))) == len(numbers)


def test_every_promise_has_a_test() -> None:
    named = places_by_promise()
    assert [f"S{number}" for number in promises() if f"S{number}" not in named] == []


def test_every_named_promise_exists() -> None:
    known = {f"S{number}" for number in promises()}
    unknown = {name: places for name, places in places_by_promise().items() if name not in known}
    assert unknown == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_names_every_command(command: str) -> None:
    assert f"ffrfs {command} " in sources.text(Path("README.md"))


@pytest.mark.parametrize("document", sources.files(".md"), ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    dead = [
        target
        for target in LINK.findall(sources.text(document))
        if not (sources.CHECKOUT / document.parent / target).exists()
    ]
    assert dead == []


def test_contributing_names_files_that_exist() -> None:
    named = NAMED_FILE.findall(sources.text(Path("CONTRIBUTING.md")))
    assert named
    gone = [
        name
        for name in named
        if not PLACEHOLDER.search(name) and not (sources.CHECKOUT / name).exists()
    ]
    assert gone == []


def test_the_version_is_in_one_place() -> None:
    version = tomllib.loads(sources.text(Path("pyproject.toml")))["project"]["version"]
    newest = re.search(r"^## \[(\d.*?)\]", sources.text(Path("CHANGELOG.md")), re.MULTILINE)
    assert newest is not None and newest[1] == version
    named = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    searched = {*sources.files(), *sources.files(".1", ".5", ".8", ".yaml")}
    assert {path for path in searched if named.search(sources.text(path))} <= {
        *map(Path, WITH_VERSIONS)
    }
