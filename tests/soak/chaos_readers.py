"""Programs that read a mount in chaos, each in its own way, and compare every byte.

They go on after a failure and note it; the test decides which failures are allowed.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.mount.checkable_files import is_right
from tests.soak.readers import SIZES

_DROPPED_SHARE = 0.8
_READ_SIZE = 1 << 20
_BATCH_SIZE = 4
_PROGRAM_TIMEOUT_S = 60.0
_PAUSE_S = 0.01  # after a failure
_REST_MAX_S = 0.05  # after a read, to leave the processor to the other readers and the acts


@dataclass
class Seen:
    """The results of a reader; `failures`: errno, begin, end and text of each."""

    way: str
    reads: int = 0
    size_bytes: int = 0
    wrong: list[str] = field(default_factory=list)
    failures: list[tuple[int, float, float, str]] = field(default_factory=list)
    longest_s: float = 0.0

    def note(self, name: str, is_well: bool, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        if not is_well:
            self.wrong.append(name)


class Files:
    """The files of a mounted pack of readers.py, with the sizes that they must have."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder = folder
        self.order = random.Random(seed)
        self.sizes = {
            name: SIZES[number % len(SIZES)]
            for number, name in enumerate(sorted(os.listdir(folder)))
        }
        self.names = list(self.sizes)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def choose(self) -> str:
        return self.order.choice(self.names)

    def drop(self, name: str) -> None:
        """Make the kernel forget the file's pages, in most cases."""
        if self.order.random() < _DROPPED_SHARE:
            fd = os.open(self.path(name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


Read = Callable[[Seen], None]  # raises OSError


def _plain(files: Files) -> Read:
    def read(seen: Seen) -> None:
        files.drop(name := files.choose())
        with open(files.path(name), "rb", buffering=0) as file:
            pieces = []
            while piece := file.read(_READ_SIZE):
                pieces.append(piece)
        data = b"".join(pieces)
        seen.note(name, is_right(name, data), len(data))

    return read


def _mapped(files: Files) -> Read:
    """Read each file in a child, because a page that cannot be read raises a signal."""

    def read(seen: Seen) -> None:
        files.drop(name := files.choose())
        pid = os.fork()
        if pid == 0:
            os._exit(_read_mapped(files.path(name), name))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status not in (0, 1):
            raise OSError(errno.EIO if status == -signal.SIGBUS else status, "it has ended")
        seen.note(name, status == 0, files.sizes[name])

    return read


def _read_mapped(path: str, name: str) -> int:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            return 0 if is_right(name, data) else 1  # type: ignore[arg-type]
    except OSError as error:
        return error.errno or 255


def _found(files: Files) -> Read:
    expected = sorted(f"{size} {name}" for name, size in files.sizes.items())

    def read(seen: Seen) -> None:
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                ["find", files.folder, "-type", "f", "-printf", "%s %f\n"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
                timeout=_PROGRAM_TIMEOUT_S,
            )
            _raise_failure(done.returncode, errors)
        seen.note("find", sorted(done.stdout.splitlines()) == expected, len(done.stdout))

    return read


def _archived(files: Files) -> Read:
    def read(seen: Seen) -> None:
        for name in files.names:
            files.drop(name)
        found: dict[str, bool] = {}
        size_bytes = 0
        with tempfile.TemporaryFile() as errors:
            tar = subprocess.Popen(
                ["tar", "c", "-C", files.folder, "."], stdout=subprocess.PIPE, stderr=errors
            )
            with tar, tarfile.open(fileobj=tar.stdout, mode="r|") as archive:
                for member in archive:
                    if (part := archive.extractfile(member)) is not None:
                        data = part.read()
                        size_bytes += len(data)
                        name = os.path.basename(member.name)
                        found[name] = is_right(name, data)
            _raise_failure(tar.returncode, errors)
        right = {name for name, is_well in found.items() if is_well}
        seen.note(f"tar: {set(files.names) ^ right}", right == set(files.names), size_bytes)

    return read


def _raise_failure(status: int, errors: Any) -> None:
    if status:
        errors.seek(0)
        text = errors.read().decode()
        # tar reports that a file shrank if a part of a read came before the error.
        is_known = os.strerror(errno.EIO) in text or "File shrank" in text
        raise OSError(errno.EIO if is_known else 0, text)


def _loaded(files: Files) -> Read:
    """Read epochs of a DataLoader of torch with persistent workers, which hints at files ahead."""
    from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

    from ffrfs.torch import PrefetchSampler

    class Items(Dataset[Any]):
        def __len__(self) -> int:
            return len(files.names)

        def __getitem__(self, number: int) -> tuple[str, bool, int]:
            files.drop(name := files.names[number])
            with open(files.path(name), "rb") as file:
                data = file.read()
            return name, is_right(name, data), len(data)

    items = Items()
    paths = [files.path(name) for name in files.names]
    batches = BatchSampler(RandomSampler(items), _BATCH_SIZE, drop_last=False)
    sampler: Any = PrefetchSampler(batches, paths, ahead=len(paths))
    loader: DataLoader[Any] = DataLoader(
        items, batch_sampler=sampler, num_workers=2, collate_fn=list, persistent_workers=True
    )

    def read(seen: Seen) -> None:
        names = []
        for batch in loader:
            for name, is_well, size_bytes in batch:
                names.append(name)
                seen.note(name, is_well, size_bytes)
        seen.note(f"epoch: {names}", sorted(names) == files.names, 0)

    return read


WAYS: dict[str, Callable[[Files], Read]] = {
    "plain": _plain,
    "mapped": _mapped,
    "find": _found,
    "tar": _archived,
    "torch": _loaded,
}


def read_in_chaos(way: str, folder: str, seed: int, duration_s: float) -> Iterator[Any]:
    """Yield "ready"; read in this way until the time is over and a read succeeded; yield Seen."""
    files = Files(folder, seed)
    read = WAYS[way](files)
    seen = Seen(way)
    yield "ready"
    ends_s = time.monotonic() + duration_s
    while (began_s := time.monotonic()) < ends_s or not seen.reads:
        try:
            read(seen)
        except OSError as error:
            seen.failures.append((error.errno or 0, began_s, time.monotonic(), str(error)))
            time.sleep(_PAUSE_S)
        else:
            seen.reads += 1
            seen.longest_s = max(seen.longest_s, time.monotonic() - began_s)
            time.sleep(files.order.random() * _REST_MAX_S)
    yield asdict(seen)


def read_all(folder: str) -> list[str]:
    """Return the files that are not right, read past the kernel's cache."""
    files = Files(folder, 0)
    seen = Seen("plain")
    for name in files.names:
        fd = os.open(files.path(name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        with open(fd, "rb") as file:
            seen.note(name, is_right(name, file.read()), 0)
    return seen.wrong
