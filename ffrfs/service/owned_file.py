"""A file of ours in a directory of the machine's: written whole, and recognised later.

Its last line is a comment with the digest of all before it. So a file of another program, or
one that was changed since, is distinguished from a file that may be replaced or removed.

Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ffrfs.files.staged_file import StagedFile

_SEAL = "written by ffrfs install-units, --uninstall takes it away, sha256"
_SEALED = re.compile(
    rb"(?P<text>.*\n|)[^\n]{1,3} " + re.escape(_SEAL).encode() + rb" (?P<digest>[0-9a-f]{64})\n",
    re.DOTALL,
)
_SIZE_MAX = 1 << 20
_FOLDER_MODE = 0o755  # in spite of the umask, because all users need them


class Standing(enum.Enum):
    """The state of the path of a file that would be written."""

    ABSENT = "nothing"
    CURRENT = "the same file"
    OURS = "ours, of other content"
    CHANGED = "ours, changed since"
    FOREIGN = "another program's"


@dataclass(frozen=True)
class OwnedFile:
    """A file to be written. `path` is absolute; `text` ends with a line break."""

    path: str
    text: str
    mode: int = 0o644

    @property
    def content(self) -> bytes:
        text = self.text.encode()
        comment = r".\"" if self.text.startswith(".") else "#"  # manual pages; all other files
        return text + f"{comment} {_SEAL} {hashlib.sha256(text).hexdigest()}\n".encode()

    def standing(self, root: str) -> Standing:
        """Return the state of the path now, below the directory `root`."""
        path = self.place(root)
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return Standing.ABSENT
        if not stat.S_ISREG(status.st_mode) or status.st_size > _SIZE_MAX:
            return Standing.FOREIGN
        content = Path(path).read_bytes()
        if content == self.content and stat.S_IMODE(status.st_mode) == self.mode:
            return Standing.CURRENT
        sealed = _SEALED.fullmatch(content)
        if sealed is None:
            return Standing.FOREIGN
        digest = hashlib.sha256(sealed["text"]).hexdigest().encode()
        return Standing.OURS if digest == sealed["digest"] else Standing.CHANGED

    def write(self, root: str) -> None:
        path = self.place(root)
        _make_folders(os.path.dirname(path))
        with StagedFile(path, follow=False, mode=self.mode) as staged:
            staged.write(self.content)
            staged.publish()

    def remove(self, root: str) -> None:
        """Remove the file, and directories that become empty: all of them below a separate root,
        but below "/" only directories with our name.
        """
        path = self.place(root)
        os.unlink(path)
        folder = os.path.dirname(path)
        with contextlib.suppress(OSError):  # the directory is not empty
            while folder != root and (root != "/" or os.path.basename(folder) == "ffrfs"):
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def place(self, root: str) -> str:
        return os.path.join(root, self.path.lstrip("/"))


def _make_folders(path: str) -> None:
    if os.path.isdir(path):
        return
    _make_folders(os.path.dirname(path))
    os.mkdir(path)
    os.chmod(path, _FOLDER_MODE)
