"""Tables that pandas writes become Examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs.convert.convert import convert
from ffrfs.errors import PackWarning
from tests.adapters.needed import needed
from tests.convert.test_tables import examples_of

pd = needed("pandas")


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.feather", "x.parquet"])
def test_a_frame(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"id": [1, 2], "text": ["a", None], "x": [0.5, 1.5]})
    if ".csv" in name:
        frame.to_csv(tmp_path / name, index=False)
    else:
        getattr(frame, f"to_{name[2:]}")(tmp_path / name)
    with pytest.warns(PackWarning, match="rounded"):
        convert(tmp_path / name, tmp_path / "t.tfrecord")
    text = {"text": [b""]} if ".csv" in name else {}  # CSV has no null
    assert examples_of(tmp_path / "t.tfrecord") == [
        {"id": [1], "text": [b"a"], "x": [0.5]},
        {"id": [2], **text, "x": [1.5]},
    ]
