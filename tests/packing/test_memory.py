"""A file larger than the memory that reading and writing may take."""

from __future__ import annotations

import filecmp
import subprocess
import sys
from pathlib import Path

import pytest

FILE_SIZE = 160 << 20
# An interpreter with NumPy takes about 40 MB of it.
PEAK_LIMIT = 130 << 20

# VmHWM, because ru_maxrss also counts the size of the process that started this one.
MEASURED = """
import sys
from ffrfs.cli.main import main
status = main(sys.argv[1:])
lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(lines["VmHWM"].split()[0]) * 1024, file=sys.stderr)
sys.exit(status)
"""


def peak_memory(*arguments: str | Path) -> int:
    """Run a command of ffrfs; return its peak memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=100,
        check=True,
    )
    return int(done.stderr.split()[-1])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one large file, most of it a hole."""
    folder = tmp_path_factory.mktemp("large") / "source"
    folder.mkdir()
    with (folder / "large.bin").open("wb") as file:
        file.write(b"begin")
        file.truncate(FILE_SIZE - 3)
        file.seek(FILE_SIZE - 3)
        file.write(b"end")
    return folder


@pytest.mark.long
def test_a_large_file_is_packed_and_read_in_bounded_memory(large: Path, tmp_path: Path) -> None:
    pack = tmp_path / "large.ffr"
    assert peak_memory("pack", "-q", large, pack) < PEAK_LIMIT
    assert pack.stat().st_size > FILE_SIZE
    assert peak_memory("pack", "-q", pack, tmp_path / "again.ffr") < PEAK_LIMIT
    assert filecmp.cmp(pack, tmp_path / "again.ffr", shallow=False)
    assert peak_memory("verify", "-q", pack) < PEAK_LIMIT
    assert peak_memory("cat", pack, "large.bin") < PEAK_LIMIT
    assert peak_memory("extract", pack, tmp_path / "out") < PEAK_LIMIT
    extracted = tmp_path / "out" / "large.bin"
    assert extracted.stat().st_size == FILE_SIZE
    with extracted.open("rb") as file:
        assert file.read(5) == b"begin"
        file.seek(-3, 2)
        assert file.read() == b"end"
