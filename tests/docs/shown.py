"""Runs the commands that the documents show as a user does who pastes them into a shell.

The commands of a document run one after the other, in a directory with the files that they read.
Places such as /mnt are replaced by folders beside it. A command that inspects a mount gets one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.checkout import CHECKOUT
from tests.mount.preloaded import preloaded

DOCUMENTS = ("README.md", *sorted(f"docs/{path.name}" for path in (CHECKOUT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELLS = ("", "sh", "console")
_COMMAND = re.compile(r"^(?:\$ )?((?:\w+=\S+ )*(?:find .*\| )?(?:sudo )?\S*\bffrfs [a-z].*)$", re.M)
_LIST = "ffrfs pack SRC DST "
# Beginnings of the commands that the tests of documents do not run, and the reasons.
NOT_RUN = {
    "ffrfs pack --shards 1000 --executor": "tests/adapters/dask and ray pack with clusters",
    "ffrfs verify  --executor dask": "tests/adapters/dask verifies with a cluster",
    "ffrfs index   --executor ray": "tests/adapters/ray indexes with a cluster",
    "ffrfs cluster ": "tests/cluster/test_planned_pack.py and test_recipes.py run a plan",
    "sudo ffrfs": "tests/service installs units and reads their configuration",
    "/opt/ffrfs/bin/": "tests/packages installs in bare roots",
    "AZURE_": "tests/remote/test_mount_clouds.py mounts from Azurite",
    "GOOGLE_": "tests/remote/test_mount_clouds.py mounts from fake-gcs-server",
    "ffrfs mount --anonymous gs:": "the same",
}
_PLACES = re.compile(r"(?<![\w./~])/(mnt|nvme|shared|data)/")
# These commands run until they are interrupted.
_ENDLESS = re.compile(r"ffrfs (?:top|view|log -f)\b")
_LOOKS = re.compile(r"ffrfs (?:stats|check|log|prefetch|warm|view) .*?(/\S*/mnt/\w+)")
_DEVIATES = "ffrfs schema validate"  # exit status 1: there are anomalies
# A command that a shell would only split into words, and that does not exec another program.
_WORDS = re.compile(r"ffrfs (?!run )(?:[^'\"\\\\|&;<>()$`*?\[#~\n]|'[^']*')*")
_ADVISED = "--to parquet --shards"  # this warns of small files, as a test has them
TIMEOUT_S = 120


def commands(document: str) -> list[str]:
    """Return the commands of a document in order, without its list of all commands."""
    text = (CHECKOUT / document).read_text()
    blocks = [block for language, block in _BLOCK.findall(text) if language in _SHELLS]
    shown = [line for block in blocks if _LIST not in block for line in _COMMAND.findall(block)]
    return [line.partition("  #")[0].rstrip() for line in shown]


def is_run(line: str) -> bool:
    return not line.startswith(tuple(NOT_RUN))


def is_remote(line: str) -> bool:
    return "://" in line or "prefetch --all" in line  # it fills a mounted URL's cache


@dataclass
class Shell:
    """A shell whose home, working directory and places such as /mnt are below `work`."""

    work: Path
    replaced: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    _mounts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        bin_folder = self.work / "bin"
        bin_folder.mkdir()
        for name, text in {
            "ffrfs": f'exec "{sys.executable}" -m ffrfs "$@"',
            "python": f'exec "{sys.executable}" "$@"',
            "ssh": 'while [ "$1" != ffrfs ]; do shift; done; exec "$@"',
        }.items():
            (bin_folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (bin_folder / name).chmod(0o755)
        for place in ("mnt", "nvme", "shared", "data"):
            (self.work / place).mkdir()

    def run(self, shown: str) -> None:
        """Run a command. Raises AssertionError with its output if it fails or complains."""
        line = _PLACES.sub(rf"{self.work}/\1/", shown).replace(" ~/", f" {self.work}/")
        for old, new in self.replaced.items():
            line = line.replace(old, new)
        look = _LOOKS.search(line)
        if look is not None and not os.path.ismount(look[1]):
            self._shell(f"ffrfs mount imagenet.ffr {look[1]}")
            self._mounts.add(look[1])
        if "ffrfs mount" in line:
            (mountpoint,) = re.findall(r"\S*\bmnt\b\S*", line)
            self._unmount(mountpoint)
            self._mounts.add(mountpoint)
        *words, target = shlex.split(line)
        if re.search("ffrfs (?:pack|convert) (?!--append)", line) and target not in words:
            self._remove(self.work / "here" / target)  # the output of another recipe
        if _ENDLESS.search(line):
            self._interrupted(line)
        else:
            self._shell(line, shown)

    def close(self) -> None:
        with contextlib.ExitStack() as mounts:  # unmounts all, even if one fails
            for mountpoint in self._mounts:
                mounts.callback(self._unmount, mountpoint)

    def _remove(self, path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _unmount(self, mountpoint: str) -> None:
        if os.path.ismount(self.work / "here" / mountpoint):
            self._shell(f"ffrfs umount {mountpoint}")

    def _environ(self) -> dict[str, str]:
        path = f"{self.work}/bin:{os.environ['PATH']}"
        own = {"HOME": str(self.work), "PATH": path, "USER": "me", "BROWSER": "true"}
        return os.environ | own | self.environment

    def _shell(self, line: str, shown: str = "") -> None:
        if line.startswith("ffrfs check"):  # status 2: a busy machine may answer late
            line = f"until {line}\n[ $? != 2 ]; do sleep 0.1; done"
        if _WORDS.fullmatch(line):
            status, out, err = self._forked(shlex.split(line)[1:])
        else:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                cwd=self.work / "here",
                env=self._environ(),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            status, out, err = done.returncode, done.stdout, done.stderr
        good = (0, 1) if line.startswith(_DEVIATES) else (0,)
        says = not err or _ADVISED in line
        assert status in good and says, f"{shown or line}: {status}, {out}{err}"

    def _forked(self, words: list[str]) -> tuple[int, str, str]:
        """Run the command without another start of Python."""
        here = str(self.work / "here")
        return preloaded().run(words, self._environ(), TIMEOUT_S, directory=here)

    def _interrupted(self, line: str) -> None:
        """Run the command until it has printed something, then interrupt it."""
        with subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self.work / "here",
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                first = process.stdout.readline()
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=TIMEOUT_S)
            finally:
                process.kill()
        assert first.strip(), f"{line}: {err}"


def left_out() -> Iterator[str]:
    """Yield the commands that are not run."""
    for document in DOCUMENTS:
        yield from (line for line in commands(document) if not is_run(line))
