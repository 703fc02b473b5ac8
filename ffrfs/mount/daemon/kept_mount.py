"""The state that a mount's next daemon needs: how it was mounted, and its descriptors.

The guardian (native/guardian) or the service manager keeps this state, and passes it to the next
daemon as sd_listen_fds(3) says. The descriptors are those of the connection, of the engine, and of
a file in memory with texts and numbers.

Concurrency: no state but the descriptors.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ffrfs.errors import describe
from ffrfs.mount.config.config import Config
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.kept_engine import KeptEngine
from ffrfs.mount.engines.worker_deaths import WorkerDeaths
from ffrfs.mount.kernel import dead_mount, kernel_mount, state
from ffrfs.mount.kernel.known_fields import known_fields
from ffrfs.mount.kernel.mount_table import MountEntry
from ffrfs.mount.kernel.options import TreeOptions
from ffrfs.mount.kernel.system_call import memfd_create

_FIRST = 3  # SD_LISTEN_FDS_START
_SIZE_MAX = 16 << 20
CONNECTION, FIGURES, GUARDIAN, OWNER = "connection", "figures", "guardian", "owner"
SWEEPER = "sweeper"
_ENGINES = ("page", "worker", "log", "process")
_MAYBE_ENGINES = ("fetched",)
NAMES = (CONNECTION, FIGURES, *_ENGINES, *_MAYBE_ENGINES, OWNER, SWEEPER)

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class KeptMount:
    """A mount without its daemon."""

    request: MountRequest
    state: state.MountState  # of the daemon that kept it
    entry: MountEntry
    connection: int
    engine: KeptEngine
    base_bytes: int  # MemoryLimit.base_bytes
    is_foreground: bool
    daemon_starts: int = 0  # how many daemons have gone on with it
    is_renewal: bool = False  # the daemon that kept it ends by request
    guardian: int | None = None  # a socket
    sweeper: int | None = None  # a pipe to the process that removes a mount which nobody keeps

    def descriptors(self) -> dict[str, int]:
        """Return all that the next daemon needs, in the order of NAMES.

        The caller owns the descriptor of FIGURES. Raises OSError.
        """
        found = {CONNECTION: self.connection, FIGURES: self.figures(), **self.engine.descriptors}
        maybe = {OWNER: self.request.while_open, SWEEPER: self.sweeper}
        return found | {name: fd for name, fd in maybe.items() if fd is not None}

    def is_for(self, request: MountRequest) -> bool:
        """Return whether the request is for this mount, which has not ended."""
        is_same = (request.packs, request.mountpoint) == (self.request.packs, self.entry.mountpoint)
        return is_same and kernel_mount.is_connected(self.connection)

    def give_up(self) -> None:
        """End the mount and its engine."""
        kernel_mount.abort(self.connection, self.entry)
        dead_mount.detach_dead(self.entry.mountpoint)
        for fd in (self.connection, *self.engine.descriptors.values(), self.sweeper):
            if fd is not None:
                os.close(fd)

    def figures(self) -> int:
        """Return a file in memory with all but the descriptors; the caller owns it."""
        fields = asdict(self)
        for name in ("connection", "guardian", "sweeper"):
            del fields[name]
        with contextlib.ExitStack() as failed:
            file = memfd_create("ffrfs-mount", os.MFD_CLOEXEC)
            failed.callback(os.close, file)
            with open(file, "wb", closefd=False) as writing:
                writing.write(json.dumps(fields).encode("ascii"))
            os.lseek(file, 0, os.SEEK_SET)  # for a process that reads it as standard input
            failed.pop_all()
        return file


def kept_mount(environment: MutableMapping[str, str] | None = None) -> KeptMount | None:
    """Return the mount that the variables of sd_listen_fds(3) name, and remove them.

    None: they name no mount, or not a whole one, whose descriptors are closed then.
    """
    environment = os.environ if environment is None else environment
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    count = environment.pop("LISTEN_FDS", "")
    if environment.pop("LISTEN_PID", "") != str(os.getpid()) or count != str(len(names)):
        return None
    found: dict[str, int] = {}
    for fd, name in enumerate(names, _FIRST):
        os.set_inheritable(fd, False)
        if name in found:  # the manager may not have removed an older one
            os.close(found[name])
        found[name] = fd
    if not {CONNECTION, FIGURES, *_ENGINES} <= found.keys():
        for fd in found.values():
            os.close(fd)
        return None
    try:
        with open(found[FIGURES], "rb") as file:
            file.seek(0)
            return mount_of(file.read(_SIZE_MAX), found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.error("the mount of the last daemon is given up: %s", describe(error))
        for name, fd in found.items():
            if name != FIGURES:
                os.close(fd)
        return None


def mount_of(figures: bytes, found: Mapping[str, int]) -> KeptMount:
    """Return the mount of these figures and descriptors, which a daemon of any version has kept.

    Fields that this version does not know are left out; raises TypeError if one is missing, and
    errors of other kinds if the figures are damaged.
    """
    fields = json.loads(figures)
    names = (*_ENGINES, *(name for name in _MAYBE_ENGINES if name in found))
    engine = fields["engine"] | {
        "descriptors": {name: found[name] for name in names},
        "deaths": known_fields(WorkerDeaths, fields["engine"]["deaths"]),
    }
    more = {
        "request": replace(_request(fields["request"]), while_open=found.get(OWNER)),
        "state": state.of_fields(fields["state"]),
        "entry": MountEntry(**known_fields(MountEntry, fields["entry"])),
        "connection": found[CONNECTION],
        "engine": KeptEngine(**known_fields(KeptEngine, engine)),
        "guardian": found.get(GUARDIAN),
        "sweeper": found.get(SWEEPER),
    }
    return KeptMount(**known_fields(KeptMount, fields) | more)


def _request(fields: dict[str, Any]) -> MountRequest:
    """Return the request from the `fields` of asdict(); JSON has turned its tuples into lists."""
    asked = fields["asked"]
    if asked is not None:
        tuples = {name: tuple(asked[name]) for name in ("packs", "words")}
        asked = Config(**known_fields(Config, asked) | tuples)
    options = TreeOptions(**known_fields(TreeOptions, fields["options"]))
    changed = {"packs": tuple(fields["packs"]), "options": options, "asked": asked}
    return MountRequest(**known_fields(MountRequest, fields) | changed)
