"""ffrfs.ray.read_packs with a real Ray of two workers: the rows are the packed data."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs.errors import FormatError
from tests.adapters.other_process import Run
from tests.adapters.pack_checks import at_a_url, check_loading, check_page, check_wrong, named
from tests.adapters.test_names import program_of
from tests.ffrecord_file import write_folder
from tests.folder.cut_samples import SMALL, Sample, damaged_pack, large_pack

# Ray starts processes again and again, and each imports all that it may need.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.promise("S69")
@pytest.mark.parametrize(
    ("name", "blocks"),
    [*((name, 7) for name in SMALL), ("set", None), ("set", 1), ("tfrecords", 1)],
)
def test_the_rows_are_the_packed_data(
    in_ray: Run, samples: dict[str, Sample], name: str, blocks: int | None
) -> None:
    """The first of these tests waits until Ray has started."""
    sample = samples[name]
    found = in_ray("read", sample.packs, override_num_blocks=blocks)
    assert found.rows == sample.rows
    assert found.count == len(sample.rows)
    column = ("record", "int64") if "records" in name else ("path", "string")
    assert found.columns == dict([column, ("data", "large_binary")])


def test_without_paths(in_ray: Run, samples: dict[str, Sample]) -> None:
    found = in_ray("read", samples["set"].packs, include_paths=False)
    assert found.rows == sorted((data,) for _, data in samples["set"].rows)
    assert list(found.columns) == ["data"]


def test_rays_own_operators(in_ray: Run, samples: dict[str, Sample]) -> None:
    sample = samples["set"]
    size, names, kinds = in_ray("use", sample.packs)
    assert size == sum(len(data) for _, data in sample.rows)
    assert len(names) == 5
    assert {*names} <= dict(sample.rows).keys()
    assert kinds == {"bytes"}
    assert in_ray("limited", sample.packs, 5) == 5


def test_metadata_of_the_read_tasks(in_ray: Run, samples: dict[str, Sample]) -> None:
    sample = samples["set"]
    tasks = in_ray("metadata", sample.packs)
    assert len(tasks) == 4
    assert sum(count for count, _, _ in tasks) == len(sample.rows)
    assert sum(size for _, size, _ in tasks) == sum(len(data) for _, data in sample.rows)
    shards = {str(path) for path in Path(str(sample.packs)).iterdir()}
    assert {file for _, _, files in tasks for file in files} == shards


def test_number_of_rows_is_unknown_before_reading(in_ray: Run, samples: dict[str, Sample]) -> None:
    """Ray gets no number of rows if files may be damaged, or if files share a record."""
    assert {n for n, _, _ in in_ray("metadata", samples["set"].packs, on_error="skip")} == {None}
    assert {n for n, _, _ in in_ray("metadata", samples["shared"].packs)} == {None}


@pytest.mark.promise("S69")
def test_a_damaged_file_is_an_error_or_skipped_or_replaced(in_ray: Run, tmp_path: Path) -> None:
    sample = damaged_pack(tmp_path)
    is_checksum_error, text, file, record = in_ray("error_of", sample.packs)
    assert is_checksum_error
    assert "'3': record 3 " in text
    assert (file, record) == (sample.packs, 3)
    assert in_ray("read", sample.packs, on_error="skip").rows == sample.rows
    replaced = in_ray("read", sample.packs, on_error=named)
    assert replaced.rows == sorted([*sample.rows, ("3", b"3")])


def test_a_large_file_has_a_block_of_its_own(in_ray: Run, tmp_path: Path) -> None:
    sample = large_pack(tmp_path, 40 << 20)  # larger than other blocks (32 MiB)
    assert in_ray("blocks", sample.packs) == [10, 1, 1]
    assert in_ray("is_same", sample.packs, "b")


def test_packs_at_a_url(in_ray: Run, samples: dict[str, Sample]) -> None:
    with at_a_url(samples["set"]) as url:
        found = in_ray("read", url, override_num_blocks=5)
    assert found.rows == samples["set"].rows


def test_wrong_arguments_are_refused_at_once(
    in_ray: Run, samples: dict[str, Sample], tmp_path: Path
) -> None:
    check_wrong(in_ray, samples["set"], tmp_path)


def test_a_path_that_is_no_text_is_refused(in_ray: Run, tmp_path: Path) -> None:
    """ffrfs never packs such a path, but other writers may."""
    pack = str(write_folder(tmp_path / "x.ffr", {"\udcff": b"data"}))
    with pytest.raises(FormatError, match="include_paths=False") as caught:
        in_ray("blocks", pack)
    assert caught.value.file == pack
    assert in_ray("read", pack, include_paths=False).rows == [(b"data",)]


def test_the_code_of_the_page_runs(in_ray: Run, tmp_path: Path) -> None:
    check_page(in_ray, "ffrfs.ray", tmp_path)


def test_ray_is_loaded_only_when_it_is_used() -> None:
    said = "ffrfs.ray needs Ray Data; to install it: pip install 'ffrfs[ray]'"
    check_loading({"ray", "pyarrow", "ffrfs.ray"}, "ffrfs.ray", said)


@pytest.mark.promise("S65")
def test_ray_gets_urls_without_their_query(in_ray: Run, tmp_path: Path) -> None:
    pack = str(write_folder(tmp_path / "x.ffr", {"a": b"1"}))
    assert in_ray("input_files", pack, "https://host/x.ffr?k=hush") == [("https://host/x.ffr",)]


def test_both_names_give_one_object(in_ray: Run) -> None:
    assert in_ray("said_by", program_of("ray")) == "True True\n"
