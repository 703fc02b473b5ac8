"""PackedFolderDataset: the files of a packed folder as items, batch by batch."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, UnidentifiedImageError
from torch.utils.data import DataLoader, Subset

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import ChecksumError, FormatError, NotAFolderError, PathNotFoundError
from ffrfs.torch import PackedFolderDataset
from tests.ffrecord_file import flip_byte, record_extents, write_folder, write_records
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import nginx

ANIMALS = {
    "cat": {"1.png": b"cat 1", "0.PNG": b"cat 0"},
    "ant": {"deep": {"2.png": b"ant 2"}, "a.txt": b"note", "z.png": b"ant z"},
    "empty": {},
}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "animals.ffr", ANIMALS)  # type: ignore[arg-type]


def test_folders_are_classes(pack: Path) -> None:
    dataset = PackedFolderDataset(pack)
    assert dataset.classes == ["ant", "cat", "empty"]
    assert dataset.class_to_idx == {"ant": 0, "cat": 1, "empty": 2}
    assert dataset.paths == [
        *("ant/a.txt", "ant/deep/2.png", "ant/z.png", "cat/0.PNG", "cat/1.png")
    ]
    assert dataset.targets == [0, 0, 0, 1, 1]
    assert dataset.samples == list(zip(dataset.paths, dataset.targets, strict=True))
    assert dataset.samples is dataset.samples
    assert "samples" not in vars(pickle.loads(pickle.dumps(dataset)))
    assert len(dataset) == 5
    assert [*dataset] == [(b"note", 0), (b"ant 2", 0), (b"ant z", 0), (b"cat 0", 1), (b"cat 1", 1)]


def test_no_classes_if_a_file_is_at_the_top(tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", {**ANIMALS, "README": b"?"})  # type: ignore[dict-item]
    dataset = PackedFolderDataset(pack)
    assert (dataset.classes, dataset.class_to_idx, dataset.targets) == ([], {}, [])
    assert dataset.samples == []
    assert (len(dataset), dataset[0], dataset[-1]) == (6, b"?", b"cat 1")
    assert PackedFolderDataset(pack, extensions=".png").classes == ["ant", "cat", "empty"]


@pytest.mark.parametrize("extensions", [".png", [".png"], (".PNG", ".jpg"), {".Png"}])
def test_extensions(pack: Path, extensions: Any) -> None:
    dataset = PackedFolderDataset(pack, extensions=extensions)
    assert dataset.paths == ["ant/deep/2.png", "ant/z.png", "cat/0.PNG", "cat/1.png"]
    assert dataset.targets == [0, 0, 1, 1]


def test_no_file_has_the_extensions(pack: Path) -> None:
    with pytest.raises(PathNotFoundError, match=r"animals\.ffr: holds no file .* \.jpg or \.gif"):
        PackedFolderDataset(pack, extensions=(".jpg", ".gif"))


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    ants = {"ant": {"1.png": b"ant 1"}}
    tree = {"train": ANIMALS, "val": ants, "deep": {"er": ants}, "labels.csv": b"?"}
    return write_folder(tmp_path / "splits.ffr", tree)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "root",
    [
        *("train", "train/", "./train", PurePosixPath("train")),
        *("/train", "./train/", "//train", Path("/train")),
    ],
)
def test_root_is_the_parent_of_the_classes(pack: Path, splits: Path, root: Any) -> None:
    whole, train = PackedFolderDataset(pack), PackedFolderDataset(splits, root=root)
    assert train.root == "train"
    assert (train.classes, train.targets) == (whole.classes, whole.targets)
    assert train.class_to_idx == whole.class_to_idx
    assert train.paths == [f"train/{path}" for path in whole.paths]
    assert [path for path, _ in train.samples] == train.paths
    assert [*train] == [*whole]
    with PackedFolder(splits) as folder:
        assert folder.read_one(train.paths[0]).tobytes() == b"note"
    assert pickle.loads(pickle.dumps(train)).paths == train.paths


def test_a_deep_root_and_extensions_below_it(splits: Path) -> None:
    dataset = PackedFolderDataset(splits, root="deep/er", extensions=".png")
    assert (dataset.classes, dataset.paths) == (["ant"], ["deep/er/ant/1.png"])
    assert PackedFolderDataset(splits, root="val/ant").samples == []
    with pytest.raises(PathNotFoundError, match=r"splits\.ffr/val: holds no file .* \.txt"):
        PackedFolderDataset(splits, root="val", extensions=".txt")


def test_root_must_be_a_directory(splits: Path) -> None:
    with pytest.raises(PathNotFoundError, match=r"^\S+splits\.ffr: has no 'tarin'$"):
        PackedFolderDataset(splits, root="tarin")
    with pytest.raises(NotAFolderError, match=r"^\S+splits\.ffr: 'labels\.csv' is a file, not a"):
        PackedFolderDataset(splits, root="labels.csv")


SPLITS = {"val": {"a": {"1.png": b"1"}}, "Train": {"a": {"0.png": b"0"}}}


# Splits stay splits beside an empty directory, and beside a file that is no item.
@pytest.mark.parametrize("more", [{}, {"meta": {}, "x.txt": b"?"}, {"meta": {"x.txt": b"?"}}])
def test_splits_are_not_taken_for_classes(tmp_path: Path, more: Any) -> None:
    pack = write_folder(tmp_path / "x.ffr", {**SPLITS, **more})
    expected = (
        r'x\.ffr: its top directories are splits, not classes \(Train, val\): pass root="Train"'
    )
    with pytest.raises(FormatError, match=expected):
        PackedFolderDataset(pack, extensions=".png")
    assert PackedFolderDataset(pack, extensions=".png", root="Train").classes == ["a"]


def test_an_empty_root_makes_splits_classes(tmp_path: Path) -> None:
    dataset = PackedFolderDataset(write_folder(tmp_path / "x.ffr", SPLITS), root="")  # type: ignore[arg-type]
    assert (dataset.classes, dataset.targets) == (["Train", "val"], [0, 1])


def test_a_class_may_have_the_name_of_a_split(tmp_path: Path) -> None:
    tree: Any = {**SPLITS, "dog": {"2.png": b"2"}}
    assert PackedFolderDataset(write_folder(tmp_path / "x.ffr", tree)).targets == [0, 1, 2]


def test_repr_is_like_torchvisions(pack: Path, splits: Path) -> None:
    head = "Dataset PackedFolderDataset\n    Number of datapoints: 5\n    Root location: "
    assert repr(PackedFolderDataset(pack)) == f"{head}{pack}"
    assert repr(PackedFolderDataset(splits, root="train/")) == f"{head}{splits}/train"


@pytest.mark.parametrize("tree", [{}, {"a": {}, "b": {}}])
def test_a_pack_without_files(tmp_path: Path, tree: Any) -> None:
    dataset = PackedFolderDataset(write_folder(tmp_path / "x.ffr", tree))
    assert (len(dataset), dataset.classes, dataset.samples) == (0, list(tree), [])
    assert dataset.__getitems__([]) == []
    with pytest.raises(IndexError):
        dataset[0]


def test_loader_and_transform(pack: Path) -> None:
    def load(path: str, data: np.ndarray) -> tuple[str, np.ndarray]:
        assert (data.dtype, data.ndim, data.flags.owndata) == (np.uint8, 1, True)
        return path, data

    def transform(item: tuple[str, np.ndarray]) -> str:
        return f"{item[0]}: {item[1].tobytes().decode()}"

    dataset = PackedFolderDataset(pack, transform, load)
    assert dataset[3] == ("cat/0.PNG: cat 0", 1)
    assert PackedFolderDataset(pack, bytes.decode)[0] == ("note", 0)


def test_indices(pack: Path) -> None:
    dataset = PackedFolderDataset(pack)
    numbers = [-1, np.int64(0), torch.tensor(3), 0]
    assert dataset.__getitems__(numbers) == [dataset[index] for index in (4, 0, 3, 0)]
    assert dataset[-5] == dataset[0]
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"file {index} does not exist: there are 5"):
            dataset[index]
    with pytest.raises(TypeError):
        dataset["ant/a.txt"]  # type: ignore[index]


def test_a_batch_is_one_read(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = PackedFolderDataset(pack)
    reads = []
    read = dataset._folder.read
    monkeypatch.setattr(dataset._folder, "read", lambda some: reads.append(some) or read(some))
    batches = list(DataLoader(dataset, 2))
    assert reads == [dataset.paths[:2], dataset.paths[2:4], dataset.paths[4:]]
    assert list(batches[1][0]) == [b"ant z", b"cat 0"]
    assert batches[1][1].tolist() == [0, 1]
    (batch,) = DataLoader(Subset(dataset, [4, 1]), 2)
    assert list(batch[0]) == [b"cat 1", b"ant 2"]
    assert reads[3:] == [["cat/1.png", "ant/deep/2.png"]]


def test_a_damaged_file_is_named(pack: Path) -> None:
    flip_byte(pack, record_extents(pack)[0][0])
    dataset = PackedFolderDataset(pack)
    with pytest.raises(ChecksumError, match=r"animals\.ffr: 'ant/a\.txt'"):
        dataset.__getitems__([1, 0])
    assert dataset[1] == (b"ant 2", 0)
    assert PackedFolderDataset(pack, check_data=False)[0][0][1:] == b"ote"


def test_plain_and_missing_files_are_refused(tmp_path: Path) -> None:
    plain = write_records(tmp_path / "plain.ffr", [b"x"])
    with pytest.raises(FormatError, match="not a pack"):
        PackedFolderDataset(plain)
    with pytest.raises(FileNotFoundError):
        PackedFolderDataset(tmp_path / "none.ffr")


def test_a_pickled_data_set_opens_the_pack_itself(pack: Path) -> None:
    dataset = PackedFolderDataset(pack, bytes.decode, extensions="png")
    again = pickle.loads(pickle.dumps(dataset))
    assert [*again] == [*dataset]
    dataset.close()
    assert len([*again]) == 4
    with pytest.raises(ValueError, match="closed"):
        dataset[0]


def decoded(path: str, data: np.ndarray) -> torch.Tensor:
    image = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert image is not None, path
    return torch.from_numpy(image)


def brighter(image: torch.Tensor) -> torch.Tensor:
    return image + 1


@pytest.mark.parametrize("copied", [lambda it: it, lambda it: pickle.loads(pickle.dumps(it))])
def test_images_of_a_folder(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    folder = tmp_path / "images"
    for number in range(6):
        path = folder / f"class {number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert cv2.imwrite(str(path), np.full((4, 5, 3), number, np.uint8))
    pack_folder(folder, tmp_path / "images.ffr")
    dataset = copied(PackedFolderDataset(tmp_path / "images.ffr", brighter, decoded, ".png"))
    images, targets = next(iter(DataLoader(dataset, 6)))
    assert (images.shape, images.dtype) == ((6, 4, 5, 3), torch.uint8)
    assert images[:, 3, 4, 2].tolist() == [1, 3, 5, 2, 4, 6]
    assert targets.tolist() == [0, 0, 0, 1, 1, 1]


def pil_loader(path: str) -> Image.Image:
    """A copy of torchvision.datasets.folder.pil_loader."""
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def last_pixel(image: Any) -> list[int]:
    return np.asarray(image)[-1, -1].tolist()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "loader", [pil_loader, Image.open, cv2.imread, lambda path: cv2.imread(path)[:, :, ::-1]]
)
def test_a_loader_of_torchvision_gets_a_path(
    tmp_path: Path, loader: Callable[[str], Any], workers: int
) -> None:
    red = np.zeros((64, 64, 3), np.uint8)
    red[:, :, 0] = 200
    images = {f"{i}.png": cv2.imencode(".png", red[:, :, ::-1] + i)[1].tobytes() for i in range(8)}
    pack = write_folder(tmp_path / "x.ffr", {"class": images})  # type: ignore[dict-item]
    dataset = PackedFolderDataset(pack, transform=last_pixel, loader=loader)
    found = list(DataLoader(dataset, batch_size=None, num_workers=workers))
    open_files = [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
    assert not any("/memfd:ffrfs (" in file for file in open_files)
    red_first = [[200 + i, i, i] for i in range(8)]
    assert found == [[each[::-1] if loader is cv2.imread else each, 0] for each in red_first]


def test_an_error_of_a_torchvision_loader_names_the_file(pack: Path) -> None:
    with pytest.raises(UnidentifiedImageError) as caught:
        _ = PackedFolderDataset(pack, loader=pil_loader)[1]
    assert caught.value.__notes__ == ["The file is ant/deep/2.png of the pack."]


def test_a_loader_of_one_or_two_arguments(pack: Path) -> None:
    path_and_bytes = PackedFolderDataset(pack, loader=lambda *both: both[0], root="cat")
    assert [*path_and_bytes] == ["cat/0.PNG", "cat/1.png"]
    with_options = PackedFolderDataset(pack, loader=lambda path, mode="rb": mode, root="cat")
    assert [*with_options] == ["rb", "rb"]


@pytest.mark.promise("S65")
def test_errors_and_repr_hide_the_query_of_a_url(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nginx(tmp_path) as web, reading_urls(monkeypatch, tmp_path):
        url = f"{web.url}/{pack.name}"
        with pytest.raises(PathNotFoundError) as failed:
            PackedFolderDataset(f"{url}?k=hush", root="none")
        texts = (str(failed.value), repr(PackedFolderDataset(f"{url}?k=hush", extensions=".png")))
    assert [text for text in texts if url not in text or "hush" in text] == []
