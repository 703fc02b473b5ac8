"""Mounting without being root, through fusermount3."""

from __future__ import annotations

import re

import pytest

from tests.mount.makers import ORDINARY_USER_ID, AskAsUser, by_all_ways


@by_all_ways
def test_mount_read_and_unmount_as_an_ordinary_user(
    engine: str, as_ordinary_user: AskAsUser
) -> None:
    seen = as_ordinary_user("ordinary_user.py", engine, "mounts")
    refusal, nameless = seen.pop("refusal"), seen.pop("nameless")
    assert "fusermount3 needs an entry of user 1987654321" in nameless
    assert re.fullmatch(
        "ready|.*: cannot mount: .*'nosymfollow'; mount as root", seen.pop("nosymfollow")
    )
    assert seen == {
        "mount": ["fuse.ffrfs", r"a,b\c d"],
        "bytes": "content",
        "owner": ORDINARY_USER_ID,
        "busy": True,
        "gone": True,
        "late bytes": "content",
        "idle": False,
        "left": ["ffrfs"],
    }
    # allow_other is refused, unless /etc/fuse.conf of this machine lets everybody use it.
    assert refusal == "ready" or "user_allow_other" in refusal


@pytest.mark.promise("S18")
def test_unmount_by_a_program(engine: str, as_ordinary_user: AskAsUser) -> None:
    assert as_ordinary_user("ordinary_user.py", engine, "unmounts_for_a_program") == {
        "language": [True, True, "content"],
        "ends": [True, True, "content"],
        "left": ["ffrfs"],
    }
