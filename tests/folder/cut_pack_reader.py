"""A program that reads a pack while it is truncated and restored: PACK FOLDERS FILES COUNT.

The pack has FOLDERS folders `0`, `1` ... of FILES files `file_0000`, ... . As pytest and many
services do, the program calls faulthandler.enable() when the pack is open already.
"""

from __future__ import annotations

import contextlib
import faulthandler
import random
import sys
from pathlib import Path

from ffrfs import PackedFolder
from tests.cut_file import cutting


def main() -> None:
    path, folder_count, file_count, count = Path(sys.argv[1]), *map(int, sys.argv[2:])
    names = [f"{i}/file_{k:04d}" for i in range(folder_count) for k in range(file_count)]
    chance = random.Random(1)
    wrong: list[str] = []
    with PackedFolder(path) as folder:
        faulthandler.enable()
        with cutting(path) as cut:
            while cut.count < count:
                name = chance.choice(names)
                for asked, answer in ((name, True), (f"{name}x", False)):
                    with contextlib.suppress(OSError, ValueError):
                        wrong += [asked] * (folder.exists(asked) is not answer)
        wrong += [name for name in names if not folder.exists(name)]  # the pack is whole again
    print(len(wrong), "wrong")


if __name__ == "__main__":
    main()
