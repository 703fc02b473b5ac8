"""The rooms that need a room, directly or through others, and that its change may break.

    python -m tests.rooms_above native/fetch    the native tests to run, as a regular expression

`pytest --room ffrfs/remote` runs the Python tests of these rooms. Tests that belong to no room
(house, docs, soak, hostile) use all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.checkout import CHECKOUT
from tests.house import sources
from tests.house.test_rooms import native_rooms, python_rooms, room_of


def python_above(room: str) -> set[str]:
    """Return the rooms of ffrfs that need `room` ("ffrfs/mount/kernel"), and itself."""
    if room.startswith("native/"):
        return set(python_rooms())  # _native is one module, which nearly all import.
    users: dict[str, set[str]] = {}
    for above, paths in python_rooms().items():
        for path in paths:
            for _, target in sources.imports(path):
                users.setdefault(room_of(target), set()).add(above)
    return _reach(room.removeprefix("ffrfs/").replace("/", "."), users, set(python_rooms()))


def native_above(room: str) -> set[str]:
    """Return the rooms of native/ that need `room` ("native/fetch"), and itself."""
    users: dict[str, set[str]] = {}
    for above, paths in native_rooms().items():
        for path in paths:
            for _, name in sources.includes(path):
                users.setdefault(name.split("/")[0], set()).add(above)
    return _reach(room.removeprefix("native/"), users, set(native_rooms()))


def _reach(room: str, users: dict[str, set[str]], known: set[str]) -> set[str]:
    if room not in known:
        raise SystemExit(f"{room}: no such room; rooms are directories of ffrfs/ and native/")
    found = {room}
    waiting = [room]
    while waiting:
        new = users.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def needs_room(path: Path, rooms: set[str]) -> bool:
    """Return whether the tests in a file are of one of `rooms`, or of no room."""
    name = ".".join(path.relative_to(CHECKOUT / "tests").parts[:-1])
    room = room_of(f"tests.{name}")
    return room in rooms or room not in python_rooms()


def native_tests(room: str) -> str:
    """Return a regular expression of the names of the native tests; all of them without a room."""
    if not room:
        return "."
    folders = [CHECKOUT / "tests/native" / above for above in sorted(native_above(room))]
    names = sorted(path.stem for folder in folders for path in folder.glob("*_test.cc"))
    return f"^({'|'.join(names)})$"


if __name__ == "__main__":
    print(native_tests(sys.argv[1]))
