"""PackedFolderDataset: the files of a pack, read directly, without a mount.

Not here: reading and verifying (ffrfs.folder.packed), decoding (the user's loader).
Concurrency: that of PackedFolder, so a DataLoader's workers may be forked or spawned; a
spawned one gets the paths and opens the pack itself.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack

from torch.utils.data import Dataset

from ffrfs.adapters.bad_samples import BadSamples, OnError
from ffrfs.errors import FormatError, PathNotFoundError
from ffrfs.files.record_reader import number_of
from ffrfs.folder.packed import PackedFolder
from ffrfs.folder.tree import PathType
from ffrfs.remote.named_store import StoreKeywords

if TYPE_CHECKING:
    from ffrfs._native import RecordBytes

# A directory of such a name holds a part of a data set; the name is not a class.
_SPLITS = ("train", "val", "valid", "validation", "test")


def file_bytes(path: str, data: RecordBytes) -> bytes:
    """Return the file's bytes; this is the default loader."""
    return data.tobytes()


class PackedFolderDataset(Dataset[Any]):
    """One item per file of the pack `pack`, as in torchvision's ImageFolder.

    `root`: the directory of the pack whose files are the items, such as "train"; "" is the
    top of the pack. `store`: as for PackedFolder.

    An item is `transform(loader(path, data))`: `path` is the file's, relative to the packed
    directory; `data` its bytes, a 1-D uint8 array that owns its memory. With classes, the item
    is a pair of that and the number of its class. A loader that needs one argument, as
    torchvision's default_loader, `PIL.Image.open` and `cv2.imread` do, gets instead the path of
    a file in memory with these bytes, which no name or extension shows.

    The order is the pack's: that of the names, a directory's files in the place of its name.
    `extensions` (".png", or several; case does not matter) leaves out all other files.

    If every such file is in a directory of `root`, the directories of `root` are the classes:

    - `classes`: their names, in order, including those without files
    - `class_to_idx`: the number of each
    - `targets`: the class number of each item
    - `samples`: (path, class number) of each item

    Otherwise these are empty. `paths` are always the items' paths: they include `root`, so
    PackedFolder.read() takes them.

    `on_error`: what happens to files whose bytes are damaged. "skip": a batch has fewer items
    (DataLoader requests batches); for a single item, and a batch of nothing else, the next good
    file takes their place. A function of the error and the path: its result is the item.
    `bad_samples.report()` says which they were; our DataLoader logs it after each epoch.

    Errors, also in a worker: ChecksumError, which names the file; IndexError; errors of the
    loader. Raises PathNotFoundError if there is no such `root`, or no file with such an
    extension; NotAFolderError if `root` is a file; FormatError if `pack` is no pack,
    or if no `root` is given and the classes would be splits (train, val, …).
    """

    def __init__(  # noqa: PLR0913 - independent choices
        self,
        pack: PathType,
        transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str, RecordBytes], Any] | Callable[[str], Any] = file_bytes,
        extensions: str | Iterable[str] | None = None,
        check_data: bool = True,
        *,
        root: PathType | None = None,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.bad_samples = BadSamples(on_error)
        self.transform = transform
        self.loader = loader
        self._load = _loading(loader)
        self._folder = PackedFolder(pack, check_data, **store)
        self.root = str(PurePosixPath("/", root or "")).lstrip("/")
        paths = self._folder.list(root, list_dir=False, recursive=True)
        if extensions is not None:
            paths = _ending(paths, extensions, self._location())
        self.classes: list[str] = []
        if all("/" in path for path in paths):
            self.classes = self._folder.list(root, list_file=False)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets: list[int] = []
        if self.classes:
            labels = [path.partition("/")[0] for path in paths]
            if root is None:
                _refuse_splits(labels, self._folder.fname)
            self.targets = [self.class_to_idx[label] for label in labels]
        self.paths = [f"{self.root}/{path}" for path in paths] if self.root else paths

    @cached_property
    def samples(self) -> list[tuple[str, int]]:
        return list(zip(self.paths, self.targets, strict=True)) if self.targets else []

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "samples"}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: SupportsIndex) -> Any:  # noqa: ANN401 - the result of transform
        """Return item `index`; a negative one counts from the end."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[Any]:
        """Return several items, whose files are read in one batch; DataLoader calls it."""
        numbers = [number_of(index, len(self), "file") for index in indices]
        return self.bad_samples.items(numbers, self.paths, self._read, self._item)

    def _read(self, numbers: Sequence[int]) -> list[RecordBytes]:
        return self._folder.read([self.paths[number] for number in numbers])

    def close(self) -> None:
        """Close the pack. Reading afterwards raises ValueError."""
        self._folder.close()

    def __repr__(self) -> str:
        return (
            f"Dataset {type(self).__name__}\n"
            f"    Number of datapoints: {len(self)}\n"
            f"    Root location: {self._location()}"
        )

    def _location(self) -> str:
        return f"{self._folder.fname}/{self.root}" if self.root else self._folder.fname

    def _item(self, number: int, data: RecordBytes) -> Any:  # noqa: ANN401 - result of transform
        item = self._load(self.paths[number], data)
        if self.transform is not None:
            item = self.transform(item)
        return (item, self.targets[number]) if self.classes else item


def _loading(loader: Callable[..., Any]) -> Callable[[str, RecordBytes], Any]:
    """Return a loader of a path and bytes."""
    try:
        parameters = inspect.signature(loader).parameters.values()
    except ValueError:  # of a function in C, such as cv2.imread, which knows nothing of ours
        return _ByPath(loader)
    placed = [each for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]
    has_more = any(each.kind == each.VAR_POSITIONAL for each in parameters)
    needed = [each for each in placed if each.default is each.empty]
    return _ByPath(loader) if placed and len(needed) < 2 and not has_more else loader


class _ByPath:
    """A loader that is called with the path of a file, which it opens itself."""

    def __init__(self, loader: Callable[[str], Any]) -> None:
        self._loader = loader

    def __call__(self, path: str, data: RecordBytes) -> Any:  # noqa: ANN401 - its result
        # A file that is in no directory: closing it removes it, however the loader ends.
        with open(os.memfd_create("ffrfs"), "wb") as file:
            file.write(data.data)
            file.flush()
            try:
                return self._loader(f"/proc/self/fd/{file.fileno()}")
            except Exception as error:
                error.add_note(f"The file is {path} of the pack.")
                raise


def _ending(paths: Sequence[str], extensions: str | Iterable[str], place: str) -> list[str]:
    endings = (extensions,) if isinstance(extensions, str) else tuple(extensions)
    found = [path for path in paths if path.lower().endswith(tuple(map(str.lower, endings)))]
    if not found:
        raise PathNotFoundError(f"{place}: holds no file that ends in {' or '.join(endings)}")
    return found


def _refuse_splits(labels: Iterable[str], pack: str) -> None:
    """Raise FormatError if all files are in splits: a split is not the class of an image."""
    used = set(labels)
    if not used or any(name.lower() not in _SPLITS for name in used):
        return
    splits = sorted(used, key=lambda name: _SPLITS.index(name.lower()))
    raise FormatError.at(
        pack,
        f"its top directories are splits, not classes ({', '.join(splits)}): "
        f'pass root="{splits[0]}"; with root="" they are the classes',
    )
