"""The native build: it names what it lacks, and tries all that is threaded as such."""

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
# Its threads are of forked children, whose ends are what it looks at.
OF_CHILDREN = {"syscall_filter_test"}


def test_missing_libraries_are_named_with_their_packages(tmp_path: Path) -> None:
    beside_python = Path(sys.executable).with_name("cmake")
    cmake = beside_python if beside_python.exists() else shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    nothing = tmp_path / "nothing"  # where CMake is told to look for everything
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


def test_what_is_threaded_is_tried_under_thread_sanitizer() -> None:
    suite = re.search(r"^build-threads: SUITE := (.+)$", sources.text(Path("Makefile")), re.M)
    assert suite is not None
    threaded = {
        path.stem
        for path in sources.files(".cc", below="tests/native")
        if THREAD.search(sources.text(path))
    }
    assert threaded
    assert {name for name in threaded - OF_CHILDREN if not re.search(suite[1], name)} == set()
