"""The loop of `ffrfs top`: handles keys, and decides when to draw.

It draws once a second, when the daemons have answered or a moment later, and at every
key. While it is paused, mounts are still asked, so that the last minute has no hole after it.

Concurrency: one thread, which waits for keys, answers and the next second together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.text import Text

from ffrfs.mount.client.watched import Look, Watched
from ffrfs.top import columns
from ffrfs.top.canvas import Canvas
from ffrfs.top.mount_view import mount_view
from ffrfs.top.overview import overview
from ffrfs.top.screen import CHANGED, Screen

INTERVAL_S = 1.0
_FIRST_INTERVAL_S = 0.5  # rates need a second answer
_LATE_S = 0.25  # after that it draws without the missing answers

_HELP = """\
q         quit
p         pause the screen; the mounts are still watched
s, S      sort by the next, or the previous, column
up, down  choose a mount; also k, j
Enter     show the chosen mount; Esc goes back
space     ask the mounts now
h, ?      this page

MB/S      millions of bytes per second that readers got
REQ/S     requests of the kernel per second; cached files cost none
P50, P99  50 % and 99 % of the requests took at most this time
HIT       share of the bytes that did not wait for the storage
MEMORY    of the processes of the mount
from      where the bytes came from. From page cache and storage
          whole records are read, so the sum may be larger than MB/s
fetched   from servers, for packs at URLs; hit rate: share of the blocks that
          were in the cache; retries and throttled: requests that were repeated
blocks    of packs at URLs, in the cache directory
prefetch, readahead  records read ahead, for hints or for readers in order
around    neighbours of files that are read in no order
"""


class Watch:
    """One run of the command on a screen."""

    def __init__(self, screen: Screen, out: TextIO, watched: Watched, *, is_alone: bool) -> None:
        """Prepare the screen. `is_alone`: one mount is watched, without a list to go back to."""
        self._screen = screen
        self._watched = watched
        self._is_alone = is_alone
        self._encoding = out.encoding
        self._console = Console(
            file=out, force_terminal=True, highlight=False, markup=False, emoji=False
        )
        self._looks: tuple[Look, ...] = ()
        self._column = columns.MOUNT
        self._chosen: str | None = None
        self._is_open = is_alone
        self._is_paused = self._is_help = False

    def run(self) -> None:
        """Run until q is pressed."""
        interval_s = _FIRST_INTERVAL_S
        asked_s = self._ask()
        is_drawn = False
        while True:
            self._watched.receive()
            now_s = time.monotonic()
            if not is_drawn and (not self._watched.is_waiting or now_s >= asked_s + _LATE_S):
                self._take_look()
                self._draw()
                is_drawn = True
            if now_s >= asked_s + interval_s:
                asked_s, interval_s, is_drawn = self._ask(), INTERVAL_S, False
                continue
            next_s = asked_s + (interval_s if is_drawn else _LATE_S)
            keys = self._screen.wait(max(next_s - now_s, 0), self._watched)
            for key in keys:
                if key in ("q", "Q"):
                    return
                if key == "space":
                    interval_s = 0
                self._press(key)
            if keys:
                self._draw()

    def _ask(self) -> float:
        self._watched.ask()
        return time.monotonic()

    def _take_look(self) -> None:
        if not self._is_paused:
            self._looks = self._watched.looks()

    def _press(self, key: str) -> None:
        if self._is_help and key != CHANGED:
            self._is_help = False
            return
        match key:
            case "p" | "P":
                self._is_paused = not self._is_paused
                self._take_look()
            case "h" | "?":
                self._is_help = True
            case "s" | "S":
                self._sort(1 if key == "s" else -1)
            case "up" | "k":
                self._choose(-1)
            case "down" | "j":
                self._choose(1)
            case "enter" if (chosen := self._chosen_look()) is not None:
                self._chosen = chosen.mount.mountpoint
                self._is_open = True
            case "escape":
                self._is_open = self._is_alone

    def _sort(self, step: int) -> None:
        shown = columns.fitting(self._screen.size()[0])
        at = shown.index(self._column) if self._column in shown else 0
        self._column = shown[(at + step) % len(shown)]

    def _ordered(self) -> list[Look]:
        return columns.ordered(self._looks, self._column)

    def _choose(self, step: int) -> None:
        places = [look.mount.mountpoint for look in self._ordered()]
        if places:
            at = places.index(self._chosen) if self._chosen in places else 0
            self._chosen = places[min(max(at + step, 0), len(places) - 1)]

    def _chosen_look(self) -> Look | None:
        """Return the chosen mount, at first the first one; None if it has gone."""
        looks = self._ordered()
        if self._chosen is None:
            return looks[0] if looks else None
        return next((look for look in looks if look.mount.mountpoint == self._chosen), None)

    def _draw(self) -> None:
        width, height = self._screen.size()
        self._console.size = (width, height)
        canvas = Canvas(self._encoding, width, max(height - 2, 1))
        frame = Layout()
        frame.split_column(
            Layout(self._title(width), size=1),
            Layout(Group(*self._body(canvas))),
            Layout(self._keys(canvas), size=1),
        )
        with self._console.capture() as captured:
            self._console.print(frame, no_wrap=True, overflow="crop")
        self._screen.show(captured.get().splitlines()[:height])

    def _body(self, canvas: Canvas) -> Iterator[RenderableType]:
        if self._is_help:
            yield from map(Text, _HELP.splitlines())
            return
        chosen = self._chosen_look()
        if not self._is_open:
            place = chosen.mount.mountpoint if chosen else None
            yield from overview(self._ordered(), place, self._column, canvas)
        elif chosen is not None:
            yield from mount_view(chosen, canvas)
        elif self._looks or not self._is_alone:
            yield Text("It is not mounted any more.", "bold")

    def _title(self, width: int) -> Text:
        state = " paused " if self._is_paused else ""
        clock = time.strftime("%H:%M:%S")
        room = " " * max(width - len("ffrfs top") - len(state) - len(clock) - 2, 1)
        return Text.assemble(
            ("ffrfs top", "bold"), "  ", (state, "reverse bold yellow"), room, (clock, "dim")
        )

    def _keys(self, canvas: Canvas) -> Text:
        keys = [("q", "quit"), ("p", "resume" if self._is_paused else "pause")]
        if self._is_help:
            keys = [("q", "quit"), ("any key", "back")]
        elif not self._is_open:
            keys += [("s", f"sort: {self._column.title}"), (canvas.arrows, "choose")]
            keys += [("Enter", "open")]
        elif not self._is_alone:
            keys += [("Esc", "back")]
        keys += [] if self._is_help else [("space", "now"), ("h", "help")]
        text = Text()
        for key, what in keys:
            text.append(key, "bold reverse").append(f" {what}  ")
        return text
