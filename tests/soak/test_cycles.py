"""Mounting, reading and unmounting a thousand times leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffrfs import pack_folder
from soak.scale import CYCLES, TEST_TIMEOUT_S

# The runtime directory of root is below /run.
_OWN_NAMESPACES = [
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'mount -t tmpfs -o mode=755 ffrfs-soak /run && exec "$0" "$@"'),
]


@pytest.mark.timeout(TEST_TIMEOUT_S)
def test_cycles_leave_nothing(engine: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can have namespaces of its own without a user namespace")
    source, pack, folder = tmp_path / "source", tmp_path / "pack.ffr", tmp_path / "tmp"
    (source / "d").mkdir(parents=True)
    (source / "d" / "file").write_bytes(b"bytes" * 10_000)
    pack_folder(source, pack)
    folder.mkdir()
    cycles = Path(__file__).with_name("cycles.py")
    done = subprocess.run(
        [*_OWN_NAMESPACES, sys.executable, cycles, engine, pack, folder, str(CYCLES)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT_S - 20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["after"] == told["before"]
    log = (folder / "log").read_text()
    assert log.count(f"engine {engine}") == log.count(": ended") == CYCLES + 1
    assert "WARNING" not in log
    assert "ERROR" not in log
    print(f"{engine}: {CYCLES} cycles in {told['duration_s']:.0f} s")
