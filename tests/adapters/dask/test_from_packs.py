"""ffrfs.dask.from_packs with a real cluster of two processes: the items are the packed data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ffrfs.errors import ChecksumError
from tests.adapters.other_process import Run
from tests.adapters.pack_checks import at_a_url, check_loading, check_page, check_wrong, named
from tests.ffrecord_file import write_folder
from tests.folder.cut_samples import SMALL, Sample, damaged_pack, large_pack


@pytest.mark.promise("S69")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"npartitions": 7}) for name in SMALL),
        *(("set", options) for options in ({}, {"npartitions": 1}, {"partition_size": "10kB"})),
        ("tfrecords", {"partition_size": "10kB"}),
    ],
)
def test_the_items_are_the_packed_data(
    in_dask: Run, samples: dict[str, Sample], name: str, options: dict[str, object]
) -> None:
    sample = samples[name]
    found = in_dask("read", sample.packs, **options)
    assert found.rows == sample.rows
    assert sum(found.partitions) == len(sample.rows)


def test_number_of_partitions(in_dask: Run, samples: dict[str, Sample]) -> None:
    packs = samples["pack"].packs
    assert len(in_dask("read", packs, npartitions=7).partitions) == 7
    assert len(in_dask("read", packs).partitions) == 1
    size = sum(len(data) for _, data in samples["pack"].rows)
    assert 5 <= len(in_dask("read", packs, partition_size=size // 5).partitions) <= 7
    assert len(in_dask("read", samples["set"].packs, npartitions=1).partitions) == 3
    assert in_dask("read", samples["empty"].packs, npartitions=9).partitions == [0]


def test_dasks_own_operators(in_dask: Run, samples: dict[str, Sample]) -> None:
    sample = samples["set"]
    size = sum(len(data) for _, data in sample.rows)
    mapped, held, taken = in_dask("use", sample.packs)
    assert (mapped, held) == (size, size)
    assert {*taken} < {*sample.rows}
    assert in_dask("without_cluster", sample.packs) == sample.rows


def test_workers_do_the_reading(in_dask: Run, samples: dict[str, Sample]) -> None:
    assert 1 <= len(in_dask("workers_of", samples["set"].packs)) <= 2


def test_keys_depend_on_packs_and_options(
    in_dask: Run, samples: dict[str, Sample], tmp_path: Path
) -> None:
    packs = str(shutil.copytree(str(samples["set"].packs), tmp_path / "set"))
    keys = in_dask("keys", packs, npartitions=9)
    assert in_dask("keys", packs, npartitions=9) == keys
    assert len({*keys}) == 9
    others = [
        in_dask("keys", packs, npartitions=8),
        in_dask("keys", packs, npartitions=9, on_error="skip"),
        in_dask("keys", samples["set"].packs, npartitions=9),
    ]
    assert all({*keys}.isdisjoint(other) for other in others)


def test_packs_of_other_bytes_have_other_keys(in_dask: Run, tmp_path: Path) -> None:
    keys = []
    for data in (b"old", b"new"):
        pack = write_folder(tmp_path / "x.ffr", {"file": data})
        keys.append(in_dask("keys", str(pack)))
    assert keys[0] != keys[1]


@pytest.mark.promise("S69")
def test_a_damaged_file_is_an_error_or_skipped_or_replaced(in_dask: Run, tmp_path: Path) -> None:
    sample = damaged_pack(tmp_path)
    with pytest.raises(ChecksumError, match="'3': record 3 ") as caught:
        in_dask("read", sample.packs, npartitions=2)
    assert (caught.value.file, caught.value.record) == (sample.packs, 3)
    assert in_dask("read", sample.packs, npartitions=2, on_error="skip").rows == sample.rows
    replaced = in_dask("read", sample.packs, npartitions=2, on_error=named)
    assert replaced.rows == sorted([*sample.rows, ("3", b"3")])


def test_a_large_file(in_dask: Run, tmp_path: Path) -> None:
    sample = large_pack(tmp_path, 40 << 20)  # larger than a batch of reading (32 MiB)
    assert in_dask("sizes_of", sample.packs) == [len(data) for _, data in sample.rows]


def test_packs_at_a_url(in_dask: Run, samples: dict[str, Sample]) -> None:
    with at_a_url(samples["set"]) as url:
        found = in_dask("read", url, npartitions=5)
    assert found.rows == samples["set"].rows
    assert len(found.partitions) == 5


def test_wrong_arguments_are_refused_at_once(
    in_dask: Run, samples: dict[str, Sample], tmp_path: Path
) -> None:
    check_wrong(in_dask, samples["set"], tmp_path)
    packs = samples["set"].packs
    with pytest.raises(ValueError, match="not both"):
        in_dask("look", packs, npartitions=2, partition_size="1MiB")
    with pytest.raises(ValueError, match="0, not positive"):
        in_dask("look", packs, npartitions=0)
    with pytest.raises(ValueError, match="0, not positive"):
        in_dask("look", packs, partition_size=0)


def test_the_code_of_the_page_runs(in_dask: Run, tmp_path: Path) -> None:
    check_page(in_dask, "ffrfs.dask", tmp_path)


def test_dask_is_loaded_only_when_it_is_used() -> None:
    said = "ffrfs.dask needs Dask; to install it: pip install 'ffrfs[dask]'"
    check_loading({"dask", "distributed", "ffrfs.dask"}, "ffrfs.dask", said)
