"""dump() writes a data set into one file or several: all of them, or none."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import FileReader, dump
from ffrfs.errors import PackError


class Failing:
    """A data set whose record 7 cannot be read."""

    def __init__(self, failure: str) -> None:
        self.failure = failure

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> bytes:
        if index == 7 and self.failure == "raises":
            raise KeyError(index)
        if index == 7 and self.failure == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return bytes([index])


def read_all(source: Path | list[Path]) -> list[bytes]:
    with FileReader(source) as reader:
        return [record.tobytes() for record in reader.read(range(reader.n))]


def test_one_file(tmp_path: Path) -> None:
    records = [b"a", b"", b"ccc"]
    dump(records, tmp_path / "x.ffr", 1)
    assert read_all(tmp_path / "x.ffr") == records


def test_a_folder_of_files(tmp_path: Path) -> None:
    records = [bytes([i]) * i for i in range(10)]
    dump(records, tmp_path / "new" / "folder", 3)
    names = sorted(os.listdir(tmp_path / "new" / "folder"))
    assert names == ["PART_00000.ffr", "PART_00001.ffr", "PART_00002.ffr"]
    counts = [len(read_all(tmp_path / "new" / "folder" / name)) for name in names]
    assert counts == [4, 4, 2]
    assert read_all(tmp_path / "new" / "folder") == records


def test_records_are_split_as_in_the_reference(golden: Path, tmp_path: Path) -> None:
    records = [pickle.dumps({"i": i, "x": list(range(i % 7))}) for i in range(100)]
    dump(records, tmp_path / "ours", 8)
    for theirs in sorted((golden / "sharded").iterdir()):
        assert (tmp_path / "ours" / theirs.name).read_bytes() == theirs.read_bytes()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(st.binary(max_size=50), max_size=12), nfiles=st.integers(2, 5))
@pytest.mark.filterwarnings("ignore:.*records make:UserWarning")
def test_any_split_holds_the_records_in_order(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], nfiles: int
) -> None:
    folder = tmp_path_factory.mktemp("dump") / "x"
    dump(records, folder, nfiles)
    assert read_all(folder) == records
    assert 1 <= len(os.listdir(folder)) <= nfiles


def test_fewer_files_than_requested_give_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="5 records make 3 files, not 4"):
        dump([b"x"] * 5, tmp_path / "x", 4)
    assert len(os.listdir(tmp_path / "x")) == 3


@pytest.mark.parametrize("nfiles", [0, -1])
def test_an_invalid_number_of_files_is_refused(tmp_path: Path, nfiles: int) -> None:
    with pytest.raises(ValueError, match="cannot write"):
        dump([b"x"], tmp_path / "x", nfiles)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("failure", "error"), [("raises", KeyError), ("dies", PackError)])
def test_one_failing_process_fails_the_dump(
    tmp_path: Path, failure: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        dump(Failing(failure), tmp_path / "x", 5)
    assert os.listdir(tmp_path) == []


def test_a_failed_dump_keeps_the_previous_files(tmp_path: Path) -> None:
    dump([b"before"] * 5, tmp_path / "x", 5)
    with pytest.raises(KeyError):
        dump(Failing("raises"), tmp_path / "x", 5)
    assert read_all(tmp_path / "x") == [b"before"] * 5
    assert len(os.listdir(tmp_path / "x")) == 5


def test_leftover_parts_of_a_previous_dump_are_refused(tmp_path: Path) -> None:
    dump([b"before"] * 5, tmp_path / "x", 5)
    with pytest.raises(PackError, match=r"PART_00002\.ffr"):
        dump([b"after"] * 4, tmp_path / "x", 2)
    dump([b"after"] * 10, tmp_path / "x", 5)
    assert read_all(tmp_path / "x") == [b"after"] * 10


def test_a_failed_dump_to_one_file_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        dump(Failing("raises"), tmp_path / "x.ffr", 1)
    assert os.listdir(tmp_path) == []


def test_progress_is_shown_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump([b"x"] * 5, tmp_path / "a.ffr", 1)
    dump([b"x"] * 4, tmp_path / "a", 2)
    assert capsys.readouterr() == ("", "")
    dump([b"x"] * 5, tmp_path / "a.ffr", 1, verbose=True)
    dump([b"x"] * 4, tmp_path / "a", 2, verbose=True)
    assert "5/5" in (err := capsys.readouterr().err)
    assert "2/2" in err


class Endless:
    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> bytes:
        if index == 0:
            print("writing", flush=True)
        return b"x"


# Ctrl-C on a terminal, just after a process was forked.
BEGINS = """
import os, signal, sys
from ffrfs import dump
from tests.record.test_dump import Endless
os.register_at_fork(after_in_parent=lambda: os.killpg(0, signal.SIGINT))
try:
    dump(Endless(), sys.argv[1], 3)
except KeyboardInterrupt:
    print("ended")
"""
WRITES = "import sys; from tests.record.test_dump import *; dump(Endless(), sys.argv[1], 3)"


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def test_ctrl_c_at_the_start(tmp_path: Path) -> None:
    with start(BEGINS, tmp_path / "x") as process:
        out, errors = ended(process)
    assert (process.returncode, out.splitlines()[-1], errors) == (0, "ended", "")
    assert os.listdir(tmp_path) == []


def test_processes_end_with_a_killed_command(tmp_path: Path) -> None:
    with start(WRITES, tmp_path / "x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.kill()
        ended(process)  # once all processes have closed its output
