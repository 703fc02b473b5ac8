"""The native build names missing packages, and tests all threads under ThreadSanitizer."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT
from tests.house import sources

THREAD = re.compile(r"\bstd::j?thread\b|\bin_threads\(")
# Its threads run in forked children, of which it checks only how they end.
OF_CHILDREN = {"syscall_filter_test"}


def test_missing_libraries_are_named_with_their_packages(tmp_path: Path) -> None:
    beside_python = Path(sys.executable).with_name("cmake")
    cmake = beside_python if beside_python.exists() else shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    nothing = tmp_path / "nothing"  # the only place where CMake looks for libraries
    done = subprocess.run(
        [
            cmake,
            "-S",
            CHECKOUT / "native",
            "-B",
            tmp_path / "build",
            f"-DCMAKE_FIND_ROOT_PATH={nothing}",
            "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
            "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY",
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode != 0
    assert "system packages are missing" in done.stderr
    assert "sudo apt-get install libaio-dev libisal-dev libssl-dev" in done.stderr


def test_threaded_suites_run_under_thread_sanitizer() -> None:
    suite = of_build_threads("SUITE")
    threaded = {
        path.stem
        for path in sources.files(".cc", below="tests/native")
        if THREAD.search(sources.text(path))
    }
    assert threaded
    assert {name for name in threaded - OF_CHILDREN if not re.search(suite, name)} == set()


def test_threaded_cases_are_named_so_in_partly_run_suites() -> None:
    named = of_build_threads("THREADED_CASES")
    called = []
    for path in sources.files(".cc", below="tests/native"):
        if re.search(named, path.stem):
            cases = re.split(r'^TEST_CASE\(\s*"', sources.text(path), flags=re.M)
            assert not THREAD.search(cases[0])  # no shared helper has threads
            called += [case.split('"')[0] for case in cases[1:] if THREAD.search(case)]
    assert len(called) >= len(named.split("|"))
    assert [case for case in called if "thread" not in case] == []


def test_memory_is_checked_under_both_sanitizers() -> None:
    """The comma between their names must not end an argument of the Makefile's $(call)."""
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "build-memory"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert re.search(r"-DFFRFS_SANITIZE=address,undefined\b", done.stdout)


def of_build_threads(name: str) -> str:
    """Return a variable of the Makefile's target: a regular expression of native tests."""
    found = re.search(rf"^build-threads: {name} := (.+)$", sources.text(Path("Makefile")), re.M)
    assert found is not None
    return found[1]
