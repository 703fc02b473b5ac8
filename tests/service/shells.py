"""Real shells, and how they complete a line.

bash and zsh run on terminals of their own and receive keys: one key inserts all candidates, one
reports the line. fish reads lines and writes their candidates. No shell reads a user's files.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TIMEOUT_S = 60
NAMES = ("bash", "zsh", "fish")

_ALL, _TELL = b"\x1b*", b"\x18d"  # Alt-*, bash's own key for it; Ctrl-X d
_BASH = """
PS1= HISTFILE=
bind 'set enable-bracketed-paste off'
bind 'set bell-style none'
tell() { printf '%s\\0' "$READLINE_LINE" >&@FD@; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\\C-xd": tell'
source @SCRIPTS@/ffrfs.bash
printf '\\0' >&@FD@
"""
_ZSH = """
PROMPT= RPROMPT= HISTFILE=
unset zle_bracketed_paste
setopt no_beep
fpath=(@SCRIPTS@ $fpath)
autoload -Uz compinit && compinit -u -D
zle -C all-matches complete-word _generic
zstyle ':completion:all-matches::::' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert true
bindkey '^[*' all-matches
tell() { printf '%s\\0' "$BUFFER" >&@FD@; BUFFER= }
zle -N tell
bindkey '^Xd' tell
printf '\\0' >&@FD@
"""
_COMMANDS = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], _BASH),
    "zsh": (["zsh", "-f", "-i"], _ZSH),
}


class Terminal:
    """A running shell that receives keys."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self._screen, theirs = pty.openpty()
        self._told, self._told_fd = os.pipe()
        try:
            self._process = subprocess.Popen(
                arguments,
                cwd=folder,
                env={"PATH": os.environ["PATH"], "TERM": "vt100", "HOME": str(folder)},
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                pass_fds=[self._told_fd],
                start_new_session=True,
            )
        finally:
            os.close(theirs)
            os.close(self._told_fd)

    def set_up(self, setup: str, scripts: Path, folder: Path) -> None:
        text = setup.replace("@SCRIPTS@", str(scripts)).replace("@FD@", str(self._told_fd))
        file = folder / ".setup"
        file.write_text(text)
        self._press(b" . ./.setup\n")
        self._answer()
        file.unlink()

    def complete(self, before: str, word: str) -> list[str]:
        """Return the words in the place of `word` after the shell inserted all its candidates."""
        self._press(f"{before} {word}".encode() + _ALL + _TELL)
        return shlex.split(self._answer())[len(shlex.split(before)) :]

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._screen)
        os.close(self._told)

    def _press(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def _answer(self) -> str:
        """Return the shell's next report. Read its screen meanwhile, or the shell would block."""
        screen, told = b"", b""
        end_s = time.monotonic() + TIMEOUT_S
        while not told.endswith(b"\0"):
            left_s = max(0.0, end_s - time.monotonic())
            ready, _, _ = select.select([self._screen, self._told], [], [], left_s)
            assert ready, f"the shell does not answer; on its screen: {screen!r}"
            if self._told in ready:
                told += os.read(self._told, 65536)
            if self._screen in ready:
                screen += os.read(self._screen, 65536)
        return told[:-1].decode()


class Fish:
    """A fish that completes lines, one after the other."""

    def __init__(self, scripts: Path, folder: Path) -> None:
        question = "while read --null line; complete -C $line; printf '\\0'; end"
        program = f"source $argv[1]/ffrfs.fish; {question}"
        self._process = subprocess.Popen(
            ["fish", "--no-config", "-c", program, str(scripts)],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def complete(self, before: str, word: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{before} {word}\0".encode())
        self._process.stdin.flush()
        answer = self._answer()
        return [candidate.partition("\t")[0] for candidate in answer.splitlines()]

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        told, end_s = b"", time.monotonic() + TIMEOUT_S
        while not told.endswith(b"\0"):
            left_s = max(0.0, end_s - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], left_s)
            assert ready, f"fish does not answer: {told!r}"
            chunk = os.read(self._process.stdout.fileno(), 65536)
            assert chunk, f"fish has ended: {told!r}"
            told += chunk
        return told[:-1].decode()


Shell = Terminal | Fish


@contextlib.contextmanager
def open_shell(name: str, scripts: Path, folder: Path) -> Iterator[Shell]:
    """Open a shell with the completions in `scripts`; it works, and has its home, in `folder`."""
    if name == "fish":
        with contextlib.closing(Fish(scripts, folder)) as fish:
            yield fish
        return
    arguments, setup = _COMMANDS[name]
    terminal = Terminal(arguments, folder)
    try:
        terminal.set_up(setup, scripts, folder)
        yield terminal
    finally:
        terminal.close()
