"""`make demo`: pack a folder, mount it, read it with unmodified programs, compare, unmount.

Ends with status 1 if anything differs. Only child processes touch a mount, each with a time
limit. In any case, the mount is removed at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import sample_folder

HERE = Path(__file__).resolve().parent
FFRFS = (sys.executable, "-m", "ffrfs")
TIMEOUT_S = 60
NO_FUSE = """\
There is no /dev/fuse here, so nothing can be mounted.
  On a machine of your own:  sudo modprobe fuse
  In a container:            docker run --device /dev/fuse --cap-add SYS_ADMIN ...
Then run make demo again."""


class DemoError(Exception):
    """A program failed, took too long, or read other bytes than the source has."""


def main() -> int:
    if not os.path.exists("/dev/fuse"):
        print(NO_FUSE)
        return 1
    work = Path(tempfile.mkdtemp(prefix="ffrfs-demo-")).resolve()  # the form in the mount table
    try:
        show(work)
    except DemoError as failure:
        print(f"\nThe demo failed: {failure}")
        return 1
    finally:
        # Never remove a tree that may still be mounted.
        if unmount_anyhow(work):
            shutil.rmtree(work)
    return 0


def show(work: Path) -> None:
    source, pack, mounted = (work / name for name in ("pictures", "pictures.ffr", "mnt"))
    title("A folder, as a training program would have it")
    sample_folder.make(str(source))
    files = sorted(path for path in source.rglob("*") if path.is_file())
    kinds = Counter(path.suffix for path in files)
    print("  ", ", ".join(f"{count} {suffix}" for suffix, count in kinds.most_common()))
    print(f"   {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")

    title("Packed into one file, and mounted")
    ffrfs(work, "pack", source.name, pack.name)
    ffrfs(work, "mount", pack.name, mounted.name)

    title("There it is")
    print("   $ ls -l mnt")
    print(indented(run("ls", "-l", mounted)))

    title("Read by programs that have never heard of ffrfs")
    compare_reads(source, mounted)
    compare_tools(source, mounted, work / "copy", files)

    title("Unmounted")
    ffrfs(work, "umount", mounted.name)

    title("From a disk of 1 ms a read: files a second, nothing cached, shuffled, 4 readers")
    show_speed(work / "slow")
    print(f"\nAll {len(files)} files were the same, whichever way they were read.")


def compare_reads(source: Path, mounted: Path) -> None:
    """Compare pixels and numbers, as OpenCV and NumPy decode them."""
    there, here = (
        json.loads(run(sys.executable, HERE / "read_folder.py", root)) for root in (mounted, source)
    )
    for name in sorted(here.keys() | there.keys()):
        if here.get(name) != there.get(name):
            raise DemoError(f"{name} was read differently from the mount")
    suffixes = Counter(os.path.splitext(name)[1] for name in there)
    same("cv2.imread", f"{suffixes['.png'] + suffixes['.jpg']} pictures, every pixel")
    same("np.load", f"{suffixes['.npy'] + suffixes['.npz']} files, every number")


def compare_tools(source: Path, mounted: Path, copy: Path, files: Sequence[Path]) -> None:
    names = [path.relative_to(source) for path in files]
    texts = [name for name in names if name.suffix in (".txt", ".csv")]
    for tool, chosen in (("cat", texts), ("sha256sum", names)):
        there, here = (run(tool, *chosen, cwd=root) for root in (mounted, source))
        if there != here:
            raise DemoError(f"{tool} printed something else on the mount")
        same(tool, f"{len(chosen)} files")
    run("cp", "-r", mounted, copy)
    run("diff", "-r", source, copy)
    same("cp -r", "the whole tree, the empty folder too")


def show_speed(work: Path) -> None:
    work.mkdir()
    found = json.loads(run(sys.executable, "-m", "benchmarks.slow_demo", work, cwd=HERE.parent))
    if "missing" in found:
        print(f"   not shown: {found['missing']}")
        return
    for name, rate in found.items():
        print(f"   {name:18}{rate:>7,.0f}")


def ffrfs(cwd: Path, *arguments: str) -> None:
    start = time.perf_counter()
    run(*FFRFS, *arguments, cwd=cwd)
    print(f"   $ {' '.join(('ffrfs', *arguments)):42}{time.perf_counter() - start:7.2f} s")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program and return what it printed.

    It has a process group of its own: a child that hangs on a mount is left behind, not waited
    for, and can be killed together with its own children.
    """
    child: subprocess.Popen[str] = subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        start_new_session=True,
    )
    shown = " ".join(map(str, command[:4]))
    try:
        output, errors = child.communicate(timeout=TIMEOUT_S)
    except BaseException as error:
        os.killpg(child.pid, signal.SIGKILL)
        if isinstance(error, subprocess.TimeoutExpired):
            raise DemoError(f"{shown} ... took more than {TIMEOUT_S} s") from None
        raise
    if child.returncode:
        raise DemoError(f"{shown} ... ended with status {child.returncode}:\n{output}{errors}")
    return output


def unmount_anyhow(work: Path) -> bool:
    """Unmount all mounts below `work`; return False if one is left."""
    for command in ((*FFRFS, "umount"), ("fusermount3", "-uz")):
        for place in reversed(mounted_below(work)):
            with contextlib.suppress(DemoError):
                run(*command, place)
    return not mounted_below(work)


def mounted_below(work: Path) -> list[str]:
    """Return the mount points below `work`, from the table: looking at a mount could hang."""
    table = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    places = [line.split()[4] for line in table.splitlines()]
    return [place for place in places if place.startswith(f"{work}/")]


def title(text: str) -> None:
    print(f"\n{text}")


def same(program: str, what: str) -> None:
    print(f"   {program:12}the same: {what}")


def indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
