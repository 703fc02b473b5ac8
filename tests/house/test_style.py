"""The style of the project, as far as a program can check it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house import sources

HERE = Path(__file__).relative_to(sources.CHECKOUT)
LINES_LIMIT = 600
# Words that say nothing about a file's content.
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "stuff", "v2"}
# Modules with the names of another library's modules.
ORIGINALS = "ffrfs/adapters/compat/original-names"
# A path that exists on one machine only.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/\w[\w.-]*")
# A module's docstring; only comments may precede it.
BEGINS_WITH_TEXT = re.compile(r'(?:#.*\n)*"""\s*[^"\s]')


def named(path: Path) -> set[str]:
    return set(re.split(r"[_.\-]", path.stem.lower())) | {part.lower() for part in path.parts[:-1]}


@pytest.mark.parametrize("suffix", [".py", ".pyi", ".cc", ".h"])
def test_files_are_short(suffix: str) -> None:
    lengths = {path: sources.text(path).count("\n") for path in sources.files(suffix)}
    assert {path: lines for path, lines in lengths.items() if lines > LINES_LIMIT} == {}


def test_no_file_has_a_meaningless_name() -> None:
    ours = (path for path in sources.files() if not path.is_relative_to(ORIGINALS))
    assert [path for path in ours if named(path) & EMPTY_NAMES] == []


def test_no_path_of_a_particular_machine_occurs() -> None:
    found = [
        f"{path}: {match[0]}"
        for path in sources.files()
        for match in MACHINE_PATH.finditer(sources.text(path))
    ]
    assert found == []


def test_python_modules_say_their_role() -> None:
    silent = [
        path
        for path in sources.files(".py")
        if sources.text(path).strip() and not BEGINS_WITH_TEXT.match(sources.text(path))
    ]
    assert silent == []


def test_native_headers_say_their_role() -> None:
    silent = [
        path
        for path in sources.files(".h", below="native")
        if not (sources.text(path).startswith("//") and "\n#pragma once\n" in sources.text(path))
    ]
    assert silent == []


def test_nothing_outside_the_checkout_is_used() -> None:
    top = [Path("Makefile"), Path(".ci/run"), Path(".ci/system-packages"), Path("pyproject.toml")]
    for path in [*top, *sources.files(below="tests"), *sources.files(below="benchmarks")]:
        text = sources.text(path)
        assert "/".join(("..", "shared")) not in text, path
        assert not re.search(r"CHECKOUT\.parent|parents\[[3-9]\]", text) or path == HERE, path


def test_no_glob_pattern_searches_below_proc() -> None:
    """Path.glob() asks stat() about "[0-9]*/cmdline", and raises when a process ends just then."""
    pattern = re.compile(r"/proc.*\.glob\([^)\n]*/")
    assert [path for path in sources.files(".py") if pattern.search(sources.text(path))] == []
