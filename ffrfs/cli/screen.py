"""A terminal, while a command fills it with lines that change.

Plain ANSI sequences, which every terminal knows: no library, no terminfo, so it works in a
container that has neither. It uses the other screen that terminals have, so what stood
there before is there again afterwards: at the end, when a signal ends the command, and
while it is stopped (Ctrl-Z).

Concurrency: the main thread's, one at a time: it has handlers of signals.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import FrameType

from ffrfs.printable import printable

# The other screen, no cursor, no wrapping of long lines; and back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_STOPPING = (signal.SIGTSTP,)
_UNKNOWN_SIZE = (80, 24)


def is_usable() -> bool:
    """Whether there is a terminal to write to, and to read keys from."""
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") not in ("", "dumb")
    )


class Screen:
    """Use it with `with`. Ctrl-C is a KeyboardInterrupt, as ever."""

    def __init__(self) -> None:
        self._keys, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Screen:
        self._attributes = termios.tcgetattr(self._keys)
        for number in (*_ENDING, *_STOPPING):
            signal.signal(number, self._give_way)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        self._enter()
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # not halfway back
        self._leave()
        signal.set_wakeup_fd(-1)
        for number in (*_ENDING, *_STOPPING, signal.SIGWINCH):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(self._wake)
        os.close(self._woken)

    def show(self, lines: Sequence[str]) -> None:
        """Show these alone, as far as there is room."""
        columns, rows = os.get_terminal_size(self._out)
        columns, rows = columns or _UNKNOWN_SIZE[0], rows or _UNKNOWN_SIZE[1]
        # Names in them are others': no control characters.
        shown = (printable(line)[:columns] for line in lines[:rows])
        self._write(_HOME + "\n".join(line + _END_OF_LINE for line in shown) + _END_OF_SCREEN)

    def wait(self, timeout_s: float) -> str | None:
        """The next key; None: there was none in time, or what is shown must be shown anew."""
        ready, _, _ = select.select([self._keys, self._wake], [], [], timeout_s)
        if self._wake in ready:
            os.read(self._wake, 4096)
            return None
        if self._keys in ready:
            return os.read(self._keys, 1).decode("ascii", "replace") or "q"  # the terminal has gone
        return None

    def _enter(self) -> None:
        tty.setcbreak(self._keys, termios.TCSANOW)
        self._write(_ENTER)

    def _leave(self) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._keys, termios.TCSANOW, self._attributes)

    def _give_way(self, number: int, _: FrameType | None) -> None:
        """Do what the signal is for: end here, or stop, and go on from here."""
        self._leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._give_way)
        self._enter()

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding, "replace")
        while data:
            data = data[os.write(self._out, data) :]
