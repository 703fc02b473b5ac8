"""Many mounts in all conditions, and `ffrfs umount --all`.

    all_mounts.py ENGINE PACK FOLDER

test_ps.py runs this in namespaces of its own, so there are no other mounts. It prints as JSON
the output of the commands, and the traces that are left.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ffrfs import pack_folder
from ffrfs.mount.client.mount_statuses import MountStatus, mount_statuses
from ffrfs.mount.kernel import state
from tests.leftovers import found, found_in_the_end, reap, wait_for_daemons
from tests.mount.command import ffrfs, kill_for_good, wait_until


def main() -> None:
    engine, pack, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    seen: dict[str, object] = {
        "ps of none": run("ps"),
        "ps --json of none": run("ps", "--json"),
        "umount of none": run("umount", "--all"),
    }
    outer = folder / "outer.ffr"
    (folder / "source" / "inside").mkdir(parents=True)
    pack_folder(folder / "source", outer)
    places = {
        name: folder / name
        for name in ("live", "busy", "dead", "gone", "unknown", "unknown dead", "covered")
    }
    # A first mount makes the files that stay: the runtime directory, and mount(8)'s own.
    mount(engine, pack, places["live"])
    subprocess.run(["umount", places["live"]], check=True, timeout=20)
    wait_for_daemons()
    expected = found(str(folder))

    for name, place in places.items():
        mount(engine, outer if name == "live" else pack, place)
    mount(engine, pack, folder / "live" / "inside")
    for name in ("dead", "gone", "unknown dead"):
        kill(places[name])
    subprocess.run(["umount", places["gone"]], check=True, timeout=20)
    hidden = {name: lose_state(places[name]) for name in ("unknown", "unknown dead")}
    subprocess.run(["mount", "-t", "tmpfs", "none", places["covered"]], check=True, timeout=20)

    with open(places["busy"] / "a") as file:
        seen["before"] = conditions(folder)
        seen["umount --all"] = run("umount", "--all")
        seen["after"] = conditions(folder)
        seen["busy is read"] = file.read()
    subprocess.run(["umount", places["covered"]], check=True, timeout=20)
    for name in ("unknown", "covered"):
        seen[f"{name} is read"] = (places[name] / "a").read_text()
    hidden["unknown"].rename(hidden["unknown"].with_suffix(".json"))
    seen["in the end"] = [run("umount", "--all"), conditions(folder)]
    reap()
    # Without its state file, no command knows that a mount made these.
    places["unknown dead"].rmdir()
    for kept in hidden["unknown dead"].parent.glob(f"{hidden['unknown dead'].stem}.*"):
        kept.unlink()
    seen["expected"] = expected
    seen["left"] = found_in_the_end(str(folder), expected)
    print(json.dumps(seen))


def run(*arguments: str) -> list[object]:
    done = ffrfs(*arguments)
    return [done.status, done.out, done.err]


def mount(engine: str, pack: Path, place: Path) -> None:
    done = ffrfs("mount", "--engine", engine, pack, place)
    assert done.status == 0, done.err


def kill(place: Path) -> None:
    (_, known) = state.find(str(place)) or (None, None)
    assert known is not None
    kill_for_good(known.process.pid)
    assert known.process.wait(20)


def lose_state(place: Path) -> Path:
    """Hide the mount's state file, and return its new path."""
    (directory, _) = state.find(str(place)) or (None, None)
    assert directory is not None
    path = Path(state._path(directory, str(place)))
    return path.rename(path.with_suffix(".hidden"))


def conditions(folder: Path) -> dict[str, str]:
    """Return each mount's condition by its place, once all have ended or answered."""
    found: list[MountStatus] = []

    def are_settled() -> bool:
        found[:] = mount_statuses()
        return not {one.state for one in found} & {"detached", "not answering"}

    wait_until(are_settled, "all have ended, or answered")
    return {str(Path(one.mountpoint).relative_to(folder)): one.state for one in found}


if __name__ == "__main__":
    main()
