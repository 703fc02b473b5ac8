"""The plan of a command, kept in the directory of the set until the set is complete.

Not here: making it (planning.py), what it is for (packing.py).
Concurrency: one thread. Two commands of one plan do the same work twice, and no harm.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial

from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.planning import make_plan
from ffrfs.cluster.request import Request
from ffrfs.errors import PackError
from ffrfs.folder.progress import Progress
from ffrfs.remote.bucket import bytes_of, pin_of, remove, upload
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, is_url, parse_url

PLAN_NAME = ".ffrfs-plan"
_PIECE_SIZE = 8 << 20


@contextmanager
def kept_plan(
    request: Request,
    executor: Executor,
    tmp_dir: str | None,
    progress: Progress | None = None,
) -> Iterator[Plan]:
    """Give the plan of `request`, the one that is there or a new one; at a good end it goes.

    Raises PackError if the directory has another plan, or files, and what plan() raises.
    """
    opened = _remote if is_url(request.target) else _local
    make = partial(make_plan, executor=executor, tmp_dir=tmp_dir, progress=progress)
    with opened(request, make, tmp_dir) as plan, contextlib.closing(plan):
        if plan.request != request:
            raise PackError(
                f"{request.target}: has the plan {PLAN_NAME} of other sources or options; finish "
                "it by its own command, or remove it together with its shards"
            )
        yield plan


@contextmanager
def _local(request: Request, make: Callable[[Request, str], Plan], _: str | None) -> Iterator[Plan]:
    place = os.path.join(request.target, PLAN_NAME)
    if os.path.lexists(place):
        plan = Plan(place)
    else:
        is_new = not os.path.lexists(request.target)
        os.makedirs(request.target, exist_ok=True)
        try:
            plan = make(request, place)
        except BaseException:
            if is_new:
                os.rmdir(request.target)
            raise
    yield plan
    os.unlink(place)


@contextmanager
def _remote(
    request: Request, make: Callable[[Request, str], Plan], tmp_dir: str | None
) -> Iterator[Plan]:
    settings = RemoteSettings.from_environment()
    folder = parse_url(f"{request.target.rstrip('/')}/")
    url = folder.child(PLAN_NAME)
    with tempfile.TemporaryDirectory(prefix="ffrfs-plan-", dir=tmp_dir) as above:
        place = os.path.join(above, PLAN_NAME)
        if _download(url, place, settings):
            plan = Plan(place)
        else:
            plan = make(request, place)
            upload(place, url, settings, lambda _: None)
        yield plan
        remove(url, settings)


def _download(url: RemoteUrl, place: str, settings: RemoteSettings) -> bool:
    pin = pin_of(url, settings)
    if pin is None:
        return False
    with open(place, "wb") as file:
        for offset in range(0, pin.size, _PIECE_SIZE):
            file.write(bytes_of(pin, offset, min(_PIECE_SIZE, pin.size - offset), settings))
    return True
