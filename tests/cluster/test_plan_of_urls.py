"""Plans of packs at URLs: a query, which may be a key, is for the plan's owner alone."""

# ruff: noqa: F401, F811 - fixtures of another room

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.cluster import Plan, commit, run
from ffrfs.cluster.kept_plan import kept_plan
from ffrfs.cluster.request import Request
from ffrfs.errors import PackError
from ffrfs.packing.sources.options import PackOptions
from tests.cluster.trees import make_tree, planned
from tests.folder.folder_model import shown
from tests.remote.conftest import web, web_root
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import Nginx


@pytest.mark.promise("S70")
def test_other_users_cannot_read_a_key_in_a_plan(
    web: Nginx, web_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(tmp_path / "tree")
    pack_folder(tree, web_root / "planned.ffr")
    url = f"{web.url}/planned.ffr?sig=hush"
    place, target = tmp_path / "set.plan", tmp_path / "set"
    planned(tree, tmp_path / "other", place).close()  # others may read this plan
    assert place.stat().st_mode & stat.S_IROTH
    with reading_urls(monkeypatch, tmp_path):
        planned([url], target, place).close()  # type: ignore[list-item]
        assert b"sig=hush" in place.read_bytes()  # tasks on other machines need it, too
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        with Plan(place) as plan:
            for number in range(len(plan)):
                run(plan, number)
            commit(plan)
    assert shown(target).items() >= shown(web_root / "planned.ffr").items()


def test_a_key_in_a_url_is_not_written_to_a_bucket() -> None:
    request = Request.of(["https://host/x.ffr?sig=hush"], "s3://bucket/set", PackOptions(shards=2))
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(PackError, match=r"could read the plan there.*ffrfs cluster plan") as caught,
        kept_plan(request, pool, None),
    ):
        pytest.fail("it is refused")
    assert "hush" not in str(caught.value)
