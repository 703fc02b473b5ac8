"""PackedFolderDataset: the files of a packed folder, straight from the pack, without a mount.

Not here: reading and verifying (ffrfs.folder.packed), decoding (the user's loader).
Concurrency: as PackedFolder's, so a DataLoader's workers may be forked or spawned; a
spawned one is sent the paths and opens the pack itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from torch.utils.data import Dataset

from ffrfs.errors import PathNotFoundError
from ffrfs.folder.packed import PackedFolder
from ffrfs.folder.tree import PathType

if TYPE_CHECKING:
    from ffrfs._native import RecordBytes


def file_bytes(path: str, data: RecordBytes) -> bytes:
    """The default loader: the file as it is."""
    return data.tobytes()


class PackedFolderDataset(Dataset[Any]):
    """One item per file of the packed folder `pack`, as torchvision's ImageFolder has them.

    An item is `transform(loader(path, data))`: `path` is the file's, relative to the packed
    folder; `data` its bytes, a 1-D uint8 array that owns its memory. With classes it is the
    pair of that and the number of its class.

    The order is the pack's: that of the names, a folder's files in the place of its name.
    `extensions` (".png", or several; upper and lower case are one) leaves out all other files.

    If every file so taken lies in a folder, the folders of the top level are the classes:

    - `classes`: their names, in order; one without files is among them
    - `class_to_idx`: the number of each
    - `targets`: the class number of each item
    - `samples`: (path, class number) of each item

    Else these are empty. `paths` are the items' paths in any case.

    Errors, also in a worker: ChecksumError, which names the file; IndexError; what the loader
    raises. Raises PathNotFoundError if no file has such an extension, FormatError if `pack`
    is no packed folder.
    """

    def __init__(
        self,
        pack: PathType,
        transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str, RecordBytes], Any] = file_bytes,
        extensions: str | Iterable[str] | None = None,
        check_data: bool = True,
    ) -> None:
        self.transform = transform
        self.loader = loader
        self._folder = PackedFolder(pack, check_data)
        self.paths = self._folder.list(list_dir=False, recursive=True)
        if extensions is not None:
            self.paths = _ending(self.paths, extensions, self._folder.fname)
        self.classes: list[str] = []
        if all("/" in path for path in self.paths):
            self.classes = self._folder.list(list_file=False)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets: list[int] = []
        if self.classes:
            self.targets = [self.class_to_idx[path.partition("/")[0]] for path in self.paths]

    @property
    def samples(self) -> list[tuple[str, int]]:
        return list(zip(self.paths, self.targets, strict=True)) if self.targets else []

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: SupportsIndex) -> Any:  # noqa: ANN401 - what transform returns
        """Return item `index`; a negative one counts from the end."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[Any]:
        """Return several items, their files read in one batch: what DataLoader calls."""
        numbers = [self._number(index) for index in indices]
        files = self._folder.read([self.paths[number] for number in numbers])
        return list(map(self._item, numbers, files))

    def close(self) -> None:
        """Close the pack. Reading afterwards raises ValueError."""
        self._folder.close()

    def _number(self, index: SupportsIndex) -> int:
        number = operator.index(index)
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"file {number} does not exist: there are {count}")
        return number

    def _item(self, number: int, data: RecordBytes) -> Any:  # noqa: ANN401 - what transform returns
        item = self.loader(self.paths[number], data)
        if self.transform is not None:
            item = self.transform(item)
        return (item, self.targets[number]) if self.classes else item


def _ending(paths: Sequence[str], extensions: str | Iterable[str], pack: str) -> list[str]:
    endings = (extensions,) if isinstance(extensions, str) else tuple(extensions)
    found = [path for path in paths if path.lower().endswith(tuple(map(str.lower, endings)))]
    if not found:
        raise PathNotFoundError(f"{pack}: holds no file that ends in {' or '.join(endings)}")
    return found
