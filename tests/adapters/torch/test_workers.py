"""Workers of each start method do not hang, read the right bytes, and follow resume_at()."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from tests.adapters.program_run import run_module
from tests.ffrecord_file import write_folder, write_records

COUNT = 40
BATCH_SIZE = 4
SEED = 5
STEP = 3
TIMEOUT_S = 90.0


# Each spawned worker imports torch again. test_dataset.py and test_mount.py use fork servers.
@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers(tmp_path: Path, method: str, workers: int) -> None:
    # Some records are over a page, some over the limit of one request.
    contents = [bytes([number]) * (number * 3571) for number in range(COUNT)]
    contents[7] = os.urandom(5 << 20)
    records = write_records(tmp_path / "records.ffr", contents)
    files = {f"{number:02}": content for number, content in enumerate(contents)}
    folder = write_folder(tmp_path / "folder.ffr", dict(files))
    output = run_module("worker_run", method, str(workers), str(records), str(folder), str(STEP))
    # Its worker persists, as theirs do: torch draws no second seed for them.
    expected = DataLoader(
        *(range(COUNT), BATCH_SIZE, True),  # type: ignore[arg-type]
        **{"num_workers": 1, "persistent_workers": True, "multiprocessing_context": "fork"},
        generator=torch.Generator().manual_seed(SEED),
    )
    epochs = [[number for batch in expected for number in batch.tolist()] for _ in range(2)]
    epochs[0] = epochs[0][STEP * BATCH_SIZE :]
    assert [[*map(int, line.split())] for line in output.splitlines()] == epochs
