"""The command, run in this process: fast enough to try everything with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.ffrecord_file import Tree

TREE: Tree = {
    "a": {"b": {"deep.txt": b"deep\n"}, "large": bytes(range(256)) * 8192, "é": b"2"},
    "empty": {},
    "nothing": b"",
    "z.txt": b"last\n",
}


@dataclass
class Done:
    """A command that has ended."""

    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def said(self) -> list[str]:
        """The lines of a command that ended well, and complained of nothing."""
        assert (self.status, self.err) == (0, "")
        return self.lines

    @property
    def complaint(self) -> str:
        """The one line of a command that failed, and printed nothing else."""
        assert (self.status, self.out, self.err.count("\n")) == (1, b"", 1), self.err
        assert self.err.startswith("ffrfs: ")
        return self.err.removeprefix("ffrfs: ").removesuffix("\n")


Run = Callable[..., Done]
