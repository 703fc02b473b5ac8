"""What a child asks of a mount whose index lies (test_mount_hostile_index.py)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Answer = tuple[str, Any]  # "is" and what; "errno" and which


def answer(act: Callable[[], Any]) -> Answer:
    try:
        return "is", act()
    except OSError as error:
        return "errno", error.errno


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def answers(root: str, questions: list[tuple[str, str]]) -> list[Answer]:
    """To each (act, path)."""
    acts: dict[str, Callable[[str], Any]] = {
        "list": lambda path: sorted(os.listdir(path)),
        "read": read,
        "readlink": os.readlink,
        "size": lambda path: os.lstat(path).st_size,
    }
    return [answer(lambda a=act, p=path: acts[a](os.path.join(root, p))) for act, path in questions]


def count_entries(root: str, limit: int) -> int:
    """As find(1) counts them, whatever fails; no further than `limit`."""
    count = 0
    for _, folders, files in os.walk(root):
        count += len(folders) + len(files)
        if count > limit:
            break
    return count
