"""The plan of a command, kept in the directory of the set until the set is complete.

There is one plan at a time: its file gets its name only if no other has it, and a command that
uses it holds a shared lock on it. In a bucket an object of that name, put on condition that there
is none, names the object that holds the plan. So of commands for one directory one makes its set,
and commands of equal requests do the same work twice, without harm.

Not here: making the plan (planning.py), its use (packing.py).
Concurrency: one thread; any number of processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TypeAlias

from ffrfs._native import Pack, folder_files
from ffrfs.cluster.manifest import remove_waiting
from ffrfs.cluster.piece import KEPT_REMEDY, PLAN_NAME
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.planning import make_plan
from ffrfs.cluster.request import Request
from ffrfs.errors import ChecksumError, FormatError, PackError
from ffrfs.files.leftovers import is_at, remove_leftovers, take_lock
from ffrfs.files.staged_file import move_new, staged_folder
from ffrfs.packing.places import locked_set, shard_name
from ffrfs.packing.sources.existing_set import identity_of, packs_in
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.target_folder import TargetFolder
from ffrfs.remote.bucket import bytes_of, objects_in, pin_of, put_new, upload
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

_PIECE_SIZE = 8 << 20
_NAME_SIZE_MAX = 100
_PRIVATE = 0o700
_NAME = re.compile(rb"\.ffrfs-plan-[0-9a-f]{16}")

Make: TypeAlias = Callable[[str], Plan]  # as the file of that path


@contextmanager
def kept_plan(
    request: Request,
    executor: Executor | None,
    options: PackOptions | None = None,
) -> Iterator[Plan]:
    """Yield the existing plan of `request`, or a new one; remove it if the block ends well.

    Raises PackError if the directory has another plan, or files, and the errors of plan().
    """
    chosen = options or request.options

    def make(path: str) -> Plan:
        return make_plan(request, chosen, path, executor)

    opened = _remote(request, make, chosen) if is_url(request.target) else _local(request, make)
    with opened as plan, contextlib.closing(plan):
        yield plan


@contextmanager
def _local(request: Request, make: Make) -> Iterator[Plan]:
    place = os.path.join(request.target, PLAN_NAME)
    made, missing = [], os.path.abspath(request.target)
    while not os.path.lexists(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    os.makedirs(request.target, exist_ok=True)
    remove_leftovers(request.target, again=True)
    try:
        plan, lock = _taken(request, make, place)
    except BaseException:
        with contextlib.suppress(OSError):  # another command has begun a plan there
            for folder in made:
                os.rmdir(folder)
        raise
    try:
        yield plan
        if is_at(lock, place):
            os.unlink(place)
    finally:
        os.close(lock)


def _taken(request: Request, make: Make, place: str) -> tuple[Plan, int]:
    """Return the plan at `place`, made if missing, and the descriptor that holds its lock."""
    while True:
        lock, is_own = _locked(place), False
        if lock is None:
            lock, is_own = _give(request, make, place), True
        if lock is None:
            continue
        with contextlib.ExitStack() as failed:
            failed.callback(os.close, lock)
            with contextlib.suppress(FileNotFoundError):  # its command has ended well
                plan = _opened(place, place)
                failed.callback(plan.close)
                if is_at(lock, place) and _is_usable(plan, request, lock, is_own=is_own):
                    failed.pop_all()
                    return plan, lock


def _opened(path: str, shown: str) -> Plan:
    """Open the plan; errors name it `shown`. No command makes a damaged one again."""
    try:
        return Plan(path)
    except (FormatError, ChecksumError):
        why = f"bad plan: it is damaged, or no plan of ffrfs; {KEPT_REMEDY}"
        raise FormatError.at(shown, why) from None


def _locked(place: str) -> int | None:
    """Open the plan, with a lock that says that a command uses it; None if there is no plan."""
    try:
        fd = os.open(place, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    if not take_lock(fd, shared=True):
        os.close(fd)
        raise PackError(f"{place}: another process is removing it; try again")
    return fd


def _give(request: Request, make: Make, place: str) -> int | None:
    """Make the plan; return the descriptor of its lock, or None if its name is taken already.

    It is locked before it gets its name, so other commands always see that it is in use.
    """
    with staged_folder(request.target, "plan", request.target) as above:
        staging = os.path.join(above, PLAN_NAME)
        with contextlib.closing(make(staging)) as plan:
            lock = _linked(staging, place)
            if lock is not None and request.options.append:
                try:
                    # The set is locked only after this plan has the name: another command that
                    # uses the plan of that name locks the set at its end, and must find it free.
                    _refuse_changed(plan)
                except BaseException:
                    os.unlink(place)
                    os.close(lock)
                    raise
            return lock


def _refuse_changed(plan: Plan) -> None:
    """Raise PackError if the set has changed since it was listed, or another command adds to it."""
    with locked_set(plan.target):
        if identity_of(packs_in(plan.target)) != (plan.set_id, plan.header.first_number):
            raise PackError(
                f"{plan.target}: was added to meanwhile; nothing was added; run the command again"
            )


def _linked(staging: str, place: str) -> int | None:
    lock = _locked(staging)
    if lock is None:
        return None
    with contextlib.ExitStack() as failed:
        failed.callback(os.close, lock)
        with contextlib.suppress(FileExistsError):
            move_new(staging, place)
            failed.pop_all()
            return lock
    return None


def _is_usable(plan: Plan, request: Request, lock: int, *, is_own: bool) -> bool:
    """Return whether the plan can be used. If shards added meanwhile have its numbers, remove it.

    Raises PackError if it is the plan of another request, or if another set is there.
    """
    if _is_overtaken(plan, request):
        if not _is_alone(lock):
            raise PackError(f"{plan.target}: another process is adding to it; try again")
        shutil.rmtree(plan.place, ignore_errors=True)
        os.unlink(plan.path)
        return False
    if plan.request != request:
        raise PackError(_reason(plan, is_alone=_is_alone(lock)))
    other = _shard_of_other(plan)
    if other is not None:
        if is_own:
            os.unlink(plan.path)
        raise PackError(
            f"{other}: exists already, and is not of this plan; remove it, or write elsewhere"
        )
    return True


def _is_alone(lock: int) -> bool:
    """Return whether no other command uses the plan; then no other can begin to use it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _reason(plan: Plan, *, is_alone: bool) -> str:
    if not is_alone:
        return (
            f"{plan.target}: another command is packing into it, by the plan {PLAN_NAME}; wait for "
            "its end, or write elsewhere"
        )
    shards = "its shards" if plan.place == plan.target else os.path.basename(plan.place)
    return (
        f"{plan.target}: has the plan {PLAN_NAME} of other sources or options; finish it by its "
        f"own command, or remove it together with {shards}"
    )


def _is_overtaken(plan: Plan, request: Request) -> bool:
    """Return whether other commands have added shards of its numbers to the set of `request`.

    A plan that somebody has put there may name any other directory, which is left alone.
    """
    if plan.target != request.target or plan.place == plan.target:
        return False
    there = set(TargetFolder(plan.target).names())
    return any(
        os.path.basename(plan.moved(number)) in there
        and plan.task(number, on_error="skip").target != plan.moved(number)
        for number in range(len(plan))
    )


def _shard_of_other(plan: Plan) -> str | None:
    """Return the shard of another set in the directory of a new one."""
    if plan.place != plan.target:
        return None
    paths = map(os.fsdecode, folder_files(os.fsencode(plan.target))[0])
    return next((path for path in paths if _is_of_other(path, plan)), None)


def _is_of_other(path: str, plan: Plan) -> bool:
    """Return whether the file is a shard of another plan than this one of a new set."""
    try:
        shard = Pack(os.fsencode(path)).shard
    except (FormatError, ChecksumError):
        return False  # a damaged shard is made again
    return shard is not None and (shard[0], shard[2]) != (plan.set_id, len(plan))


@contextmanager
def _remote(request: Request, make: Make, options: PackOptions) -> Iterator[Plan]:
    if request.has_query:
        raise PackError(
            f"{request.target}: all users of the bucket could read the plan there, and the query "
            "of SRC in it, which may be a key; plan into a local file by `ffrfs cluster plan`"
        )
    folder = _Folder(request.target)
    temporary = os.fspath(options.tmp_dir or tempfile.gettempdir())
    with staged_folder(temporary, "ffrfs-plan", mode=_PRIVATE) as above:
        place = os.path.join(above, PLAN_NAME)
        own = None
        while True:
            while (name := folder.name_of_plan()) is None or not folder.download(name, place):
                if name is not None and name == folder.name_of_plan():
                    why = f"bad plan: there is no {name}; remove it"
                    raise FormatError.at(folder.plan.shown, why)
                make(place).close()
                own = folder.give(place)
            plan = _opened(place, folder.plan.shown)
            if not _is_overtaken(plan, request):
                break
            remove_waiting(plan)
            folder.remove_plan(name)
            plan.close()
        if plan.request != request:
            plan.close()
            raise PackError(_reason(plan, is_alone=True))
        if folder.has_other(plan):
            plan.close()
            if name == own:
                folder.remove_plan(own)
            raise PackError(
                f"{request.target}: has a shard that is not of this plan; remove it, or write "
                "elsewhere"
            )
        yield plan
        folder.remove_plan(name)


class _Folder:
    """The directory of a bucket, and the plan in it: `plan` is the object that names it.

    Raises RemoteError.
    """

    def __init__(self, target: str) -> None:
        self._folder = TargetFolder(target)
        self._url = parse_url(f"{target.rstrip('/')}/")
        self.plan = self._url.child(PLAN_NAME)
        self._settings = RemoteSettings.from_environment()

    def name_of_plan(self) -> str | None:
        name = self._folder.read(PLAN_NAME, _NAME_SIZE_MAX)
        if name is None:
            return None
        if not _NAME.fullmatch(name):
            raise FormatError.at(self.plan.shown, f"bad plan: it names no plan; {KEPT_REMEDY}")
        return name.decode()

    def download(self, name: str, place: str) -> bool:
        """Write the plan to the file `place`; return False if it is missing."""
        pin = pin_of(self._url.child(name), self._settings)
        if pin is None:
            return False
        with open(place, "wb") as file:
            for offset in range(0, pin.size, _PIECE_SIZE):
                size = min(_PIECE_SIZE, pin.size - offset)
                file.write(bytes_of(pin, offset, size, self._settings))
        return True

    def give(self, place: str) -> str | None:
        """Upload the plan `place`, and name it unless another is named; return its name."""
        name = f"{PLAN_NAME}-{secrets.token_hex(8)}"
        upload(place, self._url.child(name), self._settings, lambda _: None)
        named = None
        try:
            put_new(self.plan, name.encode(), self._settings)
            # The answer to a request that did its work may be lost.
            named = self.name_of_plan()
            if named is None:  # a store without conditional writes
                self._folder.write(PLAN_NAME, name.encode())
                named = self.name_of_plan()
        finally:
            if named != name:
                self._folder.remove(name)
        return name if named == name else None

    def has_other(self, plan: Plan) -> bool:
        """Return whether another set is there: each has a first shard."""
        first = self._url.child(shard_name(0))
        if plan.place != plan.target or pin_of(first, self._settings) is None:
            return False
        let_urls_in([first.text])
        return _is_of_other(first.text, plan)

    def remove_plan(self, name: str) -> None:
        """Remove the plan of that name, and older ones, which killed commands have left.

        A younger one may belong to a command that has begun meanwhile.
        """
        plans = [
            found
            for found in objects_in(self._url, self._settings)[0]
            if _NAME.fullmatch(found.name.encode())
        ]
        own_ns = next((found.mtime_ns for found in plans if found.name == name), 0)
        if self.name_of_plan() == name:
            self._folder.remove(PLAN_NAME)
        for found in plans:
            if found.name == name or found.mtime_ns < own_ns:
                self._folder.remove(found.name)
