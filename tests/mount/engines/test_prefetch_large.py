"""Hints for files that are larger than all bytes that a mount may read ahead."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

import ffrfs as library
from tests.ffrecord_file import write_folder
from tests.mount import probes
from tests.mount.command import ENGINES, Mount, ffrfs, wait_until
from tests.mount.hinted_files import figures
from tests.mount.makers import MakeMount
from tests.page_cache import forget_pages

SERVED_BY = ENGINES
MIB = 1 << 20
COUNT = 10
CACHE_MB = 32  # an eighth of it may be read ahead: 4 MiB

pytestmark = pytest.mark.promise("S33")


def mount_files(mount: MakeMount, tmp_path: Path, size: int) -> tuple[Mount, dict[str, bytes]]:
    files = {f"f{i:02d}": random.Random(i).randbytes(size) for i in range(COUNT)}
    pack = write_folder(tmp_path / "large.ffr", dict(files))
    tree: Mount = mount(pack, "--cache-mb", str(CACHE_MB))
    forget_pages(pack)
    return tree, files


def test_command_and_library_warn_of_hinted_files_that_are_too_large(
    mount: MakeMount, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree, files = mount_files(mount, tmp_path, 5 * MIB)
    told = "hinted files of more than 4,194,304 bytes are not read ahead: .* raise --cache-mb"
    tree.expect_log(told)
    done = ffrfs("prefetch", tree.path, *files)
    assert (done.status, done.out) == (0, "")
    (line,) = done.err.splitlines()
    assert f"{COUNT} of the hinted files are larger than 4,194,304 bytes" in line
    assert "an eighth of the mount's --cache-mb" in line
    wait_until(lambda: "are not read ahead" in tree.log(), "the log says so")
    assert ffrfs("prefetch", tree.path, "f00").err.count("1 of the hinted files is larger") == 1
    wait_until(lambda: figures(tree)["prefetch.too_large"] == COUNT + 1, "all are counted")
    assert figures(tree)["prefetch.fetched"] == 0
    with caplog.at_level(logging.WARNING, "ffrfs"):
        library.prefetch(list(files), tree.path)  # dropped at once: all hints are sent anyway
        wait_until(lambda: "of the hinted files are larger" in caplog.text, "it is told")
    for name, content in files.items():
        assert tree.ask(probes.read, name) == content
    assert tree.log().count("are not read ahead") == 1
