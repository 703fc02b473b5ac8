"""A terminal, while a command fills it with lines that change.

It handles modes, keys and signals, and writes the output of rich (overview.py, mount_view.py).
It uses plain ANSI sequences, which every terminal knows, and the alternate screen, so that the
text before the command reappears: at its end, when a signal ends it, and while it is stopped
(Ctrl-Z).

Concurrency: the main thread, one screen at a time: it has handlers of signals.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import tty
from collections.abc import Sequence
from types import FrameType
from typing import TextIO

from ffrfs.mount.client.watched import Watched

# The alternate screen, no cursor, no wrapping of long lines; and back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_STOPPING = (signal.SIGTSTP,)
_UNKNOWN_SIZE = (80, 24)

# The sequence that a terminal sends for one key.
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_NAMES = {
    **{b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down"},
    **{b"\x1b": "escape", b"\r": "enter", b"\n": "enter", b" ": "space"},
}
_SEQUENCE_S = 0.05  # the time for the rest of a key's sequence; without it, the key was Escape
CHANGED = "changed"  # no key: the size has changed, or the command continues after Ctrl-Z


def is_usable(keys: TextIO, out: TextIO) -> bool:
    """Return whether there is a terminal to write to, and to read keys from."""
    return keys.isatty() and out.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


class Screen:
    """The terminal, as a context manager. Ctrl-C remains a KeyboardInterrupt."""

    def __init__(self, keys: TextIO, out: TextIO) -> None:
        self._keys, self._out, self._encoding = keys.fileno(), out.fileno(), out.encoding
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Screen:
        self._attributes = termios.tcgetattr(self._keys)
        for number in (*_ENDING, *_STOPPING):
            signal.signal(number, self._give_way)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        # SIGSTOP gives no warning, and the shell has changed the modes after it.
        signal.signal(signal.SIGCONT, lambda *_: self._enter())
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        try:
            self._enter()
        except BaseException:  # also Ctrl-C
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, *_STOPPING):  # so that restoring is not interrupted
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        self._leave()
        signal.set_wakeup_fd(-1)
        for number in (*_ENDING, *_STOPPING, signal.SIGWINCH):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(self._wake)
        os.close(self._woken)

    def size(self) -> tuple[int, int]:
        """Return columns and rows."""
        columns, rows = os.get_terminal_size(self._out)
        return columns or _UNKNOWN_SIZE[0], rows or _UNKNOWN_SIZE[1]

    def show(self, lines: Sequence[str]) -> None:
        """Show only these lines. They fit the size; their only control characters are colours."""
        # Each line is cleared first: after a full line the cursor is on its last character.
        shown = "\n".join(_END_OF_LINE + line for line in lines)
        self._write(_HOME + shown + _END_OF_SCREEN)

    def wait(self, timeout_s: float, watched: Watched) -> list[str]:
        """Return the pressed keys, by name or character; none: an answer came, or time is up."""
        readers: list[int | Watched] = [self._keys, self._wake, watched]
        ready, _, _ = select.select(readers, [], [], timeout_s)
        found = []
        if self._wake in ready:
            os.read(self._wake, 4096)
            found.append(CHANGED)
        if self._keys in ready:
            found += self._read_keys()
        return found

    def _read_keys(self) -> list[str]:
        data = os.read(self._keys, 256)
        if data == b"\x1b" and select.select([self._keys], [], [], _SEQUENCE_S)[0]:
            data += os.read(self._keys, 256)
        if not data:
            return ["q"]  # the terminal is gone
        return [_NAMES.get(key) or key.decode("ascii", "replace") for key in _KEY.findall(data)]

    def _enter(self) -> None:
        tty.setcbreak(self._keys, termios.TCSANOW)
        self._write(_ENTER)

    def _leave(self) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._keys, termios.TCSANOW, self._attributes)

    def _give_way(self, number: int, _: FrameType | None) -> None:
        """Let the signal act: end here, or stop, and continue from here."""
        self._leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._give_way)
        self._enter()

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._out, data) :]
