"""Mounting without being root, through fusermount3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import kill_group
from conftest import PackTree

from ffrfs.mount.worker import PATH_VARIABLE, worker_path

USER_ID = 65534


def test_mount_read_and_unmount_as_an_ordinary_user(
    root_user: None, engine: str, pack_tree: PackTree, places: Path
) -> None:
    pack = places / "tree.ffr"
    pack.write_bytes(pack_tree({"file": b"content"}).read_bytes())
    home = places / "home"
    home.mkdir()
    os.chown(home, USER_ID, USER_ID)
    # A copy: the user may not be let into the folders above the program itself.
    worker = worker_path()
    assert worker is not None
    shutil.copy(worker, places / "worker")
    program = Path(__file__).with_name("ordinary_user.py")
    process = subprocess.Popen(
        ["unshare", "--mount", sys.executable, program, pack, home, str(USER_ID), engine],
        env=os.environ | {PATH_VARIABLE: str(places / "worker")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=60)
    finally:
        kill_group(process)
    if "unshare failed" in err:
        pytest.skip("mount namespaces are not permitted here")
    assert process.returncode == 0, err
    seen = json.loads(out)
    refusal = seen.pop("refusal")
    assert seen == {
        "mount": ["fuse.ffrfs", r"a,b\c d"],
        "bytes": "content",
        "owner": USER_ID,
        "busy": True,
        "gone": True,
        "late bytes": "content",
        "idle": False,
        "left": ["ffrfs"],
    }
    # Unless /etc/fuse.conf of this machine lets everybody.
    assert refusal == "ready" or "user_allow_other" in refusal
