"""webdataset: `ffr://` as the place of tar files, and PackSamples: samples made of a pack's files.

    import ffrfs.webdataset
    webdataset.WebDataset(["ffr://shards/000.tar::/data/x.ffr"])  # a list: a text is cut at ::
    webdataset.DataPipeline(PackSamples("/data/x.ffr"), webdataset.decode("pil"))

Not here: reading and verifying (ffrfs.folder), shuffling and decoding (webdataset).
Concurrency: a process each; pickling sends the arguments.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from ffrfs.adapters.bad_samples import BadSamples, OnError
from ffrfs.errors import FormatError, MissingPackageError, OptionError
from ffrfs.folder.packed import PackedFolder, files_below
from ffrfs.folder.tree import PathType
from ffrfs.printable import quoted, shown_name
from ffrfs.remote.named_store import StoreKeywords
from ffrfs.remote.url import is_url

with MissingPackageError.instead("webdataset", "ffrfs.webdataset needs webdataset", "webdataset"):
    from webdataset import utils
    from webdataset.gopen import gopen_schemes
    from webdataset.pytorch import IterableDataset
    from webdataset.tariterators import base_plus_ext

__all__ = ["PackSamples"]

_BATCH_COUNT = 64  # samples that are read at a time


class PackSamples(IterableDataset):  # type: ignore[misc]
    """Samples below `root`: files of a directory that share a name up to its first dot.

    "cat/1.jpg" and "cat/1.json" are {"__key__": "cat/1", "jpg": …, "json": …}, as in a tar file;
    a file without a dot is left out. Workers of a DataLoader, and nodes, get every n-th sample.

    `pack`, `store`: as for PackedFolder. `on_error`: "skip" leaves out samples with a damaged
    file; a function of the error and the key returns what takes its place. Raises
    PathNotFoundError, NotAFolderError for `root`; FormatError for two files whose names differ in
    case only ("1.jpg" and "1.JPG"); ChecksumError, which names the file.
    """

    def __init__(
        self,
        pack: PathType | Sequence[PathType],
        root: str = "",
        *,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.bad_samples = BadSamples(on_error)
        self._folder = PackedFolder(pack, **store)
        samples: dict[str, dict[str, str]] = {}
        for path in files_below(self._folder, root):
            key, extension = base_plus_ext(path)
            if key is not None:
                other = samples.setdefault(key, {}).setdefault(extension.lower(), path)
                if other != path:  # webdataset refuses a tar file that has both
                    raise FormatError.at(
                        self._folder.fname,
                        f"{quoted(other)} and {quoted(path)} differ in case only: a sample "
                        "can have one of them; pack again without the other (--exclude PATTERN)",
                    )
        self._samples = [(key, list(files.items())) for key, files in samples.items()]

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rank, world_size, worker, worker_count = utils.pytorch_worker_info()
        place = rank * worker_count + worker
        mine = iter(self._samples[place :: world_size * worker_count])
        while batch := list(itertools.islice(mine, _BATCH_COUNT)):
            found = self.bad_samples.take(batch, self._read)
            yield from self.bad_samples.settle(batch, found, lambda sample: sample[0])

    def _read(self, batch: Sequence[Any]) -> list[dict[str, Any]]:
        paths = [path for _, files in batch for _, path in files]
        data = iter(self._folder.read(paths))  # one verified batch
        samples = []
        for key, files in batch:
            sample = {extension: next(data).tobytes() for extension, _ in files}
            samples.append({"__key__": key, "__url__": self._folder.fname, **sample})
        return samples


def _open(url: str, mode: str = "rb", bufsize: int = 8192, **_: object) -> io.BufferedReader:
    """Open "ffr://PATH::PACK", as gopen() asks for it."""
    path, begin, pack = url.removeprefix("ffr://").partition("::")
    shown = f"ffr://{path}{begin}{shown_name(pack)}"
    if not pack:
        raise OptionError(f"{shown}: needs a pack: ffr://PATH::PACK")
    if mode != "rb":
        raise OptionError(f"{shown}: packs are read-only")
    pack = pack.removeprefix("file://")
    if utils.enforce_security and not is_url(pack):
        raise OptionError(f"{shown}: webdataset's WDS_SECURE lets it open no local file")
    return PackedFolder(pack).open(path)


gopen_schemes["ffr"] = _open
